"""What a user can mend, as errors of one line. `gptrepl.api` has all of them."""

from __future__ import annotations

from typing import ClassVar


class GptreplError(Exception):
    """An error the user can fix: one line that names the thing, the value and the way out."""

    status: ClassVar[int] = 1
    """The exit status of a script that it ends."""
    where: str = ""
    """The `FILE:LINE` of the script or profile in which it happened, if there is one."""


class LoadError(GptreplError):
    """No model could be made of a source; whatever was in memory before is still there."""

    status = 3


class ExpectationError(GptreplError):
    """What a script expected did not come true."""

    status = 4
