"""`./workshop bench`: the performance claims of this repository, measured on the machine at hand.

A bench is a function `run(*, repeats: int, say: Callable[[str], None], **options) -> Result`. To add one, write
it into a module of its own and name it here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tutorial_lib.bench.result import Result
from tutorial_lib.errors import WorkshopError

# name → (module:function, imported only when asked for; what it measures)
HOMES = {
    "backend": ("tutorial_lib.bench.backend:run", "the embedded server against what one would pick instead"),
    "cycles": ("tutorial_lib.bench.cycles:run", "what a server keeps of 200 models loaded and unloaded"),
    "gateway": ("tutorial_lib.bench.gateway:run", "gateway and Triton against the naive app"),
    "lint": ("tutorial_lib.bench.lint:run", "the linter on a repository of 1,000 models"),
    "load": ("tutorial_lib.bench.load:run", "the load generator's ceiling, and perf_analyzer on the same server"),
}


def bench(name: str) -> Callable[..., Result]:
    """The function of a bench.

    Raises:
        WorkshopError: there is none of this name.
    """
    if name not in HOMES:
        raise WorkshopError(f"bench: found '{name}', expected one of {', '.join(HOMES)}.")
    module, _, function = HOMES[name][0].partition(":")
    return getattr(importlib.import_module(module), function)
