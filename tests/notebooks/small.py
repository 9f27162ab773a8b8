"""Small notebooks for tests of the runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PARAMETERS = 'MODE = "quick"\nTRITON_URL = ""\nREPOSITORY = ""\nSEED = 0'


def write(
    folder: Path,
    name: str,
    *sources: str | tuple[str, Sequence[str]],
    parameters: str = PARAMETERS,
    tags: Sequence[str] = ("parameters",),
) -> Path:
    """Write a notebook: a title, a parameters cell, then a code cell for each source (with tags)."""
    cells = [new_markdown_cell(f"# {name}", id="title")]
    for number, source in enumerate([(parameters, tags), *sources]):
        text, its_tags = source if isinstance(source, tuple) else (source, ())
        cells.append(new_code_cell(text, id=f"c{number}", metadata={"tags": list(its_tags)}))
    # a kernel that nobody has: the runner must not look for it
    kernel = {"name": "no-such-kernel", "display_name": "No such kernel", "language": "python"}
    path = folder / f"{name}.ipynb"
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path
