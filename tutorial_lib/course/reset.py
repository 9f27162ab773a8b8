"""`./workshop reset 06`: the workspace as `catch_up("06")` leaves an empty one; what differs is set aside."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.course import progress
from tutorial_lib.course.backups import FOLDER as BACKUPS
from tutorial_lib.course.backups import new_backup, set_aside
from tutorial_lib.course.catch_up import AFTER_REPOSITORY, catch_up_locked, explained, locked, step_number
from tutorial_lib.course.manifest import Manifest, sha256_of
from tutorial_lib.course.numbering import AFTER_ALL, name_of
from tutorial_lib.course.parts import PARTS, State
from tutorial_lib.errors import SetupError
from tutorial_lib.paths import REFERENCE_REPOSITORY, Workspace, reference_files, workspace
from tutorial_lib.server.command_lines import command_lines
from tutorial_lib.server.plain_path import names_inside

_CACHES = ("__pycache__",)  # made by running a model, and nobody's work
OWN_MODELS = "own_models"  # the appendix puts its model repository there
_SERVERS = ("tritonserver", "supervisor.py")


@dataclass(frozen=True)
class ResetPlan:
    """What a reset does.

    Attributes:
        space: the workspace.
        number: the notebook to be ready for; 0 for the whole workspace.
        aside: files and folders that differ from what `catch_up` leaves, to be moved into the backup.
        exercises: names of exercises whose progress is forgotten here and kept in the backup.
        missing: names of the parts that are made anew.
    """

    space: Workspace
    number: int
    aside: Sequence[Path]
    exercises: Sequence[str]
    missing: Sequence[str]

    @property
    def notebook(self) -> str:
        """The notebook as a learner calls it."""
        return name_of(self.number)

    @property
    def empty(self) -> bool:
        return not (self.aside or self.exercises or self.missing)


def plan_reset(step: str | int = 0) -> ResetPlan:
    """Find what a reset to the start of a notebook would do; nothing is changed.

    Args:
        step: the notebook, such as "06"; 0 means the whole workspace.

    Raises:
        NotebookError: there is no such notebook.
        SetupError: a server of this workspace runs.
    """
    number, space = step_number(step), workspace()
    refuse_running_servers(space)
    manifest = Manifest.read(space)
    expected, missing = _unchanged_reference(space) if number else set(), []
    for part in (part for part in PARTS if part.step <= number):
        # after one that has to be made anew, everything else is made from something else
        if not missing and part.state(space, manifest) is State.FRESH:
            expected.update(part.files(space))
        else:
            missing.append(part.name)
    if number >= AFTER_REPOSITORY and len(_unchanged_reference(space)) < len(reference_files()):
        missing.append("reference configurations")
    aside: list[Path] = []
    for folder in (space.checkpoints, space.exports, space.model_repository):
        aside += _others(folder, expected)
    aside += sorted(path for path in space.root.glob("scratch*") if path.is_dir() and not path.is_symlink())
    aside += _ended_labs(space)
    if number in (0, AFTER_ALL) and (space.root / OWN_MODELS).is_dir():
        aside.append(space.root / OWN_MODELS)
    if number == 0 and (space.root / "records").is_dir():
        aside.append(space.root / "records")
    return ResetPlan(space, number, tuple(aside), tuple(progress.noted_from(number)), tuple(missing))


def carry_out(plan: ResetPlan, *, show_progress: bool = True) -> Path | None:
    """Do what the plan says: set aside first, then make what is missing.

    An interrupt loses nothing: every file is either where it was or in the backup, and the next reset
    goes on. Notebooks and tracked files are never touched.

    Returns:
        The backup folder, or None when nothing was set aside.

    Raises:
        SetupError: a server of this workspace has started meanwhile, or the workspace cannot be written.
    """
    space = plan.space
    with explained(space), locked(space):
        refuse_running_servers(space)
        backup = new_backup(space)
        for path in plan.aside:
            set_aside(path, space=space, backup=backup)
        if plan.exercises:
            _forget(plan.number, backup)
        if plan.number:
            catch_up_locked(space, plan.number, progress=show_progress)
    return backup if backup.exists() else None


def refuse_running_servers(space: Workspace) -> None:
    """Refuse to move files under a server.

    Raises:
        SetupError: with the process of each.
    """
    found = []
    for pid, line in command_lines():
        words = [word for word in line if not names_inside([word], space.runs)]
        if any(Path(word).name in _SERVERS for word in words[:4]) and names_inside(words, space.root):
            found.append(pid)
    if found:
        raise SetupError(
            f"workspace {space.root}: a server of it runs (process {', '.join(map(str, found))}), expected none.",
            action="Stop it: server.stop() in its notebook, shut down that kernel, or Ctrl-C in ./workshop serve.",
        )


def _unchanged_reference(space: Workspace) -> set[Path]:
    """Files of the workspace's repository that are as in the reference."""
    pairs = [
        (source, space.model_repository / source.relative_to(REFERENCE_REPOSITORY)) for source in reference_files()
    ]
    return {target for source, target in pairs if sha256_of(target) == sha256_of(source)}


def _others(folder: Path, expected: set[Path]) -> Iterator[Path]:
    """The topmost files and folders in which nothing is expected; all of `folder` counts, if it is there."""
    if folder.name in _CACHES or folder in expected or not (folder.exists() or folder.is_symlink()):
        return
    if folder.is_symlink() or not folder.is_dir() or not any(path.is_relative_to(folder) for path in expected):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        yield from _others(path, expected)


def _ended_labs(space: Workspace) -> list[Path]:
    """Scratch repositories of break-it labs whose kernel has ended."""
    found = []
    for slot in sorted((space.root / "break_it").glob("[0-9]*")):
        with contextlib.suppress(OSError), slot.with_name(f".{slot.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(slot)
    return found


def _forget(number: int, backup: Path) -> None:
    """Keep a copy of the progress file, then forget what comes from notebook `number` on."""
    source = progress.progress_path()
    if source.is_file():
        backup.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, backup / "progress.json")
    progress.forget_from(number)


def told(plan: ResetPlan) -> list[str]:
    """The plan in lines that a learner can read."""
    root = plan.space.root
    lines = [f"aside   {path.relative_to(root)}" for path in plan.aside]
    if plan.exercises:
        lines.append(f"aside   progress of {len(plan.exercises)} exercises: {', '.join(plan.exercises)}")
    lines += [f"make    {name}" for name in plan.missing]
    return [*lines, f"keep    notebooks, runs, logs, {BACKUPS}: they are never touched"]
