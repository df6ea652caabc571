"""The front end of other programs: stdout is one JSON object a line, `events.schema.json` says how.

Nothing but these lines goes to stdout; errors are said on stderr too.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .api import Event, Failure, GptreplError, Notice, Transcript
from .report import failure
from .script import Script


class JsonScript(Script):
    """Runs lines in a session as a script does, and writes every event as a JSON object."""

    def show(self, event: Event) -> None:
        """Write one event as a line."""
        if isinstance(event, Failure):
            self.status = self.status or event.status
            self.say(event.text)
        self.write(object_of(event))

    def fail(self, error: GptreplError) -> None:
        """Say an error on both streams."""
        super().fail(error)
        self.write({"event": "error", "text": failure(error), "status": error.status})

    def write(self, line: dict[str, Any]) -> None:
        """Write one object, in ASCII so that it is the same in every encoding."""
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()


def object_of(event: Event) -> dict[str, Any]:
    """Return an event as its name and its fields."""
    if isinstance(event, Failure):
        return {"event": "error", "text": event.text, "status": event.status}
    if isinstance(event, Transcript):  # who says what is for eyes
        event = Notice(event.text)
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    fields = {key: None if is_nan(value) else value for key, value in vars(event).items()}
    return {"event": name, **fields}


def is_nan(value: Any) -> bool:
    """Return whether *value* is the number that JSON has no word for."""
    return isinstance(value, float) and math.isnan(value)
