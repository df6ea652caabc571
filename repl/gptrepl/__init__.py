"""gptrepl: the terminal shell for sampling from GPT models, and the same from Python.

`load("out/")` gives a `Session` with a model in memory under its `Settings`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Session", "Settings", "__version__", "load"]

if TYPE_CHECKING:
    from .session import Session, load
    from .settings import Settings

WHERE = {"load": "session", "Session": "session", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `--version` is there at once."""
    from importlib import import_module

    if name not in WHERE:
        raise AttributeError(f"module 'gptrepl' has no attribute {name!r}")
    return getattr(import_module(f".{WHERE[name]}", __name__), name)
