"""Where things are: the checkout, the learner's workspace, and safe writing into it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
NOTEBOOKS = CHECKOUT / "notebooks"
REFERENCE_REPOSITORY = CHECKOUT / "model_repository"

WORKSPACE_VARIABLE = "WORKSHOP_WORKSPACE"


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

    def seed(self) -> Path:
        """Copy what the reference model repository has and this workspace lacks.

        Files that exist here are left as they are: they may be the learner's own edits.

        Returns:
            The path of this workspace's model repository.
        """
        for source in sorted(REFERENCE_REPOSITORY.rglob("*")):
            parts = source.relative_to(REFERENCE_REPOSITORY).parts
            if source.is_dir() or any(part.startswith(".") or part == "__pycache__" for part in parts):
                continue
            target = self.model_repository.joinpath(*parts)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(target) as temporary:
                    shutil.copyfile(source, temporary)
        self.model_repository.mkdir(parents=True, exist_ok=True)
        return self.model_repository


def workspace() -> Workspace:
    """The current workspace: `$WORKSHOP_WORKSPACE`, or `workspace/` in the checkout."""
    root = Path(os.environ.get(WORKSPACE_VARIABLE) or CHECKOUT / "workspace").expanduser().resolve()
    root.mkdir(parents=True, exist_ok=True)
    return Workspace(root)


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
    finally:
        temporary.unlink(missing_ok=True)
