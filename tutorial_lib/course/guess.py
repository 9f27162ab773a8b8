"""Reading a guess, or what was measured: a number in a unit, or one of several choices."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

Guess = float | str | None

_NEVER_NEGATIVE = {"ns", "µs", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "KB", "MB", "GB"}


class UnusableGuess(ValueError):
    """A value that is no answer to the question; the message goes on after "your guess …"."""


def read_number(value: object, unit: str = "") -> float:
    """A finite number, from a number, a one-element array, or a text such as "1,5" or "20 ms".

    Raises:
        UnusableGuess: it is none; or it is negative although the unit is a time, a size or a rate.
    """
    if isinstance(value, str):
        text = value.strip().removesuffix(unit).strip() if unit else value.strip()
        text = re.sub(r"^(about|around|ca\.?|~|≈)\s*", "", text, flags=re.I)
        if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text):  # 1,000: thousands
            text = text.replace(",", "")
        value = text.replace(",", ".")
    elif hasattr(value, "item"):
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError) as error:
            raise UnusableGuess(f"is {len(value)} values, not one.") from error
    if value is None or value is ... or value == "":
        raise UnusableGuess("is empty.")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        shown = repr(value) if len(repr(value)) < 60 else type(value).__name__
        raise UnusableGuess(f"is {shown}, not a number{f' of {unit}' if unit else ''}.") from error
    if not math.isfinite(number):
        raise UnusableGuess(f"is {number}, which is no number to compare with.")
    if number < 0 and (unit in _NEVER_NEGATIVE or unit.endswith("/s")):
        raise UnusableGuess(f"is {number:g} {unit}: that cannot be below zero.")
    return number


def read_choice(value: object, choices: Sequence[str]) -> str:
    """One of the choices; True and False stand for "yes" and "no".

    Raises:
        UnusableGuess: it is none of them.
    """
    if value is None or value is ...:
        raise UnusableGuess("is empty.")
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        value = "yes" if value else "no"
    matching = [choice for choice in choices if choice.casefold() == str(value).strip().casefold()]
    if not matching:
        raise UnusableGuess(f"is {str(value)!r}, not one of {', '.join(choices)}.")
    return matching[0]
