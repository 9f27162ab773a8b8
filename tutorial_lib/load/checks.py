"""What every number of a load plan must be."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from tutorial_lib.errors import LoadError


def number(what: str, value: float, *, low: float = 0.0, high: float = math.inf, open_low: bool = True) -> float:
    """`value` as a float.

    Args:
        what: the parameter's name, for the message.
        low, high: the bounds.
        open_low: whether `low` itself is outside.

    Raises:
        LoadError: it is not a finite number between the bounds.
    """
    usable = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not usable or value > high or value < low or (open_low and value == low):
        bounds = f"above {low:g}" if open_low else f"of {low:g} or more"
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise LoadError(f"{what}: found {value!r}, expected a number {bounds}{most}.", action="Give such a number.")
    return float(value)


def whole(what: str, value: int, *, low: int = 1, high: int = 2**31) -> int:
    """`value` as an int between `low` and `high`.

    Raises:
        LoadError: it is none.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= value <= high:
        raise LoadError(
            f"{what}: found {value!r}, expected a whole number from {low} to {high}.", action="Give such a number."
        )
    return int(value)


def seeded(seed: int) -> np.random.Generator:
    """Random numbers that are the same for the same seed.

    Raises:
        LoadError: it is no whole number from 0 to 2³² − 1.
    """
    return np.random.default_rng(whole("seed", seed, low=0, high=2**32 - 1))
