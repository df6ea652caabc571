"""Draws a receipt again and tells whether the text is the same, token by token."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from .api import Event, ExpectationError, GptreplError, Notice, SampleEnded, Token, Tokenizer
from .loading import Loaded
from .receipts import CUT, Drawn, Receipt, place_of, tokenizer_of, versions
from .samples import Start
from .session import Session
from .settings import OF_MODEL, Settings
from .values import quoted
from .writing import writer_of

GROUND = "receipt"
"""The profile it is drawn under: a device that this machine lacks is then said, not refused."""


def replay(receipt: Receipt, session: Session, model: str = "") -> Generator[Event]:
    """Draw a receipt again; raise ExpectationError if the text is another one.

    The session stays as it is; its model in memory is used if it is the one of the receipt.
    *model* is the source to load instead of the receipt's.
    """
    if not receipt.samples:
        raise GptreplError("the receipt holds no samples: there is nothing to draw again")
    other = session.beside(settings_for(receipt, session, model))
    yield from other.ready()
    assert other.loaded is not None
    if writer_of(other.loaded) is not None:
        raise GptreplError(
            f"{other.source} draws by itself and gives no ids: its receipts tell what it wrote,"
            " and only it could write that again"
        )
    drift, farthest = compare(receipt, other)
    if not drift:
        off = f"; the log-probabilities are {farthest:.1g} off at most" if farthest else ""
        count = len(receipt.samples)
        samples = "1 sample" if count == 1 else f"{count} samples"
        yield Notice(f"identical: {receipt.tokens} tokens in {samples}{off}")
        return
    yield from map(Notice, differences(receipt, other.loaded))
    raise ExpectationError(f"not identical: {drift}")


def settings_for(receipt: Receipt, session: Session, model: str) -> Settings:
    """Return the settings to draw it under: the receipt's, with what it came to on its machine."""
    changes = {name: value for name, value in receipt.settings.items() if name not in OF_MODEL}
    wanted = model_for(receipt, model)
    if session.loaded is not None and is_loaded(wanted, session.loaded, session.settings):
        changes |= {name: session.settings.data(name) for name in OF_MODEL}
    else:
        changes |= wanted
    if receipt.ending in CUT:
        changes["max_new_tokens"] = max((len(one.ids) for one in receipt.samples), default=0)
    trusted = changes.pop("trust_remote_code", False)
    settings = Settings().under(GROUND, changes)
    return settings.but("command line", trust_remote_code=True) if trusted else settings


def model_for(receipt: Receipt, model: str) -> dict[str, Any]:
    """Return the settings that its model is loaded by.

    A model that is a file or a folder is looked for where it was, then under its name from here;
    the file of a tokenizer in the folders above it, then from here.
    """
    found = {name: receipt.settings[name] for name in OF_MODEL if name in receipt.settings}
    place = Path(str(found.get("model", "")))
    source = model or (str(place) if place.is_absolute() and exists(place) else receipt.model)
    kind, sign, path = str(found.get("tokenizer", "")).partition(":")
    above = Path(source).absolute()
    for folder in (above, *above.parents) if sign and exists(above) else ():
        if exists(folder / path):
            found["tokenizer"] = f"{kind}:{folder / path}"
            break
    return found | {"model": source, "device": receipt.device, "dtype": receipt.dtype}


def is_loaded(wanted: Mapping[str, Any], loaded: Loaded, settings: Settings) -> bool:
    """Return whether the model in memory, loaded by *settings*, is the one that is wanted."""
    if wanted["model"] not in (loaded.source, place_of(loaded)):
        return False
    kind, sign, path = settings.tokenizer.partition(":")
    tokenizers = (settings.tokenizer, f"{kind}{sign}{Path(path).absolute()}")
    here = {name: settings.data(name) for name in OF_MODEL} | {
        "model": wanted["model"],
        "tokenizer": next((one for one in tokenizers if one == wanted.get("tokenizer")), ""),
        "device": loaded.device,
        "dtype": loaded.dtype,
    }
    return all(value == here[name] for name, value in wanted.items())


def exists(path: Path) -> bool:
    """Return whether there is a *path*, as far as it may be known."""
    try:
        return path.exists()
    except OSError:
        return False


def compare(receipt: Receipt, other: Session) -> tuple[str, float]:
    """Draw the samples of a receipt; return the first difference, and how far numbers were off."""
    assert other.loaded is not None
    tokenizer, farthest = other.loaded.tokenizer, 0.0
    starts = [
        Start(one.prompt, one.prompt_ids, one.seed, stream=one.stream) for one in receipt.samples
    ]
    places = [0] * len(starts)
    for event in other.resume(starts):
        drift = ""
        if isinstance(event, Token):
            sample, place = receipt.samples[event.index], places[event.index]
            places[event.index] += 1
            drift = difference(sample, place, event, tokenizer)
            if not drift and place < len(sample.ids):
                farthest = max(farthest, abs(sample.logprob(place) - event.logprob))
        elif isinstance(event, SampleEnded):
            drift = end_of(receipt.samples[event.index], event)
        if drift and isinstance(event, Token | SampleEnded):
            return f"sample {event.index + 1}{drift}", farthest
    return "", farthest


def difference(sample: Drawn, place: int, now: Token, tokenizer: Tokenizer) -> str:
    """Return how the token at *place* differs from the one that was recorded, or nothing."""
    if place >= len(sample.ids):
        return "" if sample.ending in CUT else f" goes on after its {len(sample.ids)} tokens"
    then = sample.ids[place]
    if then == now.token:
        return ""
    before = f"{spelled(then, tokenizer)} with probability {math.exp(sample.logprob(place)):.3g}"
    after = f"{spelled(now.token, tokenizer)} with {math.exp(now.logprob):.3g}"
    return f" has another token {place + 1}: it was {before}, now it is {after}"


def end_of(sample: Drawn, now: SampleEnded) -> str:
    """Return how the end of a sample differs from the one that was recorded, or nothing.

    One that is cut short now is no drift: what cut it short is raised after it.
    """
    if now.ending in CUT:
        return ""
    if now.tokens < len(sample.ids):
        return f" ends after {now.tokens} tokens, and had {len(sample.ids)}"
    if sample.ending not in CUT and now.text != sample.text:
        return " has the same tokens, but they spell another text"
    return ""


def differences(receipt: Receipt, loaded: Loaded) -> Iterator[str]:
    """Yield what is different around the model: versions, machine, device, weights."""
    now: dict[str, Any] = {
        **versions(),
        "device": loaded.device,
        "dtype": loaded.dtype,
        "tokenizer": tokenizer_of(loaded.tokenizer),
        "weights": loaded.fingerprint.value(),
    }
    then: dict[str, Any] = {
        **receipt.versions,
        "device": receipt.device,
        "dtype": receipt.dtype,
        "tokenizer": receipt.tokenizer,
        "weights": receipt.hash,
    }
    found = [
        f"{name} {then.get(name) or 'unknown'} -> {now.get(name) or 'unknown'}"
        for name in {**then, **now}
        if then.get(name) != now.get(name)
    ]
    yield from found or ["nothing around the model is different"]


def spelled(token: int, tokenizer: Tokenizer) -> str:
    """Return a token's text in quotes; its number where it has none."""
    if token >= tokenizer.vocab_size:
        return f"id {token}"
    text = tokenizer.token_bytes(token).decode("utf-8", "replace")
    return quoted(text)
