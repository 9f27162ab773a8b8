"""Checks of the break-it labs of all notebooks: one per fault, called by `fixed()`."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.course.fault import Fault
from tutorial_lib.course.faults import FAULTS
from tutorial_lib.course.judge import BATCH, Finding


def _check(fault: Fault) -> Callable[..., None]:
    def repaired(lab: object, ask: Callable[[], Finding | None]) -> str:
        finding = ask()
        if finding is not None:
            found = f"lab {fault.name}: {finding.found}".replace("\n", "\n            ")
            raise wrong(found, finding.expected, finding.hint)
        return f"lab {fault.name}: the server loaded it and answered a batch of {BATCH}; {fault.proves}."

    repaired.__name__ = f"check_{fault.name}"
    return exercise(fault.exercise, hints=fault.hints)(repaired)


REPAIRED: dict[str, Callable[..., None]] = {name: _check(fault) for name, fault in FAULTS.items()}

WRONG = {
    f"check_{name}": [(f"lab.again()\n{repair.code}", repair.says) for repair in fault.wrong]
    for name, fault in FAULTS.items()
}
