"""Label files: one class name a line, in the order of an output's last axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.config_text import Entry

LABEL_FILE = "labels.txt"


def read_labels(labels: Sequence[str] | Path | str) -> tuple[str, ...]:
    """The class names given, or those of a file with one a line.

    Raises:
        RepositoryError: the file is not there or is no UTF-8 text, or a name is empty or has a line end in it.
    """
    if isinstance(labels, (str, Path)):
        try:
            text = Path(labels).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise RepositoryError(
                f"label file {str(labels)!r}: cannot be read as text: {error}.",
                action="Expected one class name a line, in UTF-8.",
            ) from error
        names: Sequence[str] = text.splitlines()
    else:
        names = [str(name) for name in labels]
    if not names:
        raise RepositoryError("labels: found none, expected one for each class.")
    for number, name in enumerate(names, 1):
        if not name.strip() or len(name.splitlines()) > 1:
            raise RepositoryError(
                f"labels, number {number}: found {name!r}, expected a name on one line.",
                action="Every line counts as a class: remove empty ones.",
            )
    return tuple(names)


def label_text(names: Sequence[str]) -> str:
    """What goes into the label file."""
    return "".join(f"{name}\n" for name in names)


def labelled_output(model: str, outputs: Sequence[Entry], names: Sequence[str], *, batched: bool) -> list[Entry]:
    """The outputs, the one that the labels belong to with its label file.

    Raises:
        RepositoryError: no output has as many classes as there are labels, or several have.
    """
    fitting = [entry for entry in outputs if _classes(entry) == len(names)]
    fitting = fitting or [entry for entry in outputs if _classes(entry) == -1 and len(outputs) == 1]
    if len(fitting) != 1:
        sizes = ", ".join(f"'{entry.name}' has {_classes(entry)}" for entry in outputs)
        problem = "none" if not fitting else "several"
        raise RepositoryError(
            f"model {model!r}: found {len(names)} labels, expected one output with as many classes and found "
            f"{problem}: {sizes}.",
            action="Check the number of lines of the label file." if not fitting else "Write label_filename by hand.",
        )
    return [replace(entry, label_filename=LABEL_FILE) if entry is fitting[0] else entry for entry in outputs]


def _classes(entry: Entry) -> int:
    return entry.dims[-1]
