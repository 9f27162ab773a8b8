"""Which cores a server may use, and how it shares them with others.

Two servers that share cores disturb each other; `./workshop bench gateway` says how much.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import index

from tutorial_lib.errors import ServerError
from tutorial_lib.versions import cpu_count

MOST = 4096


def checked_cores(cores: Iterable[int] | None) -> tuple[int, ...] | None:
    """The cores, sorted and each once; None stays None, all that this process may use.

    Raises:
        ServerError: none at all, or one that this process may not use.
    """
    if cores is None:
        return None
    usable = _affinity()
    given: object = cores
    try:
        given = list(islice(cores, MOST + 1))  # an endless one must end
        numbers = {-1 if isinstance(core, bool) else index(core) for core in given}
    except TypeError:  # a number alone, or things that are none
        numbers = set()
    if numbers and len(given) <= MOST and numbers <= {*usable}:
        return tuple(sorted(numbers))
    raise ServerError(
        f"cores: found {reprlib.repr(given)}, expected numbers of {', '.join(map(str, usable))}.",
        action="Give such numbers, as in cores=[0], or leave it out for all of them.",
    )


@contextmanager
def on_cores(cores: tuple[int, ...] | None) -> Iterator[None]:
    """What this thread starts inside runs on these cores only, and counts no others.

    Args:
        cores: of `checked_cores`; None changes nothing.
    """
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def under_sched_batch(wanted: bool) -> Iterator[None]:
    """What this thread starts inside runs under Linux's SCHED_BATCH, as under `chrt --batch 0`.

    A thread of such a program that wakes up does not interrupt the one that runs, and other programs may come
    before it. Source: sched(7), "SCHED_BATCH".

    Args:
        wanted: False changes nothing.

    Raises:
        ServerError: this system has no such policy, or does not allow it; or this process has one of its own.
    """
    if not wanted:
        yield
        return
    before, problem = _policy(), ""
    if before is None:
        problem = "a system without such policies, expected Linux"
    elif before not in (os.SCHED_OTHER, os.SCHED_BATCH):  # from others the way back may be barred
        problem = f"a process under policy {before}, expected an ordinary one, SCHED_OTHER"
    else:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError as error:
            problem = f"that this process may not change its policy: {error.strerror}"
    if problem:
        raise ServerError(f"sched_batch: found {problem}.", action="Leave it out.")
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))


def _policy() -> int | None:
    """This thread's scheduling policy; None where there are none."""
    return os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") and hasattr(os, "SCHED_BATCH") else None


def split_cores() -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """One core for a gateway and all others for its Triton; None for both where there is only one."""
    first, *others = usable_cores()
    return ((first,), tuple(others)) if others else (None, None)


def usable_cores() -> list[int]:
    """Numbers of as many cores as this process may keep busy: its affinity mask, cut by its cgroup's quota.

    Raises:
        ServerError: this system does not say.
    """
    return _affinity()[: cpu_count()]


def _affinity() -> list[int]:
    """The numbers of the cores of this process; two of them may be threads of one physical core.

    Raises:
        ServerError: this system does not say.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise ServerError("cores: found a system without CPU affinity, expected Linux.", action="Leave cores out.")
    return sorted(os.sched_getaffinity(0))
