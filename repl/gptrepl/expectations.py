"""What a script can expect of the samples drawn last, and what is said where it is not so."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .api import ExpectationError, GptreplError
from .samples import Sample
from .values import near, shown, unquoted, whole

SUBJECTS: dict[str, Callable[[Sample], Any]] = {
    "text": lambda sample: sample.text,
    "new": lambda sample: sample.text.removeprefix(sample.prompt),
    "tokens": lambda sample: len(sample.tokens),
    "logprob": lambda sample: sum(sample.logprobs),
    "seed": lambda sample: sample.seed,
    "ending": lambda sample: sample.ending or "none",
}
TEXTS = ("text", "new", "ending")
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MATCHES = {"~": True, "!~": False}
CONDITION = re.compile(
    r"\s*(?P<subject>[a-z_]+)?\s*(?P<sign>[=!<>~]*)\s*(?P<value>.*?)\s*", re.DOTALL
)
REGEX = re.compile(r"/(?P<pattern>.*)/(?P<flags>[ims]*)", re.DOTALL)
FORMS = 'one is /regex/, text == "...", new ~ /regex/, tokens 20 or logprob > -40'


@dataclass(frozen=True)
class Expectation:
    """One condition that every sample is held to: subject, sign and value as they were written."""

    subject: str
    sign: str
    written: str
    holds: Callable[[Any], bool]

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise ExpectationError for the first of *samples* of which it is not true."""
        if not samples:
            raise GptreplError("nothing was sampled yet that could be as expected")
        for sample in samples:
            value = SUBJECTS[self.subject](sample)
            if not self.holds(value):
                which = f"sample {sample.index + 1}: " if len(samples) > 1 else ""
                raise ExpectationError(f"{which}expected {self}, not {shown(value)}")

    def __str__(self) -> str:
        return f"{self.subject} {self.sign} {self.written}"


def parse(text: str) -> Expectation:
    """Return the expectation that *text* states; raise GptreplError if it states none."""
    if text.lstrip().startswith("/"):
        text = f"text ~ {text.lstrip()}"
    found = CONDITION.fullmatch(text)
    assert found is not None
    subject, sign, value = found["subject"] or "", found["sign"] or "==", found["value"]
    if subject not in SUBJECTS:
        raise GptreplError(
            f"{shown(text.strip())} is no expectation{near(subject, SUBJECTS)}: {FORMS}"
        )
    if not value:
        raise GptreplError(f"nothing is expected of {subject}: {FORMS}")
    if sign in MATCHES:
        return Expectation(subject, sign, value, matcher(subject, value, MATCHES[sign]))
    if sign not in ORDERS or (subject in TEXTS and sign not in ("==", "!=")):
        signs = ["==", "!=", "~", "!~"] if subject in TEXTS else [*ORDERS]
        raise GptreplError(f"{subject} is compared by {', '.join(signs)}, not by {sign!r}")
    wanted = unquoted(value) if subject in TEXTS else number(subject, value)
    return Expectation(subject, sign, value, lambda found: ORDERS[sign](found, wanted))


def matcher(subject: str, value: str, wanted: bool) -> Callable[[Any], bool]:
    """Return the test whether a text holds a match of `/pattern/flags`; flags are i, m and s."""
    if subject not in TEXTS:
        raise GptreplError(f"{subject} is a number: it is compared by {', '.join(ORDERS)}")
    found = REGEX.fullmatch(value)
    if found is None:
        raise GptreplError(f"a regular expression stands between slashes, not {value!r}")
    flags = sum((re.RegexFlag[flag.upper()] for flag in set(found["flags"])), re.NOFLAG)
    try:
        pattern = re.compile(found["pattern"], flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise GptreplError(f"{value} is no regular expression: {error}") from None
    return lambda text: (pattern.search(text) is not None) is wanted


def number(subject: str, value: str) -> float:
    """Return the number that *value* spells."""
    try:
        found = whole(value)
        return float(value) if found is None else found
    except ValueError:
        raise GptreplError(f"{subject} is a number, not {shown(value)}") from None
