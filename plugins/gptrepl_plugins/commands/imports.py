"""`:import` takes over the sampling settings of other tools, the order of their chain included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from gptrepl.api import Choices, Event, GptreplError, Notice, Session
from gptrepl_plugins.commands import generation_config, llama_cpp, ollama
from gptrepl_plugins.commands.translation import Translation

TOOLS = {
    "llama.cpp": "flags such as --temp 0.8 --min-p 0.05",
    "ollama": "a Modelfile, or its PARAMETER lines",
    "transformers": "the path of a generation_config.json",
}
CONFIG = "generation_config.json"
Source = Annotated[str, Choices(lambda _session: TOOLS, paths=True)]


def import_(session: Session, source: Source, text: str = "") -> Iterator[Event]:
    """Take over the sampling settings of another tool, so that the distribution is the same.

    SOURCE is llama.cpp with its flags as TEXT, ollama with PARAMETER lines or a Modelfile as
    TEXT, or a generation_config.json of transformers, the folder of one, or a Modelfile.

    The order of the chain is the tool's, what is not given has the tool's default, and every
    other sampler is off. What has no counterpart here is listed. `:reset` undoes it.
    """
    found = translate(source, text)
    before = session.settings
    off = {name: "off" for name, _ in before.active if name not in found.changes}
    changes = {**off, **found.changes, "chain": found.order}
    yield from session.apply(before.but("typed", **changes))
    after = session.settings
    yield Notice(f"imported from {found.tool}")
    for name in changes:
        old, new = before.value(name), after.value(name)
        if old != new:
            yield Notice(f"{name} {old} -> {new}")
    yield from map(Notice, found.notes)
    if found.unmapped:
        yield Notice(f"left out, with no counterpart here: {'; '.join(found.unmapped)}", True)


def translate(source: str, text: str) -> Translation:
    """Return what the settings of a tool mean here; raise GptreplError if they cannot be read."""
    path = Path(source).expanduser()
    match source.lower():
        case "llama.cpp" | "llamacpp" | "llama-cpp":
            return llama_cpp.read(text)
        case "ollama":
            return ollama.read(modelfile(text))
        case "transformers" | "huggingface":
            path = Path(text).expanduser()
        case _ if text:
            raise GptreplError(f"cannot import from {source!r}; it can be {', '.join(TOOLS)}")
    if path.is_dir():
        path /= CONFIG
    if path.suffix == ".json":
        return generation_config.read(path)
    if "modelfile" in path.name.lower():
        return ollama.read(modelfile(str(path)))
    raise GptreplError(
        f"cannot tell what {source!r} is: it can be {', '.join(TOOLS)}, a {CONFIG} or a Modelfile"
    )


def modelfile(text: str) -> str:
    """Return the Modelfile at the path *text*, or *text* itself where it holds parameters."""
    if "parameter" in text.lower() or not text:
        return text
    try:
        return Path(text).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise GptreplError(f"cannot read the Modelfile {text!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GptreplError(f"the Modelfile {text} is not UTF-8 text") from None
