"""`catch_up("06")`: make whatever the notebooks before 06 would have left, and nothing else."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tqdm.auto import tqdm

from tutorial_lib.course.backups import new_backup, set_aside
from tutorial_lib.course.manifest import Manifest, sha256_of
from tutorial_lib.course.numbering import AFTER_ALL, key_of, position
from tutorial_lib.course.parts import PARTS, SEED, Part, State, export_path, served_path
from tutorial_lib.errors import NotebookError, SetupError
from tutorial_lib.paths import REFERENCE_REPOSITORY, Workspace, atomic_write, reference_files, workspace

__all__ = ["LAST_STEP", "SEED", "catch_up", "export_path", "served_path", "step_number"]

FIRST_STEP, LAST_STEP = 0, 12
AFTER_REPOSITORY = 5  # the first notebook that finds a finished model repository

NEEDED_MIB = 5  # for all that is made, twice

_STAGING = "making-"


def catch_up(step: str | int, *, progress: bool = True, say_kept: bool = True) -> Workspace:
    """Make what the notebooks before `step` leave in the workspace.

    `catch_up.json` in the workspace holds the hash of everything this function made and of what it was
    made from (seed, shared code, checkpoint, reference configuration). What is there and fresh is used
    again, so the second call costs a few milliseconds; what has become stale is made again. A file that
    somebody else made, such as a checkpoint of another seed or an edited config.pbtxt, is the learner's:
    it is kept, and the call says so. One that is of no use to later steps (cut, or exported from another
    checkpoint) is set aside in `backups/` first. Two calls at once wait for each other; an interrupted
    one leaves nothing half-written, and the next goes on.

    Args:
        step: the notebook to get ready for, such as "06".
        progress: show a bar for what has to be made.
        say_kept: name the files that are the learner's own.

    Returns:
        The workspace: `checkpoints/`, `exports/` and, from "05" on, `model_repository/` are filled.

    Raises:
        NotebookError: there is no such notebook.
        SetupError: the workspace cannot be written, for example because the disk is full.
    """
    number = step_number(step)
    space = workspace()
    with explained(space), locked(space):
        catch_up_locked(space, number, progress=progress, say_kept=say_kept)
    return space


def catch_up_locked(space: Workspace, number: int, *, progress: bool = True, say_kept: bool = True) -> None:
    """`catch_up` for a caller that holds the lock of the workspace."""
    manifest, parts = Manifest.read(space), [part for part in PARTS if part.step <= number]
    states = [part.state(space, manifest) for part in parts]
    if any(state not in (State.FRESH, State.OWN) for state in states):
        with tqdm(total=len(parts), desc="catch up", unit="step", disable=not progress) as bar:
            for part in parts:
                bar.set_description(f"catch up: {part.doing}")
                # asks for the state again: an earlier part may have changed it
                _bring_up(part, space, manifest, progress=progress)
                bar.update()
            bar.set_description("catch up: ready")
        states = [part.state(space, manifest) for part in parts]
    kept = [_called(part, space) for part, state in zip(parts, states, strict=True) if state is State.OWN]
    if number >= AFTER_REPOSITORY:
        kept += _fill_repository(space, manifest)
    if say_kept and any(kept):
        print(f"○ catch_up keeps what is yours: {', '.join(filter(None, kept))}.")


def step_number(step: str | int) -> int:
    """The number in "06", 6 or "06_call_the_server"; 99 for the appendix, by its name or as "own".

    Raises:
        NotebookError: there is no such notebook.
    """
    text = key_of(str(step).strip())
    if position(text) == AFTER_ALL and not text.isdecimal():
        return AFTER_ALL
    if text.isdecimal() and FIRST_STEP <= int(text) <= LAST_STEP:
        return int(text)
    raise NotebookError(
        f"step {step!r}: found no notebook of this number, expected one from '{FIRST_STEP:02}' to '{LAST_STEP:02}'."
    )


@contextlib.contextmanager
def locked(space: Workspace) -> Iterator[None]:
    """One catch-up per workspace; the lock goes with the process, however it ends."""
    space.cache.mkdir(parents=True, exist_ok=True)
    with space.catch_up_lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("○ catch_up: another one works in this workspace; waiting for it …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _bring_up(part: Part, space: Workspace, manifest: Manifest, *, progress: bool) -> None:
    """Make one part unless it is there; the manifest knows it before the workspace has it."""
    state = part.state(space, manifest)
    if state in (State.FRESH, State.OWN):
        return
    for left in space.cache.glob(f"{_STAGING}*"):  # of a call that was killed
        shutil.rmtree(left, ignore_errors=True)
    if shutil.disk_usage(space.root).free < NEEDED_MIB * 2**20:  # better now than after the training
        raise OSError(errno.ENOSPC, "No space left on device")
    staging = Path(tempfile.mkdtemp(dir=space.cache, prefix=_STAGING))
    try:
        part.make(space, staging, progress)
        made = {path: staging / path.name for path in part.files(space)}
        if state is State.UNFIT:
            _set_unfit_aside(part, space)
        hashes = {str(path.relative_to(space.root)): sha256_of(source) for path, source in made.items()}
        manifest.note(part.name, inputs=part.inputs(space), files=hashes)
        for path, source in made.items():
            _copy(source, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _set_unfit_aside(part: Part, space: Workspace) -> None:
    backup, problem = new_backup(space), part.problem(space)
    for path in part.files(space):
        if path.exists():
            set_aside(path, space=space, backup=backup)
    print(f"△ catch_up: {problem} It is kept in {backup.relative_to(space.root)}; a new one takes its place.")


def _fill_repository(space: Workspace, manifest: Manifest) -> list[str]:
    """Copy the reference's files, and again those that changed there but not here.

    Returns:
        The files that differ because the learner edited them, as paths in the workspace.
    """
    edited, before = [], dict(manifest.reference)
    for source in reference_files():
        name = str(source.relative_to(REFERENCE_REPOSITORY))
        target = space.model_repository / name
        reference, found = sha256_of(source), sha256_of(target)
        if found in ("", manifest.reference.get(name)) and found != reference:
            _copy(source, target)
        elif found != reference:
            edited.append(str(target.relative_to(space.root)))
            continue
        manifest.reference[name] = reference
    if manifest.reference != before:
        manifest.write()
    return edited


def _called(part: Part, space: Workspace) -> str:
    """What a message calls a part of the learner's own; "" for a mere copy of an earlier one."""
    path = part.files(space)[0]
    if path == served_path(space) and sha256_of(path) == sha256_of(export_path(space)):
        return ""
    return str(path.relative_to(space.root))


def _copy(source: Path, target: Path) -> None:
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)


@contextlib.contextmanager
def explained(space: Workspace) -> Iterator[None]:
    """A workspace that cannot be written, as an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free_mib = shutil.disk_usage(space.root).free / 2**20
            raise SetupError(
                f"workspace {space.root}: its disk is full; found {free_mib:.1f} MiB free, expected {NEEDED_MIB} or "
                "more. Nothing was lost.",
                action="Make room (./workshop clean helps), then do it again: it goes on from there.",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise SetupError(
                f"workspace {space.root}: {error.filename or 'a file'} cannot be written ({error.strerror}).",
                action="Make it yours (ls -ld shows whose it is), or name another folder in WORKSHOP_WORKSPACE.",
            ) from error
        raise
