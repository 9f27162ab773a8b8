"""What the environment takes of the network and the disk. Standard library only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tutorial_lib.environment.pip_run import Failure

# Sizes of the locked wheels (x86-64, Python 3.11) and of the environment they become; cuda: wheels
# measured, environment estimated; ngc: without torch.
DOWNLOAD_MB = {"cpu": 553, "cuda": 3093, "ngc": 363}
DISK_MB = {"cpu": 2750, "cuda": 8650, "ngc": 1950}


def check_disk(venv: Path, build: str) -> None:
    """Refuse to start what the disk cannot hold.

    Raises:
        Failure: with the space needed and found.
    """
    present = sum(entry.stat().st_blocks * 512 for entry in _files(venv)) // 2**20
    needed, free = max(DISK_MB[build] - present, 100), shutil.disk_usage(venv.parent).free // 2**20
    if free < needed:
        raise Failure(
            f"Disk: the environment {venv} needs about {needed} MB more, found {free} MB free.",
            "Free some space, or put the checkout on a larger disk, then run this again.",
        )


def _files(folder: Path) -> Iterator[os.DirEntry]:
    if folder.is_dir():
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry


def megabytes(number: int) -> str:
    """A size for people: "545 MB", "3.1 GB"."""
    return f"{number / 1000:.1f} GB" if number >= 1000 else f"{number} MB"
