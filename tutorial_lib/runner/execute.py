"""The child process that executes one notebook: `python -m tutorial_lib.runner.execute`.

It is told what to do by one JSON line on its standard input and tells what happens as JSON lines on the
file descriptor named there. A line "stop: REASON" on standard input ends the notebook; so does the end of
the input, which is how it learns that the run itself has died. However it ends, it takes every process
that the notebook started with it: orphans become its children, because it is their subreaper.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import nbformat
import papermill
import psutil
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

from tutorial_lib.errors import NotebookError
from tutorial_lib.runner.engine import ENGINE, Watch
from tutorial_lib.runner.parameters import check_parameters

PR_SET_CHILD_SUBREAPER = 36  # Source: prctl(2)
INTERRUPT_S = 4.0  # for a cell to end after an interrupt, before its kernel is killed
FINISH_S = 12.0  # for an interrupted notebook to shut its kernel down, server included
LEAVE_S = 20.0  # for processes that watch their owner (the server's supervisor) to end by themselves


class Execution:
    """One notebook being executed in this process.

    Args:
        order: `notebook`, `output` and `cwd` (paths), `parameters`, and `events` (a file descriptor).
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.source = Path(order["notebook"])
        self.output = Path(order["output"])
        self.cwd = order["cwd"]
        self.parameters: dict[str, Any] = order["parameters"]
        self.events: int = order["events"]
        self.reason = ""
        self.kernel: Any = None
        self.finished = threading.Event()
        self.lock = threading.Lock()
        self.watch = Watch(started=self._started, entered=self._entered, stop=self.stop, stopping=self._stopping)
        os.set_inheritable(self.events, False)

    def run(self) -> None:
        """Execute, report the outcome, and leave no process behind."""
        try:
            outcome = self._execute()
        except NotebookError as error:
            outcome = {"status": "failed", "reason": str(error)}
        except Exception as error:  # whatever it is, the run must hear of it and go on
            traceback.print_exc()
            outcome = {"status": "failed", "reason": self.reason or f"{type(error).__name__}: {error}"}
        self.finished.set()
        self._leave(outcome)

    def stop(self, reason: str) -> None:
        """End the notebook: interrupt its cell, kill the kernel if that does not help.

        Any thread may call this.
        """
        with self.lock:
            if self.reason or self.finished.is_set():
                return
            self.reason = reason
        threading.Thread(target=self._end, daemon=True).start()

    def _execute(self) -> dict[str, Any]:
        notebook = nbformat.read(self.source, as_version=4)
        nbformat.write(notebook, self.output)  # a copy is there whatever happens
        check_parameters(notebook, self.parameters, name=self.source.stem)
        failure: PapermillExecutionError | None = None
        try:
            papermill.execute_notebook(
                str(self.source),
                str(self.output),
                self.parameters,
                engine_name=ENGINE,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                autosave_cell_every=10,
                cwd=self.cwd,
                watch=self.watch,
            )
        except PapermillExecutionError as error:
            failure = error
        except DeadKernelError:
            return self._failed("kernel died")
        if failure and not self._raised_on_purpose():
            return self._failed(f"{failure.ename}: {failure.evalue}", trace="\n".join(failure.traceback))
        if self.reason:
            return self._failed(self.reason)
        if self.watch.skipped is not None:
            return {"status": "skipped", "reason": self.watch.skipped}
        return {"status": "passed", "reason": ""}

    def _raised_on_purpose(self) -> bool:
        """Whether all errors are those of cells tagged `raises-exception`, which papermill does not know."""
        executed = remove_error_markers(nbformat.read(self.output, as_version=4))
        if any(cell.metadata.get("papermill", {}).get("exception") for cell in executed.cells):
            return False
        nbformat.write(executed, self.output)
        return True

    def _failed(self, what: str, *, trace: str = "") -> dict[str, Any]:
        """The outcome of a notebook that ended in the current cell."""
        executed = remove_error_markers(nbformat.read(self.output, as_version=4))
        if self.watch.cell < 0:
            return {"status": "failed", "reason": self.reason or what}
        cell, number = executed.cells[self.watch.cell], self.watch.number
        error = {} if self.reason else {"error": what, "traceback": trace}
        reason = self.reason or next(iter(what.splitlines()), "")
        return {
            "status": "failed",
            "reason": f"{reason} in cell {number}: {first_line(cell.source)}",
            "cell": {"number": number, "id": cell.get("id", ""), "source": cell.source, **error},
        }

    def _started(self, kernel: Any) -> None:
        self.kernel = kernel
        self._tell({"event": "kernel", "pid": kernel.provisioner.pid})

    def _entered(self, number: int, total: int, cell: NotebookNode) -> None:
        self._tell({"event": "cell", "number": number, "total": total, "source": first_line(cell.source)})

    def _stopping(self) -> bool:
        return bool(self.reason)

    def _tell(self, event: dict[str, Any]) -> None:
        try:
            os.write(self.events, (json.dumps(event) + "\n").encode())
        except BrokenPipeError:
            self.stop("the run ended")

    def _end(self) -> None:
        """What a stop does, in a thread of its own: the main thread may hang in the cell."""
        self._signal_kernel(signal.SIGINT)
        if self.finished.wait(INTERRUPT_S):
            return
        # An interrupted cell is over by now and its kernel is shutting down; one that did not take it is not.
        if self.watch.running or self.watch.cell < 0:
            self._signal_kernel(signal.SIGKILL)
        if not self.finished.wait(FINISH_S):
            self._signal_kernel(signal.SIGKILL)
            if not self.finished.wait(INTERRUPT_S):
                self._leave({"status": "failed", "reason": f"{self.reason} in cell {self.watch.number}"})

    def _signal_kernel(self, number: int) -> None:
        """Signal the kernel's process group (the kernel leads one of its own)."""
        provisioner = getattr(self.kernel, "provisioner", None)
        if provisioner is not None and provisioner.pid:
            try:
                os.killpg(provisioner.pid, number)
            except ProcessLookupError:
                return  # it has ended by itself

    def _leave(self, outcome: dict[str, Any]) -> None:
        """Wait for what the notebook started, kill what stays, report, and exit."""
        left = end_descendants(LEAVE_S)
        self._tell({"event": "outcome", "left": left, **outcome})
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def end_descendants(grace_s: float) -> list[str]:
    """Wait until this process has no descendants; kill those that outlast the grace.

    Returns:
        The command lines of the killed.
    """
    me = psutil.Process()
    deadline = time.monotonic() + grace_s
    killed: list[str] = []
    while alive := me.children(recursive=True):  # again and again: orphans of the ended come to us
        patience_s = deadline - time.monotonic()
        if patience_s > 0:
            psutil.wait_procs(alive, timeout=patience_s)
            continue
        for process in alive:
            try:
                killed.append(" ".join(process.cmdline())[:200] or process.name())
                process.kill()
            except psutil.NoSuchProcess:
                continue  # it went between the two lines
        psutil.wait_procs(alive, timeout=5)
    return killed


def first_line(source: str) -> str:
    """The first line of a cell's source, to name the cell by."""
    return next(iter(source.strip().splitlines()), "")


def _listen(execution: Execution) -> None:
    """Follow standard input: a line asks for a stop, its end means that the run has died."""
    for line in sys.stdin:
        execution.stop(line.strip().removeprefix("stop: "))
    execution.stop("the run ended")


def main() -> None:
    """Execute the notebook that the first line of standard input describes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    execution = Execution(json.loads(sys.stdin.readline()))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: execution.stop(f"ended by signal {received}"))
    threading.Thread(target=_listen, args=[execution], daemon=True).start()
    execution.run()


if __name__ == "__main__":
    main()
