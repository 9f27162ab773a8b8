"""Laying out a model's folder: version, file, external data, labels, config.pbtxt; whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.generate import MODEL_FILE, generate_config, release_named
from tutorial_lib.repository.labels import LABEL_FILE, label_text, read_labels
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.repository.onnx_source import open_source

# what Triton's Python stub, a shell and a URL all take as it stands
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def add_model(
    onnx_path: Path | str,
    repository: Path | str,
    *,
    name: str = "",
    version: int = 1,
    replace: bool = False,
    **options: Any,
) -> Path:
    """Put an ONNX file into a model repository, with the configuration that `generate_config` writes.

    The folder appears in the repository when it is complete; a failure leaves the repository as it was.

    Args:
        onnx_path: the file; weights in files of their own are copied along.
        repository: the model repository; it is made if there is none.
        name: the model's name; by default the file's, with other characters made "_".
        version: the version folder's number.
        replace: whether a model of that name may be replaced, all its versions included.
        **options: as `generate_config`.

    Returns:
        The model's folder.

    Raises:
        ExportError, RepositoryError: as `generate_config`; or the name will not do or is taken.
    """
    onnx_path, repository = Path(onnx_path).expanduser(), Path(repository).expanduser()
    name = checked_name(name) if name else name_from(onnx_path)
    if version < 1:
        raise RepositoryError(f"model '{name}': found version {version}, expected 1 or more.")
    _check_free(repository / name, replace=replace)
    text = generate_config(onnx_path, name=name, **options)
    release = release_named(options.get("release"))
    source = open_source(onnx_path, release=release, op_library=options.get("op_library"))
    with model_folder(repository, name, replace=replace) as folder:
        home = folder / str(version)
        home.mkdir()
        filename = options.get("model_filename", MODEL_FILE)
        if Path(filename).name != filename or filename in {str(place) for place in source.external}:
            raise RepositoryError(f"model '{name}': found model_filename {filename!r}, expected a plain file name.")
        shutil.copyfile(onnx_path, home / filename)
        for place in source.external:
            target = home / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(onnx_path.parent / place, target)
        if options.get("labels") is not None:
            (folder / LABEL_FILE).write_text(label_text(read_labels(options["labels"])), encoding="utf-8")
        (folder / CONFIG).write_text(text, encoding="utf-8")
    return repository / name


def checked_name(name: str) -> str:
    """The name itself, if a model may have it.

    Raises:
        RepositoryError: it would leave the repository, be hidden, or trip a shell.
    """
    if NAME.fullmatch(name):
        return name
    raise RepositoryError(
        f"model name: found {name!r}, expected ASCII letters, digits, '_', '-', '.' or '+', not '.' or '-' first.",
        action=f"Take {_plain(name)!r}, for example.",
    )


def name_from(path: Path) -> str:
    """A model name made of a file's; `model.onnx` says nothing, so its folder is taken then.

    Raises:
        RepositoryError: nothing is left of it.
    """
    stem = path.stem if path.stem != "model" else path.resolve().parent.name
    return checked_name(_plain(stem))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text).strip("_.+-") or "model"


def _check_free(folder: Path, *, replace: bool) -> None:
    if (folder.exists() or folder.is_symlink()) and not replace:
        raise RepositoryError(
            f"model '{folder.name}': there is one already in {folder.parent}.",
            action="Choose another name, or replace it (--replace, replace=True).",
        )


@contextlib.contextmanager
def model_folder(repository: Path, name: str, *, replace: bool = False) -> Iterator[Path]:
    """An empty folder to fill; it takes its place in the repository when the block succeeds.

    Raises:
        RepositoryError: the name is taken, or the repository cannot be written.
    """
    target = repository / checked_name(name)
    _check_free(target, replace=replace)
    try:
        repository.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=repository, prefix=f".{name}."))
    except OSError as error:
        raise RepositoryError(f"model repository {repository}: cannot be written: {error.strerror}.") from error
    try:
        new, old = scratch / "new", scratch / "old"
        new.mkdir()  # not mkdtemp's own folder, which is private
        yield new
        if target.exists() or target.is_symlink():
            _check_free(target, replace=replace)
            os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            if old.exists():
                os.rename(old, target)
            raise
    finally:
        old = scratch / "old"
        if old.is_symlink():
            old.unlink()
        shutil.rmtree(scratch, ignore_errors=True)
