"""The table of behaviours and the conformance suite name each other."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from tests.server.conformance.rows import ROWS
from tests.server.judge import CASES
from tutorial_lib.paths import CHECKOUT

TABLE = (CHECKOUT / "tutorial_lib" / "backends" / "README.md").read_text().partition("## onnxruntime")[2]
TABLE = TABLE.partition("\n## ")[0]
LINES = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| behaviour"))]
BEHAVIOURS = [line for line in LINES if not line.startswith("| **")]


def seen_by(line: str) -> str:
    return line.rstrip(" |").rpartition(" | ")[2]


@pytest.mark.parametrize("line", BEHAVIOURS, ids=lambda line: line[2:50])
def test_each_behaviour_has_a_verdict_and_names_what_exists(line: str):
    cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
    assert len(cells) == 3 and cells[1].startswith(("same", "different"))
    names = re.findall(r"`([^`]+)`", seen_by(line))
    for name in names:
        if name.startswith("tests/"):
            path, _, function = name.partition("::")
            assert f"def {function}(" in (CHECKOUT / path).read_text(), name
        else:
            assert any(fnmatch(row.name, name) for row in ROWS), f"no row is called {name}"
    for numbers in re.findall(r"cases? ([\d, –]+)", seen_by(line)):
        for number in re.findall(r"\d+", numbers):
            assert next(CASES.glob(f"{number}-*"), None), f"no case {number}"
    assert names or "case" in seen_by(line)


def test_each_row_is_in_the_table():
    patterns = [name for line in BEHAVIOURS for name in re.findall(r"`([^`]+)`", seen_by(line))]
    assert [row.name for row in ROWS if not any(fnmatch(row.name, pattern) for pattern in patterns)] == []


PYTORCH = (
    (CHECKOUT / "tutorial_lib" / "backends" / "README.md")
    .read_text()
    .partition("\n## pytorch\n")[2]
    .partition("\n## ")[0]
)


def test_the_pytorch_table_names_what_exists():
    suite = (CHECKOUT / "tests" / "server" / "conformance" / "test_pytorch.py").read_text()
    lines = [line for line in PYTORCH.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| beh"))]
    named = {name for line in lines for name in re.findall(r"`(\w+)`", seen_by(line))}
    for line in lines:
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        assert len(cells) == 3 and cells[1].startswith(("same", "different")), line
        assert "`" in seen_by(line), f"no test: {line}"
    unknown = [name for name in named if f"def {name}(" not in suite and f'"{name}": ' not in suite]
    assert len(lines) > 20 and unknown == []
