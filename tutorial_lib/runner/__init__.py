"""Execute the notebooks of the course and report on them."""

from tutorial_lib.runner.folders import KEPT_RUNS
from tutorial_lib.runner.run import TIMEOUT_S, Run, run_notebooks
from tutorial_lib.runner.selection import available, select

__all__ = ["KEPT_RUNS", "TIMEOUT_S", "Run", "available", "run_notebooks", "select"]
