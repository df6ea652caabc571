"""Events and errors in words, the same in both front ends."""

from __future__ import annotations

from .api import GptreplError, SampleEnded

ENDINGS = {
    "length": "",
    "stop": "stopped, ",
    "interrupted": "interrupted, ",
    "failed": "failed, ",
}


def summary(ended: SampleEnded) -> str:
    """Return the closing line of a sample: tokens, speed, seed and how much context it fills."""
    speed = ended.tokens / ended.seconds if ended.seconds > 0 else 0.0
    limit = "" if ended.block_size is None else f"/{ended.block_size}"
    return (
        f"{ENDINGS[ended.ending]}{ended.tokens} tokens, {speed:.0f} tokens/s, "
        f"seed {ended.seed}, context {ended.context}{limit}"
    )


def failure(error: BaseException) -> str:
    """Return the one line that says what went wrong, and where if that is known."""
    text = " ".join(str(error).split())
    if isinstance(error, GptreplError):
        return f"{error.where}: {text}" if error.where else text
    if isinstance(error, OSError):
        return f"{error.strerror or text}{f': {error.filename}' if error.filename else ''}"
    return f"internal error: {type(error).__name__}: {text}"
