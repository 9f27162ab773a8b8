"""Where things are: the checkout, the learner's workspace, and safe writing into it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import SetupError, WorkshopError

CHECKOUT = Path(__file__).resolve().parent.parent
NOTEBOOKS = CHECKOUT / "notebooks"
REFERENCE_REPOSITORY = CHECKOUT / "model_repository"

WORKSPACE_VARIABLE = "WORKSHOP_WORKSPACE"
_TRACKED = tuple(
    CHECKOUT / name for name in ("notebooks", "model_repository", "tutorial_lib", "tests", "docker", ".git")
)


@dataclass(frozen=True)
class Workspace:
    """The git-ignored folder that everything a learner makes goes into.

    Attributes:
        root: the folder itself; `workspace()` makes it.
    """

    root: Path

    @property
    def model_repository(self) -> Path:
        return self.root / "model_repository"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def exports(self) -> Path:
        """ONNX files and engines, before they are copied into a model repository."""
        return self.root / "exports"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def runs(self) -> Path:
        """One folder per `./workshop run`, the newest linked as `latest`."""
        return self.root / "runs"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def catch_up_lock(self) -> Path:
        """The file that a `catch_up` under way holds locked."""
        return self.cache / "catch_up.lock"

    def seed(self) -> Path:
        """Copy what the reference model repository has and this workspace lacks.

        Files that exist here are left as they are: they may be the learner's own edits.

        Returns:
            The path of this workspace's model repository.
        """
        for source in reference_files():
            target = self.model_repository / source.relative_to(REFERENCE_REPOSITORY)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(target) as temporary:
                    shutil.copyfile(source, temporary)
        self.model_repository.mkdir(parents=True, exist_ok=True)
        return self.model_repository


def real_path(given: Path | str, subject: str, *, error: type[WorkshopError] = SetupError) -> Path:
    """A path as an absolute one, without `~` and links; it need not exist.

    Args:
        given: what a person wrote.
        subject: what it is to be, for the message.
        error: the exception's class.

    Raises:
        WorkshopError: of that class: there can be no such path, or it may not be looked at.
    """
    try:
        path = Path(given).expanduser().resolve()
        path.exists()  # a name can be too long, or in a folder that is closed
    except (TypeError, ValueError, RuntimeError, OSError) as reason:  # RuntimeError: ~nobody, or links in a circle
        said = str(given) if isinstance(given, (str, os.PathLike)) else repr(given)
        shown = said if len(said) <= 80 else f"{said[:40]} … {said[-20:]}"
        why = getattr(reason, "strerror", None) or str(reason).partition(" '")[0]
        raise error(
            f"{subject} {shown!r}: not a path to use: {why.rstrip('.')}.", action="Give a folder's path."
        ) from reason
    return path


def workspace_root() -> Path:
    """Where the workspace is or will be: `$WORKSHOP_WORKSPACE`, or `workspace/` in the checkout.

    Raises:
        SetupError: the variable names a file, the checkout itself or one of its tracked folders.
    """
    root = real_path(os.environ.get(WORKSPACE_VARIABLE) or CHECKOUT / "workspace", WORKSPACE_VARIABLE)
    tracked = next((folder for folder in _TRACKED if root.is_relative_to(folder)), None)
    if root == CHECKOUT or CHECKOUT.is_relative_to(root) or tracked:
        raise SetupError(
            f"{WORKSPACE_VARIABLE}: found {root}, expected a folder of its own; "
            f"{tracked or CHECKOUT} is the course itself, which nothing may write into.",
            action="Name another folder, such as workspace-anna, or leave the variable out.",
        )
    file = next((path for path in (root, *root.parents) if path.exists() and not path.is_dir()), None)
    if file:
        raise SetupError(
            f"{WORKSPACE_VARIABLE}: found {root}, but {file} is a file; expected a folder, or one that can be made.",
            action="Name another folder, such as workspace-anna, or leave the variable out.",
        )
    return root


def workspace() -> Workspace:
    """The current workspace; its folder is made if it is missing.

    Raises:
        SetupError: its path is none, or it cannot be made.
    """
    root = workspace_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"workspace {root}: cannot be made: {error.strerror}.",
            action=f"Name a folder of yours in {WORKSPACE_VARIABLE}.",
        ) from error
    return Workspace(root)


def reference_files() -> list[Path]:
    """The files of the reference model repository, without caches and hidden files."""
    found = []
    for path in sorted(REFERENCE_REPOSITORY.rglob("*")):
        parts = path.relative_to(REFERENCE_REPOSITORY).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            found.append(path)
    return found


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it into place only if the block succeeds.

    A reader never sees a half-written file, and an interrupted or failed write (a full disk)
    leaves whatever was there before.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; the result gets the mode any new file would have
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # what is copied is not what is full
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        temporary.unlink(missing_ok=True)
