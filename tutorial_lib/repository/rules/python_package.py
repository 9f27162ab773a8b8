"""What model.py imports, and whether the server's Python has it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import lru_cache

from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

STUB = ("triton_python_backend_utils", "c_python_backend_utils", "tritonserver")


@rule(
    "python-package",
    severity="error",
    lesson="05#container-question",
    why="The stub runs model.py with the packages of its own Python.",
)
def python_package(model: ModelView) -> Iterator[Problem]:
    if "EXECUTION_ENV_PATH" in model.config.parameters:
        return
    embedded = model.repository.tier == "embedded"
    for script in model.scripts:
        file = model.relative(script.path)
        beside = {name.removesuffix(".py") for folder in (script.path.parent, model.path) for name in _names(folder)}
        for name, line in script.imports.items():
            if name in STUB or name in beside or name in sys.stdlib_module_names or name == "numpy":
                continue
            if embedded and not _installed(name):
                fix = f"Install {name} into the environment of the server, or correct the import."
                yield Problem(
                    f"{file}, import {name}",
                    "no such package in this environment",
                    "one that is installed",
                    fix,
                    at=line,
                    file=file,
                )
            elif not embedded:
                fix = f"Add it to the image (pip install {name}), or pack an environment (EXECUTION_ENV_PATH)."
                yield Problem(
                    f"{file}, import {name}",
                    "a package that the NGC image may lack",
                    "numpy and the standard library",
                    fix,
                    at=line,
                    file=file,
                    severity="warning",
                )


@lru_cache(maxsize=512)
def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def _names(folder) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
