"""It prints when it is imported, and works."""

from gptrepl_broken.samplers import Fine

__all__ = ["Fine"]
print("hello from a plugin")  # noqa: T201
