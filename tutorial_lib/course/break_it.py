"""Break-it labs: a realistic fault for the learner to repair, and `fixed()`, which asks the running server.

lab = break_it("batch_in_dims")  # a scratch copy is broken, and the server says what it says
...                              # mend the files in lab.model
fixed()                          # loads it again and asks
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tutorial_lib.course.checks_break_it import REPAIRED
from tutorial_lib.course.fault import Fault
from tutorial_lib.course.faults import find_fault
from tutorial_lib.course.judge import BATCH, Finding, Truth, judge
from tutorial_lib.course.record import skip
from tutorial_lib.course.scratch import contents, put_model, scratch_repository
from tutorial_lib.errors import NotebookError, ServerError, WorkshopError
from tutorial_lib.models.names import MODEL_NAME
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.server import Server, serve

EXPECTED = f"'{MODEL_NAME}' is loaded and answers a batch of {BATCH} as ONNX Runtime does"
TASK = f"mend it so that Triton loads {MODEL_NAME} and answers batches of {BATCH} and more, with labels, as before."

_latest: Lab | None = None


class Lab:
    """A broken model on a running server.

    Attributes:
        fault: what was broken.
        model: the model's folder in the scratch repository; the learner mends what is in it.
        start: the arguments that the server is started with, for a fault that is in the start.
        server: the server; None when it did not even start.
        skipped: why the fault does not show on this machine; "" when it does.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.repository = scratch_repository()
        self.model = self.repository / MODEL_NAME
        self.server: Server | None = None
        self.skipped = ""
        self.again()

    @property
    def config_path(self) -> Path:
        """The model's config.pbtxt."""
        return self.model / CONFIG

    def again(self) -> None:
        """Bring the broken files back, as they were at the beginning."""
        self.truth = Truth(put_model(self.repository, self.fault.inject))
        self.start: dict[str, Any] = copy.deepcopy(dict(self.fault.start))
        self._broken = contents(self.model)

    @property
    def touched(self) -> bool:
        """Whether anything differs from the broken state."""
        return self.start != self.fault.start or not self.model.is_dir() or contents(self.model) != self._broken

    @property
    def _explicit(self) -> bool:
        """Whether the server loads a model only when asked to, which is left to `_load`."""
        return self.start.get("model_control_mode", "explicit") == "explicit"

    def ask(self) -> Finding | None:
        """Load the model again, as it lies there now, and ask the server; None when all is well.

        Raises:
            ServerError: the server has ended.
        """
        if not self.model.is_dir():
            return Finding(f"no folder {MODEL_NAME}", EXPECTED, "lab.again() brings the broken files back.")
        if self.fault.start or self.server is None:
            self.stop()
            try:
                self.server = serve(self.repository, **(({"models": []} if self._explicit else {}) | self.start))
            except (WorkshopError, TypeError) as error:
                if not self.fault.start:
                    raise
                return Finding(str(error), EXPECTED)
        try:
            found = self._load() or judge(self.server, self.truth)
            lost = "" if found else self.fault.gives_up(self.model)
            return found or (Finding("a model that answers", "one that could also move back", lost) if lost else None)
        except ServerError as error:
            if self.server.running and self.server.control.alive():
                return Finding(error.problem, EXPECTED)
            raise ServerError(
                f"lab '{self.fault.name}': its server has ended.",
                action=f'Run break_it("{self.fault.name}") again: it starts a new one.',
                details=self.server.log_tail(5),
            ) from error

    def stop(self) -> None:
        """Stop the server; the next lab starts a new one."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def _load(self) -> Finding | None:
        if not self._explicit:
            return None  # this server loads everything at its start
        self.server.unload(MODEL_NAME)  # a version that still runs would answer in place of one that does not load
        try:
            self.server.load(MODEL_NAME)
        except ServerError as error:
            if not self.server.control.alive():
                raise
            words = error.problem.partition("Triton refused to load it: ")[2] or error.problem
            detail = [line for line in error.details.splitlines() if not _repeats(line, words)]
            return Finding("\n".join([words.rstrip("; ."), *detail]), EXPECTED)
        return None

    def __repr__(self) -> str:
        return f"<Lab {self.fault.name} · {self.model}>"


def break_it(name: str) -> Lab:
    """Break a scratch copy of the model repository (or the server's start) and show what the server says.

    The learner's own repository is never touched. The server of an earlier lab in this kernel is used again.

    Args:
        name: of a fault, such as "batch_in_dims".

    Returns:
        The lab: `lab.model` is the folder to mend, `lab.config_path` its configuration.

    Raises:
        NotebookError: there is no such lab.
        SetupError: the copy cannot be written, or there is no Triton to start.
        ServerError: the server does not start, or has ended.
    """
    global _latest
    fault = find_fault(name)
    before, _latest = _latest, None  # until this one is complete
    if before is not None and (before.fault.start or fault.start or before.repository != scratch_repository()):
        before.stop()  # else serve() finds it again
    lab = Lab(fault)
    finding = lab.ask()
    _latest = lab
    _show(lab, finding)
    return lab


def fixed(lab: Lab | None = None) -> None:
    """Ask the running server whether the lab is really repaired: loaded, batching, and answering rightly.

    Args:
        lab: by default the latest.

    Raises:
        ExerciseError: it is not; with the server's own words.
        NotebookError: no lab is open, or this is not the latest.
        ServerError: the lab's server has ended.
    """
    if lab is None:
        lab = _latest
    if lab is None:
        raise NotebookError("fixed: no lab is open.", action='Run the cell with break_it("…") first.')
    if not isinstance(lab, Lab):
        raise NotebookError(
            f"fixed: found {lab!r}, expected what break_it(…) returned.", action="Call fixed() for the latest lab."
        )
    if lab is not _latest:
        raise NotebookError(
            f"fixed: the lab '{lab.fault.name}' was followed by another.",
            action=f'Run its cell break_it("{lab.fault.name}") again.',
        )
    if lab.skipped:
        print(f"○ Skipped: {lab.skipped}")
        return
    REPAIRED[lab.fault.name](lab if lab.touched else ..., lab.ask)
    if not lab.touched:
        print(f"  Nothing has changed yet in {_short(lab.model)}.")


def _show(lab: Lab, finding: Finding | None) -> None:
    label = lab.server.label if lab.server else "Triton"
    if finding is None:
        lab.skipped = "this server loads it and answers, so there is nothing to repair here"
        skip(f"lab {lab.fault.name}", lab.skipped)
        return
    print(f"⚡ {lab.fault.story}\n")
    print(f"{label} says\n" + _indented(finding.found))
    if finding.hint:
        print("where this was expected\n" + _indented(finding.expected))
    print("look at\n" + _indented("\n".join(_short(lab.model / place) for place in lab.fault.look)))
    if lab.server and lab.server.log_path:
        print(f"the whole log\n    {_short(lab.server.log_path)}")
    print(f"\nTask: {TASK}")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _short(path: Path) -> str:
    """As JupyterLab's file browser shows it, when it can."""
    return str(path.relative_to(CHECKOUT)) if path.is_relative_to(CHECKOUT) else str(path)


def _repeats(line: str, words: str) -> bool:
    """Whether a log line says again what the answer has said."""
    return line.rpartition(": ")[2].strip("; .") in words
