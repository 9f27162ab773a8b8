"""The environment of a kernel that a run starts: everything it writes goes into the workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tutorial_lib.course.progress import PROGRESS_VARIABLE
from tutorial_lib.course.record import RECORDS_VARIABLE
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE

# A person's own settings and the session a command was typed in must not reach the kernels.
_DROPPED = (
    "JPY_SESSION_NAME",
    "JPY_PARENT_PID",
    "JUPYTER_PATH",
    "JUPYTER_CONFIG_PATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
)


def jupyter_environment(state: Path, *, cache: Path) -> dict[str, str]:
    """Environment variables that keep Jupyter, IPython and matplotlib out of the home folder.

    Args:
        state: folder for Jupyter's and IPython's own files.
        cache: folder for what is worth keeping between runs, such as matplotlib's font list.
    """
    for folder in (state, cache):
        folder.mkdir(parents=True, exist_ok=True)  # IPython wants the parent of its own folder to be there
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    search = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return environment | {
        "IPYTHONDIR": str(state / "ipython"),
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTER_DATA_DIR": str(state / "data"),
        "JUPYTER_PATH": str(state / "data"),  # comes before the kernels of the environment
        "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "XDG_CACHE_HOME": str(cache / "xdg"),
        "PYTHONPATH": os.pathsep.join(search),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # no warning about frozen modules in every log
    }


def run_environment(folder: Path, *, cache: Path, scratch: Path, seed: int) -> dict[str, str]:
    """The environment of every notebook of a run, apart from its own records file.

    Args:
        folder: the run's folder.
        cache: as in `jupyter_environment`.
        scratch: the workspace that the notebooks of this run see.
        seed: seeds Python's string hashes too.
    """
    return jupyter_environment(folder / "jupyter", cache=cache) | {
        WORKSPACE_VARIABLE: str(scratch),
        PROGRESS_VARIABLE: str(scratch / "progress.json"),  # a run is nobody's progress: it keeps its own
        "PYTHONHASHSEED": str(seed),
        "PYTHONNOUSERSITE": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def with_records(environment: Mapping[str, str], path: Path) -> dict[str, str]:
    """The environment of one notebook, with the file its records go to."""
    return {**environment, RECORDS_VARIABLE: str(path)}
