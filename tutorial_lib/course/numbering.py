"""What a notebook is called in names of exercises, in progress and in `reset`: "04", or "own" for the appendix."""

from __future__ import annotations

from pathlib import Path

APPENDICES = {"bring_your_own_model": "own"}  # beside the course's way: file → key
AFTER_ALL = 99  # where an appendix stands in the order


def key_of(notebook: Path | str) -> str:
    """The key of a notebook, from its path or file name: "04" of `04_write_model_repository.ipynb`."""
    stem = Path(notebook).name.removesuffix(".ipynb")
    return APPENDICES.get(stem) or stem.partition("_")[0]


def position(key: str) -> int:
    """Where the notebook of a key stands in the course; -1 for what is no key."""
    if key in APPENDICES.values():
        return AFTER_ALL
    return int(key) if key.isdecimal() else -1


def name_of(number: int) -> str:
    """A position as `./workshop` takes it: "06", or the name of the appendix."""
    return next(iter(APPENDICES)) if number == AFTER_ALL else f"{number:02}"
