"""A check cell that names something the kernel does not have: one sentence instead of a traceback."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any


def explain_missing_names() -> None:
    """From now on, a NameError in a cell with a check call is explained; all other errors stay as they are.

    Does nothing outside IPython.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and NameError not in shell.custom_exceptions:
        shell.set_custom_exc((NameError,), _show)


def sentence(name: str, source: str) -> str:
    """What to tell when `name` is missing in a cell; empty if the cell makes no check call with it."""
    call = re.search(r"^check_\w+\((?P<arguments>.*)\)", source, flags=re.M | re.S)
    if call is None or not re.search(rf"\b{re.escape(name)}\b", call["arguments"]):
        return ""
    first = call["arguments"].partition(",")[0].strip() == name
    where = "the exercise's cell, right above this one" if first else "the cells above, from the top of the notebook"
    return f"○ Not checked: `{name}` does not exist in this kernel yet. Run {where}, then this cell again."


def _show(
    shell: Any, kind: type[NameError], error: NameError, trace: TracebackType | None, tb_offset: int | None = None
) -> None:
    """IPython's hook for the exception."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next  # the frame that lacks the name
    in_cell = (
        trace is not None and trace.tb_frame.f_globals is shell.user_ns and trace.tb_frame.f_code.co_name == "<module>"
    )
    told = sentence(error.name or "", shell.user_ns["In"][-1]) if in_cell else ""
    if told:
        error._render_traceback_ = lambda: [told]  # which IPython asks an exception for
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)
