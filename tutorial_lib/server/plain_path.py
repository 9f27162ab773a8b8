"""Paths that Triton can start a Python stub from.

Triton's Python backend starts its stubs through `bash -c` with unquoted paths: with a space in the
backend directory or the repository the stub is never found, and the model stays "loading" for ever
(seen with 2.51.0). And the stub takes paths as ASCII, whatever the locale. A link without such
characters, in a private folder, stands in for the path.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tutorial_lib.errors import SetupError

PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def is_plain(text: str) -> bool:
    """Whether a shell takes the text as one word, as it stands, and it is ASCII."""
    return PLAIN.fullmatch(text) is not None


def plain_path(path: Path) -> Path:
    """The path itself, or a link to it that a shell takes as one word.

    Raises:
        SetupError: no private folder for links could be made.
    """
    if is_plain(str(path)):
        return path
    link = _private_folder() / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    if not (link.is_symlink() and link.readlink() == path):
        temporary = link.with_name(f"{link.name}.{os.getpid()}")
        temporary.symlink_to(path)
        temporary.replace(link)
    return link


def names_inside(words: Iterable[str], folder: Path) -> bool:
    """Whether a process's command line names a folder or something in it, be it through a link of `plain_path`.

    Args:
        words: the command line; a path may stand behind `--flag=`.
        folder: an absolute path without links.
    """
    named = re.compile(rf"{re.escape(str(folder))}(?![^/:,\"])")
    for word in words:
        path = word.partition("=")[2] if word.startswith("-") else word
        if named.search(word) or (path.startswith("/") and named.match(os.path.realpath(path))):
            return True
    return False


def _private_folder() -> Path:
    """A folder of this user's own: in /tmp another user could otherwise have made it first."""
    folder = Path(tempfile.gettempdir()) / f"c2t-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if (
        not stat.S_ISDIR(state.st_mode)
        or state.st_uid != os.getuid()
        or state.st_mode & 0o022
        or not is_plain(str(folder))
    ):
        raise SetupError(
            f"{folder}: expected a folder of this user's own, to link paths with spaces from.",
            action="Set TMPDIR to a folder of yours without a space in its name, or move the checkout.",
        )
    return folder
