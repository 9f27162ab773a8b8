"""What a break-it lab is made of: a fault, what it looks like, its repair and repairs that are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tutorial_lib.course.subjects import DIGITS, Subject
from tutorial_lib.repository.layout import CONFIG


@dataclass(frozen=True)
class WrongRepair:
    """A repair that is none; the tests run it, and `fixed()` must refuse it.

    Attributes:
        code: as a learner would write it in the stub cell, with `lab` (and `shutil`, `space`) at hand.
        says: part of what `fixed()` then says.
    """

    code: str
    says: str


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong with a model repository, or with the start of a server.

    Attributes:
        name: what `break_it` is called with.
        notebook: the notebook that has the lab, "04".
        story: how it came about, one sentence that does not name the mistake.
        symptom: part of what the server says, on every tier that shows the fault.
        look: files worth opening, relative to the model's folder; "" is the folder itself.
        inject: makes the fault in a whole copy of the model's folder.
        hints: what to say to a repair that the server refuses, one more at each attempt.
        proves: what a repair has shown, one clause.
        repair: the reference repair, the code of the solution cell without its first line.
        wrong: two or more repairs that are none.
        gives_up: what a repair that the server accepts has lost all the same, as a hint; "" when nothing.
        start: arguments of `serve()` that are faulty; `lab.start` holds them for the learner to mend.
        subject: the model that is broken, with those it needs.
        compact: whether the notebook breaks and mends it in one cell, without words around it.
    """

    name: str
    notebook: str
    story: str
    symptom: str
    look: tuple[str, ...]
    inject: Callable[[Path], None]
    hints: tuple[str, ...]
    proves: str
    repair: str
    wrong: tuple[WrongRepair, ...]
    gives_up: Callable[[Path], str] = lambda model: ""
    start: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    subject: Subject = DIGITS
    compact: bool = False

    @property
    def exercise(self) -> str:
        """Its name in the progress table: "04-break-batch_in_dims"."""
        return f"{self.notebook}-break-{self.name}"

    @property
    def solution(self) -> str:
        """The code of the solution cell: the reference repair, on a fresh copy of the broken files."""
        begin = f'lab = break_it("{self.name}")' if self.compact else AGAIN
        return f"{begin}\n{self.repair}"


AGAIN = "lab.again()  # whatever was tried before"


def edit_config(model: Path, *changes: tuple[str, str]) -> None:
    """Replace texts in a model's config.pbtxt; each must be there once.

    Raises:
        ValueError: a text is not there, or more than once: the reference has changed.
    """
    path = model / CONFIG
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{path}: found {old!r} {text.count(old)} times, expected once.")
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def lost_version(model: Path) -> str:
    """What a repair has lost that serves the model under another number, as `Fault.gives_up` wants it."""
    if not (model / "1" / "model.onnx").is_file():
        return "clients that ask for version 1 are refused now: serve the version that is there under its own number."
    return ""


def replacing(*changes: tuple[str, str]) -> str:
    """The code of a repair that replaces texts in config.pbtxt."""
    lines = ["mended = lab.config_path.read_text()"]
    lines += [f"mended = mended.replace({_literal(old)}, {_literal(new)})" for old, new in changes]
    return "\n".join([*lines, "lab.config_path.write_text(mended)"])


def _literal(text: str) -> str:
    """As the formatter writes it: in double quotes, unless there are some in it."""
    return repr(text) if '"' in text else json.dumps(text)
