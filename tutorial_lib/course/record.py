"""How a notebook hands numbers, and the steps it had to skip, to the run report.

One JSON object a line, appended to the file in `$WORKSHOP_RECORDS` (the runner gives each notebook its
own), or to `records/session.jsonl` in the workspace when a person runs the notebook.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, TypeVar

from tutorial_lib.paths import real_path, workspace

RECORDS_VARIABLE = "WORKSHOP_RECORDS"

Value = TypeVar("Value")


class NotebookSkipped(Exception):
    """Raised by `skip_notebook`: nothing is wrong, the notebook ends here with a reason."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: one friendly line instead of a traceback."""
        return [f"○ This notebook stops here: {self}"]


def records_path() -> Path:
    """The file that `record` and `skip` append to."""
    given = os.environ.get(RECORDS_VARIABLE)
    return real_path(given, RECORDS_VARIABLE) if given else workspace().root / "records" / "session.jsonl"


def record(name: str, value: Value, unit: str = "", *, tier: str | None = None) -> Value:
    """Put a number (or a short text) into the run report and give it back.

    A value that is not finite is reported as empty with a note, because JSON has no such number and
    a report that hides it would be worse.

    Args:
        name: what was measured; a name recorded again replaces the earlier value in the report.
        value: an int, float, bool or str, or anything with one element and an `item()`, such as a
            numpy scalar or a tensor.
        unit: the unit of the value, for example "ms".
        tier: which server it was measured on; by default the label of this kernel's server.

    Returns:
        `value`, unchanged, so that a cell can end with it.

    Raises:
        TypeError: the value is not one number or text.
    """
    plain = _plain(name, value)
    line: dict[str, Any] = {"kind": "number", "name": name, "value": plain, "unit": unit}
    if isinstance(plain, float) and not math.isfinite(plain):
        line |= {"value": None, "note": f"the value was {plain}"}
    _append(line, tier)
    return value


def skip(step: str, reason: str, *, tier: str | None = None) -> None:
    """Report a step that cannot run here, and why; the notebook goes on.

    Args:
        step: what was left out.
        reason: what is missing on this machine or tier.
        tier: as in `record`.
    """
    _append({"kind": "skip", "name": step, "value": reason, "unit": ""}, tier)
    print(f"○ Skipped: {step}: {reason}")


def skip_notebook(reason: str) -> None:
    """End the whole notebook here: it cannot run on this machine or tier.

    Raises:
        NotebookSkipped: always. `./workshop run` counts the notebook as skipped with this reason,
            Jupyter shows the reason as one line.
    """
    raise NotebookSkipped(reason)


def _plain(name: str, value: Any) -> int | float | bool | str:
    """`value` as something JSON knows."""
    if not isinstance(value, (bool, int, float, str)) and hasattr(value, "item"):
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"record({name!r}): {error}. Expected one number or text.") from error
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"record({name!r}): found a {type(value).__name__}, expected one number or text. "
        "Record each number under a name of its own."
    )


def _append(line: dict[str, Any], tier: str | None) -> None:
    """Append one line by a single write, so that threads and processes never mix theirs."""
    if tier is None:
        from tutorial_lib.server import label  # here, because most users of this module need no server

        tier = label()
    text = json.dumps({**line, "tier": tier}, ensure_ascii=False) + "\n"
    path = records_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
