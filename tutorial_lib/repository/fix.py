"""Carry out the linter's certain edits: a name, a comma, a number taken out; nothing that needs a decision."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import atomic_write
from tutorial_lib.repository.findings import Edit
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.repository.lint import Tier, model_findings, open_repository, right_level
from tutorial_lib.repository.view import ModelView, RepositoryView

ROUNDS = 200  # a parser stops at the first fault, so one edit may uncover the next


@dataclass(frozen=True)
class Fixes:
    """What can be mended without a decision.

    Attributes:
        root: the repository.
        texts: configuration → its new text.
        before: configuration → its old text.
        moves: (from, to), relative to the repository.
        left: what was not touched, and why.
    """

    root: Path
    texts: dict[str, str]
    before: dict[str, str]
    moves: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.texts or self.moves)

    def diff(self) -> str:
        """All changes, as `diff -u` shows them; moves as `rename` lines."""
        parts = [f"rename {source} -> {target}\n" for source, target in self.moves]
        for file, new in self.texts.items():
            old_lines, new_lines = _lines(self.before[file]), _lines(new)
            parts += difflib.unified_diff(old_lines, new_lines, f"a/{file}", f"b/{file}")
        return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)

    def apply(self) -> None:
        """Write the files and move what is to be moved; a file that changed meanwhile is left alone.

        Raises:
            RepositoryError: a file has changed since it was read, or cannot be written.
        """
        try:
            for file, text in self.texts.items():
                self._write(file, text)
            for source, target in self.moves:
                place = self.root / target
                place.parent.mkdir(exist_ok=True)
                if place.exists():
                    raise RepositoryError(
                        f"{place}: it is there already, so {source} stays.", action="Remove one of them."
                    )
                os.rename(self.root / source, place)
        except OSError as error:
            raise RepositoryError(
                f"{error.filename or self.root}: it cannot be changed: {error.strerror}.",
                action="Check its permissions; what was mended before it stays mended.",
            ) from error

    def _write(self, file: str, text: str) -> None:
        path = (self.root / file).resolve()
        if path.read_bytes() != self.before[file].encode():
            raise RepositoryError(f"{file}: it has changed since it was read.", action="Run it again.")
        mode = path.stat().st_mode
        with atomic_write(path) as temporary:
            temporary.write_bytes(text.encode())
        path.chmod(mode & 0o7777)


def find_fixes(repository: Path | str, *, tier: Tier = "embedded", gpus: int = 0, release: str | None = None) -> Fixes:
    """The certain edits of a repository; nothing is written yet.

    Args:
        repository, tier, gpus, release: as for `lint_repository`.

    Raises:
        RepositoryError: as `lint_repository`.
    """
    view = open_repository(repository, tier=tier, gpus=gpus, release=release)
    texts, before, moves, left = {}, {}, [], []
    written: set[Path] = set()
    for model in view.models.values() if right_level(view) else ():
        file = f"{model.name}/{CONFIG}"
        new, wanted = _mended(view, model)
        if new != model.text:
            whole = (model.path / CONFIG).resolve()
            if not whole.is_relative_to(view.path):
                left.append(f"{file}: a link that leads out of the repository")
            elif whole in written:
                left.append(f"{file}: a link to a file that is mended already; run it again")
            else:
                texts[file], before[file] = new, model.text
                written.add(whole)
        for source, target in wanted:
            if (view.path / source).is_symlink() or (view.path / target).exists():
                left.append(f"{source}: not moved to {target}")
            else:
                moves.append((source, target))
    return Fixes(view.path, texts, before, tuple(moves), tuple(left))


def _mended(view: RepositoryView, model: ModelView) -> tuple[str, list[tuple[str, str]]]:
    """The configuration after all certain edits, and the moves its folder needs."""
    moves: list[tuple[str, str]] = []
    if not model.utf8:
        return model.text, moves  # its bytes could not be written back
    seen = {model.text}
    for _ in range(ROUNDS):
        findings = model_findings(model)
        moves += [one.move for one in findings if one.move and one.move not in moves]
        new = edited(model.text, [edit for one in findings if one.file.endswith(f"/{CONFIG}") for edit in one.edits])
        if new in seen:
            break
        seen.add(new)
        model = ModelView(view, model.name, text=new)
    return model.text, moves


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits; of two that overlap, the first counts."""
    parts, here = [], 0
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end)):
        if edit.start < here:
            continue
        parts += [text[here : edit.start], edit.new]
        here = edit.end
    return "".join([*parts, text[here:]])


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
