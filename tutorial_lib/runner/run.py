"""Run notebooks in order into a fresh folder, with a report that is valid at every moment."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import nbformat

from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS, Workspace, workspace
from tutorial_lib.runner import page
from tutorial_lib.runner.environment import run_environment, with_records
from tutorial_lib.runner.folders import keep_newest, link_latest, new_folder
from tutorial_lib.runner.notebook import execute_notebook
from tutorial_lib.runner.report import Entry, Report, entry, now

TIMEOUT_S = {"quick": 180.0, "full": 900.0}  # notebook 10 holds 300 users for five minutes


class Display(Protocol):
    """What shows the progress of a run."""

    def begin(self, name: str) -> None: ...
    def cell(self, name: str, number: int, total: int) -> None: ...
    def end(self, found: Entry) -> None: ...


class _Silent:
    def begin(self, name: str) -> None: ...
    def cell(self, name: str, number: int, total: int) -> None: ...
    def end(self, found: Entry) -> None: ...


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    Attributes:
        folder: everything it wrote.
        report: what is in `report.json`.
        interrupted: whether a signal ended it early.
    """

    folder: Path
    report: Report
    interrupted: bool

    @property
    def index(self) -> Path:
        """The page to open."""
        return self.folder / "index.html"

    @property
    def exit_code(self) -> int:
        """0 if nothing failed, 1 if something did, 130 after an interrupt."""
        return 130 if self.interrupted else int(self.report.counts["failed"] > 0)


def run_notebooks(
    notebooks: Sequence[Path],
    *,
    mode: str = "quick",
    timeout_s: float | None = None,
    seed: int = 0,
    url: str = "",
    cwd: Path = NOTEBOOKS,
    display: Display | None = None,
) -> Run:
    """Execute notebooks one after the other; a failure does not stop the later ones.

    All of them see one fresh workspace, inside the run's folder and seeded from the reference model
    repository. SIGINT, SIGTERM and SIGHUP end the current notebook, keep the report, and return.

    Args:
        notebooks: the notebooks to execute, which are only read.
        mode: "quick" or "full", passed to the notebooks.
        timeout_s: deadline for each notebook; by default 180 s in quick mode, 900 s in full mode.
        seed: passed to the notebooks.
        url: HTTP address of a running server, or "" for the embedded one.
        cwd: the folder that kernels start in.
        display: shows the progress.

    Raises:
        NotebookError: the mode is unknown.
    """
    if mode not in TIMEOUT_S:
        raise NotebookError(f"mode {mode!r}: expected one of {', '.join(TIMEOUT_S)}.")
    display = display or _Silent()
    home = workspace()
    with new_folder(home.runs) as folder, _interruptible() as interrupted:
        keep_newest(home.runs)
        scratch = Workspace(folder / "workspace")
        scratch.seed()
        environment = run_environment(folder, cache=home.cache, scratch=scratch.root, seed=seed)
        report = Report(
            notebooks=tuple(Entry(path.stem) for path in notebooks),
            mode=mode,
            seed=seed,
            url=url,
            started=now(),
        )
        report.write(folder / "report.json")
        link_latest(folder)
        for position, source in enumerate(notebooks):
            if interrupted.is_set():
                break
            display.begin(source.stem)
            found = _execute(
                source,
                folder,
                environment=environment,
                parameters={"MODE": mode, "TRITON_URL": url, "REPOSITORY": "", "SEED": seed},
                timeout_s=timeout_s or TIMEOUT_S[mode],
                cwd=cwd,
                display=display,
                interrupted=interrupted,
            )
            entries = list(report.notebooks)
            entries[position] = found
            report = replace(report, notebooks=tuple(entries))
            report.write(folder / "report.json")
            page.write_index(report, folder)
            display.end(found)
        report = _close(report, interrupted=interrupted.is_set())
        report.write(folder / "report.json")
        page.write_index(report, folder)
        shutil.rmtree(folder / "jupyter", ignore_errors=True)
        return Run(folder, report, interrupted.is_set())


def _execute(
    source: Path,
    folder: Path,
    *,
    environment: dict[str, str],
    parameters: dict[str, object],
    timeout_s: float,
    cwd: Path,
    display: Display,
    interrupted: threading.Event,
) -> Entry:
    """One notebook of a run: executed copy, page, log and records."""
    name = source.stem
    executed, log = folder / source.name, folder / "logs" / f"{name}.log"
    records = folder / "records" / f"{name}.jsonl"
    log.parent.mkdir(exist_ok=True)
    outcome = execute_notebook(
        source,
        executed,
        cwd=cwd,
        parameters=parameters,
        environment=with_records(environment, records),
        log=log,
        timeout_s=timeout_s,
        entered=lambda number, total: display.cell(name, number, total),
        interrupted=interrupted.is_set,
    )
    if not _is_notebook(executed):  # the child was killed while it saved
        shutil.copyfile(source, executed)
    files = {"executed": executed.name, "html": page.export_html(executed).name}
    return entry(name, outcome, records=records, files={**files, "log": str(log.relative_to(folder))})


def _is_notebook(path: Path) -> bool:
    try:
        nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        return False
    return True


def _close(report: Report, *, interrupted: bool) -> Report:
    """The final report: every notebook had its turn, or the rest says why not."""
    if not interrupted:
        return replace(report, complete=True)
    waiting = Entry("").reason
    entries = [
        replace(found, reason="not run: interrupted") if found.reason == waiting else found
        for found in report.notebooks
    ]
    return replace(report, notebooks=tuple(entries))


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that signals set instead of ending the process, however often they come."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored on purpose: nohup
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: event.set()) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
