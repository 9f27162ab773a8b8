"""The layout of a model repository: REPOSITORY/MODEL/VERSION/FILE, with config.pbtxt beside VERSION."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import real_path

CONFIG = "config.pbtxt"
# Triton loads other names too, but takes them from an address as they stand, undecoded: there is no asking for them
MODEL_NAME = re.compile(r"[\w-][\w.-]*", re.ASCII)
VERSION = re.compile(r"[1-9][0-9]*")  # other folder names are no versions to Triton


@dataclass(frozen=True)
class Model:
    """One model folder.

    Attributes:
        name: the folder's name, which is the model's name.
        path: the folder.
        versions: the numbers of its version folders, ascending.
    """

    name: str
    path: Path
    versions: tuple[int, ...]

    @property
    def config(self) -> Path:
        return self.path / CONFIG


def models_of(repository: Path) -> list[Model]:
    """The model folders of a repository, as Triton sees them; hidden folders and Python's caches are left out."""
    folders = sorted(path for path in Path(repository).iterdir() if path.is_dir() and not _is_hidden(path))
    return [Model(path.name, path, _versions(path)) for path in folders]


def hidden_folders(repository: Path) -> list[Path]:
    """Folders that are nobody's model, such as .ipynb_checkpoints; Triton takes them for one when it loads all."""
    return sorted(path for path in Path(repository).iterdir() if path.is_dir() and _is_hidden(path))


def find_repository(path: Path | str) -> Path:
    """Check that `path` is a model repository, and explain what it is otherwise.

    Returns:
        The resolved path.

    Raises:
        RepositoryError: it does not exist, is a file, is empty, is one level off, or cannot be read.
    """
    path = real_path(path, "model repository", error=RepositoryError)
    try:
        _look_into(path)
    except OSError as error:
        raise RepositoryError(
            f"model repository {path}: {error.filename or path} cannot be read: {error.strerror}.",
            action="ls -ld shows whose it is.",
        ) from error
    return path


def _look_into(path: Path) -> None:
    if not path.exists():
        parent = next(folder for folder in path.parents if folder.is_dir())
        there = ", ".join(sorted(entry.name for entry in parent.iterdir())[:8]) or "nothing"
        raise RepositoryError(
            f"model repository {path}: it does not exist; {parent} holds: {there}.",
            action="Give the folder that holds the model folders.",
        )
    if not path.is_dir():
        raise RepositoryError(
            f"model repository {path}: found a file, expected a folder of model folders.",
            action=f"Give the repository's folder{_likely(path)}.",
        )
    if _is_model(path) and not any(_is_model(model.path) for model in models_of(path)):
        raise RepositoryError(
            f"model repository {path}: this is the folder of one model, one level too deep.",
            action=f"Give its parent: {path.parent}.",
        )
    if path.name.isdecimal() and _is_model(path.parent):
        raise RepositoryError(
            f"model repository {path}: this is a version folder, two levels too deep.",
            action=f"Give the repository: {path.parent.parent}.",
        )
    models = models_of(path)
    if not models:
        raise RepositoryError(
            f"model repository {path}: it holds no model folder.",
            action="Expected MODEL/config.pbtxt and MODEL/1/model.onnx (or model.py) in it.",
        )
    if not any(_is_model(model.path) for model in models):
        deeper = [model.path for model in models if any(_is_model(child.path) for child in models_of(model.path))]
        if deeper:
            raise RepositoryError(
                f"model repository {path}: its folders are not models, but those in {deeper[0]} are; "
                "this is one level too high.",
                action=f"Give {deeper[0]}.",
            )


def _is_hidden(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name == "__pycache__"


def _versions(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(int(path.name) for path in folder.iterdir() if path.is_dir() and VERSION.fullmatch(path.name)))


def _is_model(folder: Path) -> bool:
    return (folder / CONFIG).is_file() or any(
        any(child.name.startswith("model.") for child in (folder / str(version)).iterdir())
        for version in _versions(folder)
    )


def _likely(path: Path) -> str:
    for folder in path.parents:
        if folder.is_dir() and _is_model(folder):
            return f": {folder.parent}"
    return ""
