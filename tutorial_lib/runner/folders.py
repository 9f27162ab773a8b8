"""The folders of runs: a new one each time, the newest linked, the oldest removed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

KEPT_RUNS = 10


@contextmanager
def new_folder(runs: Path) -> Iterator[Path]:
    """A new folder named by the time to the millisecond, locked as long as the run lives."""
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        folder = runs / datetime.now().strftime("%Y%m%d-%H%M%S-%f")[:-3]
        try:
            folder.mkdir()
            break
        except FileExistsError:
            continue  # of the same millisecond
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def is_running(folder: Path) -> bool:
    """Whether the run of this folder still runs: its process holds the lock."""
    try:
        with (folder / ".lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no lock: not a run, or one being removed
    return False


def ended_runs(runs: Path) -> list[Path]:
    """Folders of runs that have ended, oldest first."""
    found = [path for path in runs.glob("*") if re.fullmatch(r"\d{8}-\d{6}-\d{3}", path.name)]
    return sorted(path for path in found if not path.is_symlink() and not is_running(path))


def keep_newest(runs: Path) -> None:
    """Remove the oldest runs, so that with the new one at most `KEPT_RUNS` fill the disk."""
    for folder in ended_runs(runs)[: -(KEPT_RUNS - 1)]:
        shutil.rmtree(folder, ignore_errors=True)


def link_latest(folder: Path) -> None:
    """Point `latest` at the folder; at no moment is there no link."""
    temporary = folder.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.name)
    os.replace(temporary, folder.with_name("latest"))
