"""The layout of a model repository: REPOSITORY/MODEL/VERSION/FILE, with config.pbtxt beside VERSION."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import RepositoryError

CONFIG = "config.pbtxt"


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
    """The model folders of a repository, as Triton sees them; hidden folders are left out."""
    folders = sorted(path for path in Path(repository).iterdir() if path.is_dir() and not path.name.startswith("."))
    return [Model(path.name, path, _versions(path)) for path in folders]


def find_repository(path: Path | str) -> Path:
    """Check that `path` is a model repository, and explain what it is otherwise.

    Returns:
        The resolved path.

    Raises:
        RepositoryError: it does not exist, is a file, is empty, or is one level off.
    """
    path = Path(path).expanduser().resolve()
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
    if _is_model(path):
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
    return path


def _versions(folder: Path) -> tuple[int, ...]:
    # Triton ignores a version folder with leading zeros
    names = [path.name for path in folder.iterdir() if path.is_dir() and path.name.isdecimal()]
    return tuple(sorted(int(name) for name in names if name == str(int(name))))


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
