"""What `catch_up` made in a workspace, and from what: the file `catch_up.json`."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutorial_lib.paths import CHECKOUT, Workspace, atomic_write

FILE = "catch_up.json"
VERSION = 1


@dataclass
class Manifest:
    """Hashes by which a file that `catch_up` made can be told from one that the learner made.

    Attributes:
        path: the file it was read from and is written to.
        parts: name of a part → {"inputs": what it was made from, "files": {path in the workspace: SHA-256},
            "before": the files it replaced}. A call that was killed while it replaced them left some of each.
        reference: path in the model repository → SHA-256 of the reference file as it was copied.
    """

    path: Path
    parts: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    reference: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, space: Workspace) -> Manifest:
        """The manifest of a workspace. One that is missing, cut or of another version is empty.

        Then everything in the workspace counts as the learner's own, which is the safe side.
        """
        path = space.root / FILE
        try:
            stored = json.loads(path.read_text())
            parts, reference = stored["parts"], stored["reference"]
            whole = stored["version"] == VERSION and isinstance(reference, dict) and isinstance(parts, dict)
            whole = whole and all(isinstance(part["inputs"], dict) for part in parts.values())
            whole = whole and all(isinstance(part[key], dict) for part in parts.values() for key in ("files", "before"))
        except (OSError, ValueError, TypeError, KeyError):
            return cls(path)
        return cls(path, parts, reference) if whole else cls(path)

    def note(self, part: str, *, inputs: Mapping[str, Any], files: Mapping[str, str]) -> None:
        """Remember what a part is made from, and write that down."""
        before = self.parts.get(part, {"files": {}})["files"]
        self.parts[part] = {"inputs": dict(inputs), "files": dict(files), "before": before}
        self.write()

    def made(self, part: str, found: Mapping[str, str]) -> bool:
        """Whether `catch_up` made every one of these files: path in the workspace → SHA-256, "" for none."""
        noted = self.parts.get(part, {"files": {}, "before": {}})
        return all(
            digest in ("", noted["files"].get(path), noted["before"].get(path)) for path, digest in found.items()
        )

    def fresh(self, part: str, found: Mapping[str, str], *, inputs: Mapping[str, Any]) -> bool:
        """Whether these are the files that were made last, and from these inputs."""
        noted = self.parts.get(part, {"files": {}, "inputs": {}})
        return noted["files"] == dict(found) and noted["inputs"] == dict(inputs)

    def write(self) -> None:
        """Write the file; it appears whole or not at all."""
        stored = {"version": VERSION, "parts": self.parts, "reference": self.reference}
        with atomic_write(self.path) as temporary:
            temporary.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, or "" when it is not there or not a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""


@functools.cache
def code_version(*modules: str) -> str:
    """A fingerprint of library code: it changes with what the code does, not with comments or docstrings.

    Args:
        modules: paths in the library, such as "training.py".
    """
    digest = hashlib.sha256()
    for name in modules:
        tree = ast.parse((CHECKOUT / "tutorial_lib" / name).read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        digest.update(ast.unparse(tree).encode())
    return digest.hexdigest()[:16]
