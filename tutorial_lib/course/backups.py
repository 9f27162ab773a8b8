"""Setting files of a workspace aside instead of deleting them: `backups/<time>/`, same paths inside."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from tutorial_lib.paths import Workspace

FOLDER = "backups"


def new_backup(space: Workspace) -> Path:
    """A folder name that nobody has used; the folder is made when something comes into it."""
    while True:
        folder = space.root / FOLDER / datetime.now().strftime("%Y%m%d-%H%M%S-%f")[:-3]
        if not folder.exists():
            return folder


def set_aside(path: Path, *, space: Workspace, backup: Path) -> Path:
    """Move a file or folder of the workspace to the same place inside the backup folder.

    Within one file system this is one step: an interrupt leaves it either here or there. What has gone
    meanwhile is left out.

    Returns:
        Where it is now.
    """
    target = backup / path.relative_to(space.root)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.rename(target)
    except FileNotFoundError:
        return target
    except OSError:  # a folder of the workspace lies on another file system: copied first, then removed
        shutil.move(path, target)
    return target
