"""Style that a machine can judge: of the library, the tests and the notebooks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial_lib.paths import CHECKOUT

LINES = 300
LONGER = {"model.py"}  # of a backend: one file that imports nothing of ours


def tracked(*patterns):
    told = subprocess.run(["git", "ls-files", *patterns], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return [CHECKOUT / name for name in told.stdout.splitlines() if (CHECKOUT / name).is_file()]


LIBRARY = tracked("tutorial_lib/*.py")


def test_ruff_finds_nothing_in_code_and_notebooks():
    told = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=CHECKOUT, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout


def test_no_notebook_carries_outputs():
    notebooks = [str(path) for path in tracked("*.ipynb")]
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--dry-run", *notebooks]
    told = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True) if notebooks else None
    assert told is None or "would have stripped" not in told.stdout, told.stdout


def test_nothing_tracked_is_made_or_large():
    for path in tracked():
        assert path.suffix not in {".onnx", ".pt", ".plan", ".safetensors", ".pyc"} or "cases" in path.parts, path
        assert path.stat().st_size < 2**20, path


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_modules_are_short_said_in_a_sentence_and_hinted(path: Path):
    text = path.read_text()
    assert len(text.splitlines()) <= LINES or path.name in LONGER
    module = ast.parse(text)
    assert ast.get_docstring(module) or not module.body
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.FunctionDef) and node in module.body:
            assert node.returns is not None, f"{node.name} has no return type"
            names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert all(name.annotation for name in names), f"{node.name} has arguments without a type"


@pytest.mark.parametrize("path", tracked("*.py"), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_no_swallowed_errors_and_no_sleep_as_readiness(path: Path):
    text = path.read_text()
    assert not re.search(r"except( Exception| BaseException)?:\s*\n\s+pass\b", text)
    if path.is_relative_to(CHECKOUT / "tests") and "cases" not in path.parts:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        assert not [call.lineno for call in calls if ast.unparse(call.func) in ("time.sleep", "sleep")]
