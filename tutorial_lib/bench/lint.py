"""How long the linter takes on a large repository."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_lib.bench.result import Result, at_most
from tutorial_lib.repository.lint_bench import lint_seconds

MODELS = 1000
TARGET_S = 5.0


def run(*, repeats: int, say: Callable[[str], None]) -> Result:
    """Lint 1,000 models, several times."""
    seconds = []
    for number in range(repeats):
        seconds.append(lint_seconds(MODELS))
        say(f"round {number + 1} of {repeats}: {seconds[-1]:.1f} s")
    return Result([at_most(f"seconds to lint {MODELS:,} models", seconds, TARGET_S)], {"seconds": seconds})
