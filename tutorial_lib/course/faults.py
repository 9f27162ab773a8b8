"""Every fault that `break_it` knows.

To add one: write it into the `faults_NN.py` of its notebook (see `fault.Fault`), with its reference repair
and two wrong repairs, and put its lab into the notebook. `tests/server/test_break_it.py` takes it from there.
"""

from __future__ import annotations

import difflib

from tutorial_lib.course import faults_04, faults_04_config, faults_04_models, faults_05
from tutorial_lib.course.fault import Fault
from tutorial_lib.errors import NotebookError

_MODULES = (faults_04, faults_04_config, faults_04_models, faults_05)
FAULTS: dict[str, Fault] = {fault.name: fault for module in _MODULES for fault in module.FAULTS}


def find_fault(name: str) -> Fault:
    """The fault of that name.

    Raises:
        NotebookError: there is none; with the nearest name.
    """
    if name in FAULTS:
        return FAULTS[name]
    near = difflib.get_close_matches(str(name).lower(), FAULTS, n=1, cutoff=0.5)
    action = f'Did you mean break_it("{near[0]}")?' if near else "Give one of these names."
    raise NotebookError(f"break_it: found no lab {name!r}; there are: {', '.join(FAULTS)}.", action=action)
