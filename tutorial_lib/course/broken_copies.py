"""The broken repositories of break-it labs, to be read: no server is started on them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tutorial_lib.course.faults import FAULTS, find_fault
from tutorial_lib.course.scratch import put_models


def lab_names(notebook: str) -> tuple[str, ...]:
    """The labs of a notebook, such as "04", in the order of the library."""
    return tuple(name for name, fault in FAULTS.items() if fault.notebook == notebook)


def broken_copies(folder: Path, *labs: str) -> dict[str, Path]:
    """Make the repository of each lab as `break_it` makes it.

    Args:
        folder: gets a repository for each; what is in the way there is removed.
        labs: names, such as "batch_in_dims".

    Returns:
        Lab → repository.

    Raises:
        NotebookError: there is no such lab.
        SetupError: a copy cannot be written.
    """
    faults = [find_fault(name) for name in labs]
    copies = {fault.name: folder / fault.name for fault in faults}
    for fault in faults:
        shutil.rmtree(copies[fault.name], ignore_errors=True)
        copies[fault.name].mkdir(parents=True)
        put_models(copies[fault.name], fault.subject, fault.inject)
    return copies
