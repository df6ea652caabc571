"""The colon commands of the session itself. Those of settings and samplers follow from fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from . import catalogue, offers, plugins
from . import chain as chains
from .api import Choices, Event, GptreplError, Notice, Table, Text, command
from .command import first_line
from .commands import find, known, split
from .loading import Loaded
from .prompts import read_prompt
from .session import Session
from .settings import FIELDS, OF_MODEL, Settings, known_names, proper

NOTHING = Text("")
SettingName = Annotated[str, Choices(lambda _session: offers.setting_names())]
SamplerName = Annotated[str, Choices(lambda _session: offers.sampler_names())]
CommandName = Annotated[str, Choices(lambda _session: helps())]
Source = Annotated[str, Choices(lambda _session: offers.sources(), paths=True)]


def helps() -> dict[str, str]:
    """Return the first line of help of every command by its name."""
    return {name: first_line(found.help) for name, found in known().items()}


# --- the model ----------------------------------------------------------------------------------


def load(session: Session, source: Source | None = None) -> Iterator[Event]:
    """Load a model and keep it in memory; without SOURCE say which one is there.

    SOURCE is a folder with a checkpoint, a checkpoint file, a name that :models lists, a model of
    the Hub (ORGANISATION/NAME), a GGUF file, or http://HOST:PORT/v1 and a model of that server. It
    brings its own tokenizer, unless one is named behind it: `:load out/ char:data/meta.pkl`.
    A load that fails leaves the model and the settings that were there.
    """
    if source is None:
        loaded = session.loaded
        yield Notice(f"{session.source} {place_of(loaded)}")
        return
    source, tokenizer = with_tokenizer(source)
    changed = session.settings.but("typed", model=source, tokenizer=tokenizer)
    yield from session.apply(changed, reload=True)
    if session.loaded is not None:
        yield Notice(f"loaded {session.loaded.title}")


def place_of(loaded: Loaded | None) -> str:
    """Return where a model runs, in words."""
    if loaded is None:
        return "is not loaded yet"
    place: str = getattr(loaded.model, "place", f"on {loaded.device} in {loaded.dtype}")
    return place


def with_tokenizer(source: str) -> tuple[str, str]:
    """Return the source and the tokenizer that `SOURCE TOKENIZER` names; auto for none."""
    rest, _, word = source.rpartition(" ")
    name = word.partition(":")[0]
    if rest and name in plugins.installed("tokenizers") and not Path(source).exists():
        return rest.rstrip(), word
    return source, "auto"


def models(session: Session) -> Iterator[Event]:
    """List the models that can be loaded by name: known ones, checkpoints here, downloads.

    Where the model is at a server, the others of that server are listed too.
    """
    here = session.source.rstrip("/")
    siblings = getattr(session.loaded.model, "siblings", ()) if session.loaded else ()
    found = {**offers.sources(), **dict.fromkeys(siblings, "at the server")}
    shown = [("*" if name.rstrip("/") == here else "", name, help) for name, help in found.items()]
    yield Table(("", "source", "what it is"), tuple(shown), "models")


def list_plugins(_session: Session) -> Iterator[Event]:
    """List the plugins that are installed: samplers, tokenizers, models and commands.

    One that fails is named below the list and hinders no other; of two with one name ours is
    used. `gptrepl --disable NAME` leaves one out.
    """
    yield catalogue.table()
    yield from (Notice(fault, warning=True) for fault in catalogue.faults())


# --- sampling -----------------------------------------------------------------------------------


def sample(session: Session) -> Iterator[Event]:
    """Draw samples from the setting `start`, as sample.py does."""
    yield from session.stream()


def file(session: Session, path: Path) -> Iterator[Event]:
    """Sample from the text in the file PATH, taken exactly as it stands.

    It is read as sample.py reads FILE: prompts. Nothing in it is a command.
    """
    yield from session.stream(read_prompt(str(path)))


# --- settings -----------------------------------------------------------------------------------


def set_(
    session: Session, name: SettingName | None = None, value: Text = NOTHING
) -> Iterator[Event]:
    """Set NAME to VALUE; without VALUE show it, without NAME show everything.

    NAME is a setting, a sampler, or any of their other names; `:set temp 0.7`, `:set temp=0.7`
    and `:temp 0.7` are the same.
    """
    if name is None:
        yield from show(session)
        return
    name, text = split(f":{name} {value}" if "=" not in name else f":{name}{value}")
    yield from find(proper(name)).run(session, text)


def show(session: Session, *names: SettingName) -> Iterator[Event]:
    """Show each setting, its value and where that came from.

    Later origins win: default, configuration, environment, profile, command line, typed.
    Samplers that are off are listed by :chain; name one to show it all the same.
    """
    settings = session.settings
    chosen = [proper(name) for name in names if name != "profile"]
    if not names:
        chosen = [*FIELDS, *settings.samplers]
    rows = [(name, in_force(session, name), settings.origin(name)) for name in chosen]
    if not names or "profile" in names:
        rows.insert(0, ("profile", settings.profile, ""))
    yield Table(("setting", "value", "from"), tuple(rows))


def in_force(session: Session, name: str) -> str:
    """Return the value of a setting, and what it came to where it was left to the machine."""
    value = session.source if name == "model" else session.settings.value(name)
    chosen = session.loaded and {"device": session.loaded.device, "dtype": session.loaded.dtype}
    return f"auto ({chosen[name]})" if value == "auto" and chosen and name in chosen else value


def reset(session: Session, *names: SettingName) -> Iterator[Event]:
    """Forget what was typed for NAMES, or for every setting but those of the model.

    The values go back to where they were: the command line, the profile or the default.
    """
    chosen = [proper(name) for name in names] or [
        name for name in known_names() if name not in OF_MODEL
    ]
    yield from change(session, session.settings.without_typed(*chosen))


def change(session: Session, settings: Settings) -> Iterator[Event]:
    """Adopt *settings* and say what is different now: old -> new."""
    before = session.settings
    yield from session.apply(settings)
    yield from changes_between(before, settings)


def changes_between(before: Settings, after: Settings) -> Iterator[Notice]:
    """Yield what is different: old -> new."""
    changed = differences(before, after)
    for name, (old, new) in changed.items():
        yield Notice(f"{name} {old} -> {new}")
    if not changed:
        yield Notice("nothing changed")


def differences(before: Settings, after: Settings) -> Mapping[str, tuple[str, str]]:
    """Return the old and the new value of every setting and sampler that differs."""
    names = [*FIELDS, *{**before.samplers, **after.samplers}]
    values = {name: (before.value(name), after.value(name)) for name in names}
    return {name: (old, new) for name, (old, new) in values.items() if old != new}


def chain(session: Session, *order: SamplerName) -> Iterator[Event]:
    """Show the chain of samplers in the order they run, or set their ORDER.

    By default penalties come first, then temperature, truncation and selection. The samplers
    in ORDER share the places they hold by default, in the order given; `:chain default` undoes
    it. What is off does nothing, wherever it stands.
    """
    if order:
        yield from session.apply(session.settings.but("typed", chain=" ".join(order)))
    settings = session.settings
    names = chains.arrange(chains.loading(), settings.chain)
    rows: list[tuple[str, ...]] = []
    for place, name in enumerate(names, 1):
        try:
            value = settings.value(name)
        except GptreplError:
            value = "fails, see :plugins"
        rows.append((str(place), name, chains.stage_of(name), value))
    yield Table(("", "sampler", "stage", "value"), tuple(rows), "chain")


# --- the shell ----------------------------------------------------------------------------------


@command("?", "h")
def help_(session: Session, name: CommandName | None = None) -> Iterator[Event]:
    """Tell what the command NAME does; without NAME list all commands."""
    del session
    if name is None:
        rows = [(found.usage, first_line(found.help)) for found in known().values()]
        yield Table(("command", "what it does"), tuple(rows))
        yield Notice("anything else is a prompt; :: begins one with a colon, :# is a comment")
        return
    found = find(name.removeprefix(":"))
    others = "".join(f", :{alias}" for alias in found.aliases)
    yield Notice(f"{found.usage}{f'  (also{others[1:]})' if others else ''}\n\n{found.help}")


@command("exit", "q")
def quit_(session: Session) -> Iterator[Event]:
    """Leave the shell, as Ctrl-D does."""
    del session
    raise EOFError
    yield
