"""The command :profile: switch, list, show, compare, save, edit and remove profiles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from . import advice, document, offers, profiles, saving
from .api import Choices, Event, GptreplError, Notice, Table, command
from .builtins import changes_between, differences
from .commands import find, obey, split
from .editing import edited_text
from .profiles import PLUS, Profile
from .session import Session
from .settings import NEVER_SAVED, Settings

ProfileName = Annotated[
    str, Choices(lambda session: {**offers.profile_names(), **advice.rows(session)})
]
NAME = re.compile(r"\w[\w.-]*")
BLANK = "description: \n"


# --- looking ------------------------------------------------------------------------------------


def listed(session: Session) -> Iterator[Event]:
    """Yield the table of profiles, the one in use marked, and what was changed since."""
    used = session.settings.profile.split(PLUS)
    known = {**offers.profile_names(), **advice.rows(session)}
    rows = [("*" if name in used else "", name, text) for name, text in sorted(known.items())]
    yield Table(("", "profile", "description"), tuple(rows), "profiles")
    unsaved = differences(session.settings.without_typed(), session.settings)
    if unsaved:
        changed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in unsaved.items())
        yield Notice(f"not saved: {changed} (`:profile save NAME` saves it)")


def show(session: Session, name: ProfileName | None = None) -> Iterator[Event]:
    """Show what the profile NAME sets, also by what it extends; without NAME the one in use."""
    found = advice.read(session, name or session.settings.profile)
    settings = Settings().under(found.name, found.changes)
    rows = [(key, settings.value(key), profiles.source_of(found, key)) for key in found.changes]
    yield Notice(f"{found.name}: {found.description or found.path}")
    if found.extends:
        yield Notice(f"extends {' '.join(found.extends)}")
    yield Table(("setting", "value", "from"), tuple(rows), found.name)
    for line, where in found.commands:
        yield Notice(f"runs {line}  ({where})")


def diff(session: Session, one: ProfileName, other: ProfileName | None = None) -> Iterator[Event]:
    """Show what is different under the profiles ONE and OTHER; without OTHER, in use now."""
    ground = session.settings.with_layers(session.settings.of_user())
    first = under(ground, advice.read(session, one))
    second = session.settings if other is None else under(ground, advice.read(session, other))
    rows = [(key, old, new) for key, (old, new) in differences(first, second).items()]
    if not rows:
        yield Notice("nothing is different")
        return
    yield Table(("setting", one, other or "now"), tuple(rows), "differences")


def under(settings: Settings, profile: Profile) -> Settings:
    """Return *settings* under a profile."""
    return settings.under(profile.name, profile.changes)


# --- switching ----------------------------------------------------------------------------------


def switch(session: Session, name: str) -> Iterator[Event]:
    """Adopt the profile *name* and run its commands; where one fails all is as it was before."""
    found = advice.read(session, name)
    check(found)
    before = session.settings
    yield from session.apply(under(before, found))
    yield Notice(f"profile {found.name}")
    yield from changes_between(before, session.settings)
    if not found.commands:
        return
    try:
        with session.scope.reading(found.path.absolute()):  # so that it cannot switch to itself
            yield from obey(session, found.commands)
    except GptreplError:
        yield from session.apply(before)
        raise


def check(profile: Profile) -> None:
    """Raise GptreplError, with file and line, for a command of the profile that does not exist."""
    for line, where in profile.commands:
        if not line.startswith(":") or line.startswith(("::", ":#")):
            continue
        try:
            find(split(line)[0])
        except GptreplError as error:
            raise GptreplError(f"{where}: commands: {error}") from None


# --- keeping ------------------------------------------------------------------------------------


def save(session: Session, name: ProfileName) -> Iterator[Event]:
    """Save the settings as profile NAME: what differs from the profile in use, which it extends.

    The file changes whole or not at all. Where there is one it asks first; `:profile save! NAME`
    writes over it without asking. NAME is a name, or the path of a .yaml file.
    """
    yield from keep(session, name, force=False)


def save_over(session: Session, name: ProfileName) -> Iterator[Event]:
    """Save the settings as profile NAME, also over one that is there."""
    yield from keep(session, name, force=True)


def keep(session: Session, name: str, *, force: bool) -> Iterator[Event]:
    """Save the settings as profile *name* and put them under it."""
    path = target(name)
    if not (force or is_allowed(session, path, f":profile save! {name}", "write over")):
        yield Notice("nothing was saved")
        return
    saved = saving.save(path, session.settings, ancestor(session.settings, name, path))
    layers = session.settings.of_user() | {"profile": saved.changes}
    for origin in ("command line", "typed"):
        layer = session.settings.layers.get(origin, {})
        layers[origin] = {key: layer[key] for key in layer if key in NEVER_SAVED}
    settings = session.settings.with_layers(layers)
    yield from session.apply(dataclasses.replace(settings, profile=saved.name))
    yield Notice(f"saved {path}")


def ancestor(settings: Settings, name: str, path: Path) -> Profile:
    """Return what the profile to be saved is like: itself, or one that extends that in use."""
    if settings.profile == name and not profiles.is_same(path, profiles.locate(name)):
        return dataclasses.replace(profiles.read(name), path=path)
    if settings.profile == name:
        return profiles.read(name)
    in_use = settings.profile != Settings().profile or "profile" in settings.layers
    in_use = in_use and not advice.is_advice(settings.profile)  # which no file can extend
    extends = tuple(settings.profile.split(PLUS)) if in_use else ()
    inherited = profiles.read(settings.profile).commands if in_use else ()
    return Profile(name, path, {}, extends=extends, commands=inherited)


def target(name: str) -> Path:
    """Return the file that a profile called *name* is written to.

    That is the one of this name in `profiles/` here if there is one, else the user's own.
    """
    if profiles.is_path(name):
        return Path(name).expanduser()
    if not NAME.fullmatch(name) or name in VERBS:
        raise GptreplError(f"a profile cannot be called {name!r}: give it a plain word")
    found = profiles.found().get(name)
    here = found is not None and profiles.is_same(found.parent, Path("profiles"))
    is_shipped = found is not None and profiles.is_same(found.parent, profiles.shipped())
    if found is not None and here and not is_shipped:
        return found
    return profiles.user_folder() / f"{name}.yaml"


def is_allowed(session: Session, path: Path, force: str, action: str) -> bool:
    """Return whether the file *path* may go, if it is there: the user is asked.

    Raises GptreplError, which names the command *force*, where there is nobody to be asked.
    """
    if not path.exists():
        return True
    if session.confirm is None:
        raise GptreplError(f"{path} is there already: `{force}` does it all the same")
    return session.confirm(f"{action} {path}?")


def edit(session: Session, name: ProfileName) -> Iterator[Event]:
    """Edit the profile NAME in your editor; one that ships becomes a copy of your own.

    What has a fault is not saved but kept, and the next `:profile edit NAME` goes on with it.
    """
    if session.console is None:
        raise GptreplError("an editor needs a terminal")
    path = target(name)
    draft = path.with_name(f".{path.name}.draft")
    found = draft if draft.exists() else profiles.found().get(name, path)
    before = document.read(found, "the profile") if found.exists() else BLANK
    text = edited_text(before, session.console.lent())
    if not text.strip() or (text.strip() == before.strip() and found != draft):
        yield Notice("nothing was saved")
        return
    try:
        check(profiles.parse(text, path))
    except GptreplError as error:
        document.put(draft, text)
        raise GptreplError(
            f"{error}; nothing was saved, `:profile edit {name}` goes on with what you wrote"
        ) from None
    document.put(path, text)
    draft.unlink(missing_ok=True)
    yield Notice(f"saved {path}; `:profile {name}` switches to it")


def remove(session: Session, name: ProfileName) -> Iterator[Event]:
    """Remove the profile NAME; `:profile rm! NAME` does not ask first."""
    yield from drop(session, name, force=False)


def remove_anyway(session: Session, name: ProfileName) -> Iterator[Event]:
    """Remove the profile NAME without asking."""
    yield from drop(session, name, force=True)


def drop(session: Session, name: str, *, force: bool) -> Iterator[Event]:
    """Remove the file of profile *name*."""
    path = profiles.locate(name)
    if profiles.is_same(path.parent, profiles.shipped()):
        raise GptreplError(f"{name} ships with gptrepl and cannot be removed")
    if not (force or is_allowed(session, path, f":profile rm! {name}", "remove")):
        yield Notice("nothing was removed")
        return
    try:
        path.unlink()
    except OSError as error:
        raise GptreplError(f"cannot remove {path}: {error.strerror}") from None
    yield Notice(f"removed {path}")


VERBS: dict[str, Callable[..., Iterator[Event]]] = {
    "save": save,
    "save!": save_over,
    "show": show,
    "diff": diff,
    "edit": edit,
    "rm": remove,
    "rm!": remove_anyway,
}


@command(verbs=VERBS)
def profile(session: Session, name: ProfileName | None = None) -> Iterator[Event]:
    """Switch to profile NAME, a set of changes in a YAML file; without NAME list them.

    What only the profile before had set goes back to where it was; what was typed stays, except
    where the new profile says otherwise. The model is loaded anew only if it is another one. A
    profile that cannot be applied, or one of whose commands fails, changes nothing. `one+two`
    is both, the second over the first; `model` is what the makers of the model recommend.
    """
    yield from listed(session) if name is None else switch(session, name)
