"""Settings: every value a session is under, checked, and where each one came from.

A Settings is frozen; a change makes a new one or raises. Values come in layers, later ones win:
default < configuration < environment < profile < command line < typed. The first two are the
user's own: the file config.yaml, and variables such as GPTREPL_TEMPERATURE.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args, get_type_hints

from . import chain, plugins, stops
from .api import Changes, GptreplError, Knob, Sampler, Text, knob
from .values import OFF, convert, format_value, is_broken, near, quoted, shown, spelled

Origin = Literal["default", "configuration", "environment", "profile", "command line", "typed"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
OF_USER: tuple[Origin, ...] = ("configuration", "environment")
"""The origins that hold whatever the profile is."""
DEFAULTS = {"temperature": 0.8, "top_k": 200}
"""The samplers that are on from the start, as in sample.py."""
OF_MODEL = (
    "model",
    "tokenizer",
    "device",
    "dtype",
    "activation",
    "quantize",
    "compile",
    "device_map",
    "trust_remote_code",
)
"""The settings that a model is built from; a change of one means a load."""
NEVER_SAVED = ("trust_remote_code",)
"""The settings that only the user can say, so that no file asks for them."""
LAST_SEED = 2**64 - 1
NEWLINE = Text("\n")


@dataclass(frozen=True)
class Settings:
    """Everything sample.py can be told, under its own names, and the chain of samplers.

    `Settings()` holds the defaults; `but` changes them. *samplers* maps each sampler that was
    set to the sampler itself.
    """

    model: str = knob("", help="the source of the model", form="PATH or NAME")
    tokenizer: str = knob(
        "auto",
        help="the tokenizer: auto is the model's own",
        pattern=r"\S.*",
        form="auto, NAME or NAME:PATH",
    )
    device: str = knob(
        "auto",
        help="where the model runs",
        pattern=r"auto|cpu|mps|cuda(:\d+)?",
        form="auto, cpu, cuda, cuda:N or mps",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = knob(
        "auto", help="the type of the weights"
    )
    activation: Literal["auto", "gelu", "gelu_new"] = knob(
        "auto", help="the activation, where a model has the choice: auto is what its files say"
    )
    quantize: Literal["off", "bf16", "int8", "int4"] = knob(
        "off", help="hold the weights in fewer bits: faster, smaller, and another text"
    )
    compile: bool = knob(
        False, help="compile the steps of the model where that makes them faster: the same text"
    )
    device_map: Literal["off", "auto"] = knob(
        "off", help="auto spreads a model of transformers over all devices (needs accelerate)"
    )
    trust_remote_code: bool = knob(
        False, help="let code that comes with a model run; a profile cannot say so"
    )
    start: Text = knob(
        NEWLINE, help="the text that :sample draws from; FILE:PATH reads it from a file"
    )
    num_samples: int = knob(
        1, ge=1, le=100_000, help="how many samples to draw", aliases=("samples", "n")
    )
    max_new_tokens: int = knob(200, ge=0, help="how long a sample gets", aliases=("tokens",))
    draft: int | Literal["auto", "off"] = knob(
        "off",
        help="guess so many tokens and verify them at once: the same text, sooner",
        ge=1,
        le=64,
        form="auto, off or a number from 1 to 64",
    )
    seed: int | Literal["random"] = knob(
        1337, ge=0, help="the first sample's seed; the next ones use the seeds that follow it"
    )
    chain: tuple[str, ...] = knob((), help="the order of the samplers; empty: by stage")
    stop: tuple[str, ...] = knob(
        (),
        help="texts that end a sample and are not part of it",
        form='TEXT, "TEXT" "TEXT" ... or off',
    )
    mode: Literal["complete", "story", "chat"] = knob(
        "complete",
        help="what a line is: a text of its own, the next piece of one story, or a turn of a chat",
    )
    system: Text = knob(Text(""), help='what the system says before a chat; "" is nothing')
    turns: str = knob(
        "auto",
        help="how a chat is written: auto is the model's own template",
        pattern=r"auto|[\s\S]*\{user\}[\s\S]*\{assistant\}[\s\S]*",
        form="auto or a text with {user} and {assistant}",
    )
    stop_at_end: bool = knob(False, help="end a sample where the model ends its text")
    keys: Literal["emacs", "vi"] = knob("emacs", help="how the keys edit a line")
    toolbar: bool = knob(True, help="show the line below the prompt; F2 does so too")
    colours: Literal["auto", "on", "off"] = knob(
        "auto", help="colours on the terminal; auto leaves them out where NO_COLOR is set"
    )
    history_size: int = knob(10_000, ge=0, help="how many lines the history of a terminal keeps")
    log: bool = knob(True, help="keep a receipt of each generation")
    suggest: bool = knob(False, help="show in grey how the model goes on; Right accepts it")
    theme: Literal["quiet", "bright", "plain"] = knob("quiet", help="how texts of each kind look")
    timing: bool = knob(False, help="say how long each line took")
    bell: bool = knob(False, help="ring when a line is done that took some seconds")
    pager: bool = knob(False, help="show tables that are too long for the window in a pager")
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    layers: Mapping[Origin, Changes] = field(default_factory=dict)
    profile: str = "default"

    def __post_init__(self) -> None:
        samplers = {
            name: chain.build(name, value)
            for name, value in DEFAULTS.items()
            if name not in self.samplers and name in plugins.installed("samplers")
        }
        object.__setattr__(self, "samplers", MappingProxyType({**samplers, **self.samplers}))

    def but(self, origin: Origin = "typed", /, **changes: Any) -> Settings:
        """Return these settings with *changes*; raise GptreplError and change nothing."""
        checked = {name: self.check(name, value) for name, value in canonical(changes).items()}
        layer = {**self.layers.get(origin, {}), **checked}
        return self.with_layers({**self.layers, origin: layer})

    def under(self, profile: str, changes: Changes) -> Settings:
        """Return these settings under another profile.

        What only the old profile set goes back to where it was; what was typed stays, except
        where the new profile says otherwise.
        """
        checked = {name: Settings().check(name, value) for name, value in changes.items()}
        if checked.get("trust_remote_code"):
            raise GptreplError(
                f"profile {profile} asks to trust_remote_code, which only you can: say it yourself"
            )
        kept = self.of_user()
        for origin in ("command line", "typed"):
            layer = self.layers.get(origin, {})
            kept[origin] = {name: layer[name] for name in layer if name not in checked}
        return dataclasses.replace(self.with_layers({**kept, "profile": checked}), profile=profile)

    def of_user(self) -> dict[Origin, Changes]:
        """Return the layers that come from the user's configuration and environment."""
        return {origin: self.layers.get(origin, {}) for origin in OF_USER}

    def without_typed(self, *names: str) -> Settings:
        """Return these settings with the typed values of *names* (none given: all) forgotten."""
        typed = self.layers.get("typed", {})
        kept = {name: typed[name] for name in typed if names and name not in names}
        return self.with_layers({**self.layers, "typed": kept})

    def with_layers(self, layers: Mapping[Origin, Changes]) -> Settings:
        """Return the settings that *layers* of checked values make, later origins winning.

        Raises GptreplError where they make a chain that cannot work.
        """
        merged = {
            name: value for origin in ORIGINS for name, value in layers.get(origin, {}).items()
        }
        plain = {name: value for name, value in merged.items() if name in FIELDS}
        samplers = {name: value for name, value in merged.items() if name not in FIELDS}
        layers = MappingProxyType({origin: layer for origin, layer in layers.items() if layer})
        made = Settings(**plain, samplers=samplers, layers=layers, profile=self.profile)
        chain.check(made.active)
        return made

    def check(self, name: str, value: Any) -> Any:
        """Return the value that setting or sampler *name* takes from *value*, as written."""
        if name not in FIELDS:
            return chain.build(name, value, self.samplers.get(name))
        if is_broken(value):
            raise GptreplError(f"{name} must be text, not {shown(value)}")
        if name == "seed" and str(value).lower() in ("-1", *OFF):
            value = "random"
        if name == "chain":
            return check_order(value)
        if name == "stop":
            return stops.check(value)
        result = convert(value, HINTS[name], name, FIELDS[name])
        if name == "seed" and result != "random" and result > LAST_SEED:
            raise GptreplError(f"seed must be random or from 0 to 2**64 - 1, not {value}")
        return result

    def origin(self, name: str) -> str:
        """Return where the value of *name* came from, in words."""
        for origin in reversed(ORIGINS):
            if name in self.layers.get(origin, {}):
                return f"profile {self.profile}" if origin == "profile" else origin
        return "default"

    def value(self, name: str) -> str:
        """Return the value of setting or sampler *name* as a user would type it."""
        if name not in FIELDS:
            return chain.written(self.samplers.get(name) or chain.default(name))
        value = getattr(self, name)
        if name in ("start", "system") or "\n" in str(value):
            return quoted(value)
        if name == "stop":
            return stops.written(value)
        return format_value(value) or ("by stage" if name == "chain" else "auto")

    def data(self, name: str) -> Any:
        """Return the value of *name* exactly, as plain data that `check` makes it of again."""
        if name not in FIELDS:
            return chain.data(self.samplers.get(name) or chain.default(name))
        value = getattr(self, name)
        return list(value) if isinstance(value, tuple) else value

    @cached_property
    def active(self) -> tuple[tuple[str, Sampler], ...]:
        """The samplers that are on, with their names, in the order of the chain."""
        order = chain.arrange({*self.samplers, *self.chain}, self.chain)
        on = [name for name in order if name in self.samplers and chain.is_on(self.samplers[name])]
        return tuple((name, self.samplers[name]) for name in on)

    @property
    def model_key(self) -> tuple[str, ...]:
        """What the model in memory was built from; a change of it means a load."""
        return tuple(str(getattr(self, name)) for name in OF_MODEL)


HINTS = get_type_hints(Settings)
FIELDS: dict[str, Knob] = {
    declared.name: declared.metadata["knob"]
    for declared in dataclasses.fields(Settings)
    if "knob" in declared.metadata
}


# --- names --------------------------------------------------------------------------------------


def canonical(changes: Changes) -> dict[str, Any]:
    """Return *changes* under the proper names; raise GptreplError where there is none."""
    return {proper(name): value for name, value in changes.items()}


def proper(name: str) -> str:
    """Return the setting or sampler that *name* means: `temp`, `TOP-K` and `topk` are names."""
    for known in known_names():
        if spelled(known) == spelled(name):
            return known
    for setting, limits in FIELDS.items():
        if spelled(name) in map(spelled, limits.aliases):
            return setting
    for sampler in chain.by_origin():
        if spelled(name) in map(spelled, chain.aliases(sampler)):
            return sampler
    raise GptreplError(f"no setting named {name!r}{near(name.lower(), known_names())}")


def proper_sampler(name: str) -> str:
    """Return the sampler that *name* means; raise GptreplError for any other name."""
    try:
        found = proper(name)
    except GptreplError:
        samplers = plugins.installed("samplers")
        raise GptreplError(f"no sampler named {name!r}{near(name.lower(), samplers)}") from None
    if found in FIELDS:
        raise GptreplError(f"{found} is no sampler, so it has no place in the chain")
    return found


def known_names() -> list[str]:
    """Return the proper names of all settings and samplers."""
    return list(dict.fromkeys([*FIELDS, *plugins.installed("samplers")]))


def check_order(value: Any) -> tuple[str, ...]:
    """Return the sampler names in *value*, each once; raise GptreplError for any other."""
    listed = value.replace(",", " ").split() if isinstance(value, str) else value or ()
    if not isinstance(listed, list | tuple):
        raise GptreplError(f"chain must be a list of samplers, not {shown(value)}")
    if " ".join(map(str, listed)).lower() in ("auto", "default", "off", "by stage"):
        return ()
    order = [proper_sampler(str(name)) for name in listed]
    for name in order:
        if order.count(name) > 1:
            raise GptreplError(f"the chain names {name} twice")
    return tuple(order)
