"""How papermill executes a notebook here: on this interpreter's kernel, watched cell by cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets import default

from tutorial_lib.course.record import NotebookSkipped

ENGINE = "workshop"
OUTPUT_LIMIT_MIB = 8
OUTPUT_HEAD = 10_000  # characters kept of the piece that goes over the limit
OUTPUT_LIMIT_PIECES = 20_000  # many small pieces cost more memory than their text


class PinnedKernelSpecs(KernelSpecManager):
    """Whatever kernel a notebook asks for, it gets this interpreter.

    Kernels registered by the user, of any name, are never looked up.
    """

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=launch, display_name="Python 3 (ipykernel)", language="python")


class PinnedKernelManager(AsyncKernelManager):
    """A kernel manager that only starts this interpreter."""

    @default("kernel_spec_manager")
    def _pinned(self) -> KernelSpecManager:
        return PinnedKernelSpecs(parent=self)


@dataclass
class Watch:
    """What the engine tells about a notebook while it runs, and what tells it to stop.

    Attributes:
        started: called with the kernel's manager once the kernel process exists.
        entered: called before each cell, with its number, the number of cells and the cell.
        stop: called with a reason to end the notebook from within.
        stopping: whether the notebook is being ended; no further cell starts.
        cell: index of the cell that runs or ran last, -1 before the first.
        number: its number as the notebook's author counts, from 1 and without the injected cell.
        running: whether the kernel is executing that cell.
        skipped: the reason a notebook gave for not running here.
    """

    started: Callable[[AsyncKernelManager], None]
    entered: Callable[[int, int, NotebookNode], None]
    stop: Callable[[str], None]
    stopping: Callable[[], bool]
    cell: int = -1
    number: int = 0
    running: bool = False
    skipped: str | None = None
    printed: int = field(default=0, repr=False)
    pieces: int = field(default=0, repr=False)


class WorkshopClient(PapermillNotebookClient):
    """papermill's client with the `Watch`, an output limit, and `skip_notebook`."""

    watch: Watch

    async def async_start_new_kernel(self, **arguments: Any) -> None:
        await super().async_start_new_kernel(**arguments)
        self.watch.started(self.km)

    start_new_kernel = run_sync(async_start_new_kernel)  # the twin that nbclient calls

    def papermill_execute_cells(self) -> None:
        total = sum(not _is_injected(cell) for cell in self.nb.cells)
        for index, cell in enumerate(self.nb.cells):
            if self.watch.stopping():
                break
            self.watch.cell, self.watch.printed, self.watch.pieces = index, 0, 0
            self.watch.number += not _is_injected(cell)
            self.watch.entered(self.watch.number, total, cell)
            self.nb_man.cell_start(cell, index)
            try:
                self.watch.running = True
                self.execute_cell(cell, index)
            except CellExecutionError as error:
                if error.ename == NotebookSkipped.__name__:
                    self._end_skipped(cell, error.evalue)
                else:
                    self.nb_man.cell_exception(cell, cell_index=index, exception=error)
                break
            except DeadKernelError:
                self.nb_man.cell_exception(cell, cell_index=index)
                note = "The kernel died in this cell." if not self.watch.stopping() else "Ended in this cell."
                cell.outputs.append(new_output("error", ename="DeadKernelError", evalue=note, traceback=[note]))
                raise
            finally:
                self.watch.running = False
                self.nb_man.cell_complete(cell, cell_index=index)

    def process_message(self, message: dict[str, Any], cell: NotebookNode, cell_index: int) -> Any:
        if message["msg_type"] in ("stream", "display_data", "execute_result"):
            content = message["content"]
            parts = [content["text"]] if "text" in content else content["data"].values()
            self.watch.printed += sum(len(part) for part in parts if isinstance(part, str))
            self.watch.pieces += 1
            if self.watch.printed > OUTPUT_LIMIT_MIB * 2**20 or self.watch.pieces > OUTPUT_LIMIT_PIECES:
                if self.watch.stopping():
                    return None
                self.watch.stop(f"more output than {OUTPUT_LIMIT_MIB} MiB or {OUTPUT_LIMIT_PIECES} pieces")
                if "text" in content:
                    content["text"] = content["text"][:OUTPUT_HEAD] + "\n… (the rest is not kept)\n"
        elif message["msg_type"] == "clear_output":
            self.watch.printed = self.watch.pieces = 0
        return super().process_message(message, cell, cell_index)

    def _end_skipped(self, cell: NotebookNode, reason: str) -> None:
        """Put the reason where the error was: nothing is wrong with a notebook that cannot run here."""
        self.watch.skipped = reason
        cell.outputs = [output for output in cell.outputs if output.output_type != "error"]
        cell.outputs.append(new_output("stream", name="stdout", text=f"○ This notebook stops here: {reason}\n"))


class WorkshopEngine(NBClientEngine):
    """papermill's engine, with `WorkshopClient`."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, watch: Watch, start_timeout: int = 60, **_: Any
    ) -> None:
        client = WorkshopClient(
            nb_man,
            kernel_manager_class=PinnedKernelManager,
            kernel_name=kernel_name,
            startup_timeout=start_timeout,
            timeout=None,
        )
        client.watch = watch
        client.execute()


def _is_injected(cell: NotebookNode) -> bool:
    return "injected-parameters" in cell.metadata.get("tags", [])


papermill_engines.register(ENGINE, WorkshopEngine)
