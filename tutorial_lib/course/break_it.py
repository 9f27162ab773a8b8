"""Break-it labs: a realistic fault for the learner to repair, and `fixed()`, which asks the running server.

lab = break_it("batch_in_dims")  # a scratch copy is broken, and the server says what it says
...                              # mend the files in lab.model
fixed()                          # loads it again and asks
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

from tutorial_lib.course.checks_break_it import REPAIRED
from tutorial_lib.course.fault import Fault
from tutorial_lib.course.faults import find_fault
from tutorial_lib.course.judge import Finding
from tutorial_lib.course.record import skip
from tutorial_lib.course.scratch import contents, put_models, scratch_repository
from tutorial_lib.errors import NotebookError, ServerError, WorkshopError
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.server import Server, serve

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
        self.model = self.repository / fault.subject.model
        self.server: Server | None = None
        self.skipped = ""
        self.again()

    @property
    def config_path(self) -> Path:
        """The model's config.pbtxt."""
        return self.model / CONFIG

    def again(self) -> None:
        """Bring the broken files back, as they were at the beginning."""
        self._judge = put_models(self.repository, self.fault.subject, self.fault.inject)
        self.start: dict[str, Any] = copy.deepcopy(dict(self.fault.start))
        self._broken = contents(self.repository)

    @property
    def touched(self) -> bool:
        """Whether anything differs from the broken state."""
        return self.start != self.fault.start or contents(self.repository) != self._broken

    @property
    def _explicit(self) -> bool:
        """Whether the server loads a model only when asked to, which is left to `_load`."""
        return self.start.get("model_control_mode", "explicit") == "explicit"

    def ask(self) -> Finding | None:
        """Load the model again, as it lies there now, and ask the server; None when all is well.

        Raises:
            ServerError: the server has ended.
        """
        expected = self.fault.subject.expected
        if not self.model.is_dir():
            return Finding(f"no folder {self.model.name}", expected, "lab.again() brings the broken files back.")
        if self.fault.start or self.server is None:
            self.stop()
            try:
                self.server = serve(self.repository, **(({"models": []} if self._explicit else {}) | self.start))
            except (WorkshopError, TypeError) as error:
                if not self.fault.start:
                    raise
                return Finding(str(error), expected)
        try:
            found = self._load() or self._judge(self.server)
            lost = "" if found else self.fault.gives_up(self.model)
            return found or (Finding("a model that answers", "one that has given nothing up", lost) if lost else None)
        except ServerError as error:
            if self.server.running and self.server.control.alive():
                return Finding(error.problem, expected)
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
        for entry in self.server.control.index():  # what still runs would answer in place of what does not load
            if entry.get("state") == "READY":
                self.server.unload(entry["name"])
        try:
            self.server.load(self.model.name)
        except ServerError as error:
            if not self.server.control.alive():
                raise
            words = error.problem.partition("Triton refused to load it: ")[2] or error.problem
            detail = [_plain(line) for line in error.details.splitlines() if not _repeats(line, words)]
            return Finding("\n".join([words.rstrip("; ."), *detail]), self.fault.subject.expected)
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
    if not lab.touched:
        anew = ": the one above breaks the model anew" if lab.fault.compact else ""
        place = "lab.start" if lab.fault.start else _short(lab.model / lab.fault.look[0])
        print(f"○ Not attempted yet: nothing has changed in {place}. Save the file, or see whether replace() found "
              f"its text; then run only this cell{anew}. Going on.")  # fmt: skip
        return
    REPAIRED[lab.fault.name](lab, lab.ask)


def end_labs() -> None:
    """Stop the server of the latest lab and close it; its files stay until the kernel ends."""
    global _latest
    if _latest is not None:
        _latest.stop()
        _latest = None


def _show(lab: Lab, finding: Finding | None) -> None:
    label = lab.server.label if lab.server else "Triton"
    if finding is None:
        lab.skipped = "this server loads it and answers, so there is nothing to repair here"
        skip(f"lab {lab.fault.name}", lab.skipped)
        return
    print(f"⚡ {lab.fault.story}\n")
    says = "refuses nothing; a request to it shows that" if finding.served else "says"
    print(f"{label} {says}\n" + _indented(finding.found))
    if finding.expected != lab.fault.subject.expected:
        print("where this was expected\n" + _indented(finding.expected))
    print("look at\n" + _indented("\n".join(_short(lab.model / place) for place in lab.fault.look)))
    if lab.server and lab.server.log_path:
        print(f"the whole log\n    {_short(lab.server.log_path)}")
    print(f"\nTask: {lab.fault.subject.task}")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _short(path: Path) -> str:
    """As JupyterLab's file browser shows it, when it can."""
    return str(path.relative_to(CHECKOUT)) if path.is_relative_to(CHECKOUT) else str(path)


def _plain(line: str) -> str:
    """A log line without the path that a source file had where Triton was built."""
    return re.sub(r"(?<=[ \[])/\S+/(?=[\w.]+:\d+\])", "", line)


def _repeats(line: str, words: str) -> bool:
    """Whether a log line says again what the answer has said."""
    return line.rpartition(": ")[2].strip("; .") in words
