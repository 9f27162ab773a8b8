"""Which notebooks to run: by number, by name, or all of the course."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from tutorial_lib.course.numbering import APPENDICES, key_of
from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS


def available(folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks of the course, in order: every `NN_name.ipynb` of the folder."""
    return sorted(path for path in folder.glob("*.ipynb") if re.match(r"\d\d_", path.name))


def appendices(folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks beside the course's way: each runs alone, and they come after the numbered ones."""
    return [path for name in APPENDICES if (path := folder / f"{name}.ipynb").exists()]


def select(words: Sequence[str] = (), *, folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks that the words name, in the order of the course and each once.

    Args:
        words: numbers ("4" or "04"), names, paths or parts of names; none means all notebooks.
        folder: where the notebooks are.

    Raises:
        NotebookError: there is no notebook, a word names none, or a word names several.
    """
    notebooks = available(folder)
    if not notebooks:
        raise NotebookError(
            f"folder {folder}: found no notebook named NN_*.ipynb.",
            action="Restore the checkout: git status.",
        )
    notebooks += appendices(folder)
    if not words:
        return notebooks
    chosen = {_find(word, notebooks) for word in words}
    return [path for path in notebooks if path in chosen]


def _find(word: str, notebooks: list[Path]) -> Path:
    """The one notebook that the word names."""
    if word.isdecimal():
        matches = [path for path in notebooks if _number(path) == int(word)]
    else:
        stem = Path(word).name.removesuffix(".ipynb")
        exact = [path for path in notebooks if stem in (path.stem, key_of(path), re.sub(r"^\d\d_", "", path.stem))]
        matches = exact or [path for path in notebooks if stem and stem.lower() in path.stem.lower()]
    if len(matches) == 1:
        return matches[0]
    listing = "Available:\n" + "\n".join(f"  {path.stem}" for path in notebooks)
    if matches:
        names = ", ".join(path.stem for path in matches)
        raise NotebookError(
            f"notebook {word!r}: found {len(matches)} with this in their name ({names}), expected one.",
            action="Write more of the name, or its number.",
            details=listing,
        )
    raise NotebookError(
        f"notebook {word!r}: found no such notebook.",
        action=f"Did you mean {_nearest(word, notebooks).stem!r}?",
        details=listing,
    )


def _number(path: Path) -> int:
    """A notebook's number; -1 for an appendix, which has none."""
    return int(path.name[:2]) if path.name[:2].isdecimal() else -1


def _nearest(word: str, notebooks: list[Path]) -> Path:
    """The notebook whose number or name is nearest to the word."""
    if word.isdecimal():
        return min(available(notebooks[0].parent), key=lambda path: abs(_number(path) - int(word)))

    def likeness(path: Path) -> float:
        names = (path.stem, path.stem[3:], *path.stem[3:].split("_"))
        return max(difflib.SequenceMatcher(None, word.lower(), name).ratio() for name in names)

    return max(notebooks, key=likeness)
