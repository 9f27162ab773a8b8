"""Execute the notebooks of the course and report on them."""

from tutorial_lib.runner.folders import KEPT_RUNS
from tutorial_lib.runner.run import TIMEOUT_S, Run, run_notebooks
from tutorial_lib.runner.selection import appendices, available, select

__all__ = ["KEPT_RUNS", "TIMEOUT_S", "Run", "appendices", "available", "run_notebooks", "select"]
