"""Load results as files: JSON, and CSV with what is not a column in one comment line."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.result import LoadResult
from tutorial_lib.load.samples import WORDS, Samples
from tutorial_lib.load.shares import GeneratorShare, ServerShare
from tutorial_lib.paths import atomic_write

if TYPE_CHECKING:
    import pandas as pd

MARK = "# load result 1: "
_TYPES = {"intended_s": np.float64, "sent_s": np.float64, "answered_s": np.float64, "status": np.int8, "user": np.int32}
_REST = tuple(entry.name for entry in fields(LoadResult) if entry.name not in ("samples", "server", "generator"))


def write_json(result: LoadResult, path: Path) -> Path:
    """Write one object; nan becomes null."""
    samples = {
        name: [None if value != value else value for value in getattr(result.samples, name).tolist()] for name in _TYPES
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(head(result) | {"samples": samples}, allow_nan=False), encoding="utf-8")
    return path


def read_json(path: Path) -> LoadResult:
    """What `write_json` wrote.

    Raises:
        LoadError: it is not such a file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _built(content, {name: content["samples"][name] for name in _TYPES})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from error


def write_csv(result: LoadResult, path: Path) -> Path:
    """Write the samples as columns."""
    samples = result.samples
    columns = [getattr(samples, name).tolist() for name in _TYPES]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(f"{MARK}{json.dumps(head(result), allow_nan=False)}\n{','.join(_TYPES)}\n")
        for intended, sent, answered, status, user in zip(*columns, strict=True):
            cells = ("" if value != value else repr(value) for value in (intended, sent, answered))
            file.write(f"{','.join(cells)},{WORDS[status]},{user}\n")
    return path


def read_csv(path: Path) -> LoadResult:
    """What `write_csv` wrote.

    Raises:
        LoadError: it is not such a file.
    """
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline()
            if not first.startswith(MARK) or file.readline().strip() != ",".join(_TYPES):
                raise ValueError("its first two lines are not those of a load result")
            rows = [line.rstrip("\n").split(",") for line in file]
        columns: dict[str, list[Any]] = (
            dict(zip(_TYPES, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
        )
        for name in ("intended_s", "sent_s", "answered_s"):
            columns[name] = [float(cell) if cell else None for cell in columns.get(name, ())]
        columns["status"] = [WORDS.index(cell) for cell in columns.get("status", ())]
        columns["user"] = [int(cell) for cell in columns.get("user", ())]
        return _built(json.loads(first.removeprefix(MARK)), columns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from error


def from_frame(frame: pd.DataFrame) -> LoadResult:
    """The result a frame came from.

    Raises:
        LoadError: it is no frame of a result, or lost its `attrs` on the way.
    """
    try:
        columns = {name: frame[name].tolist() for name in _TYPES}
        columns["status"] = [WORDS.index(word) for word in columns["status"]]
        return _built(frame.attrs["load_result"], columns)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise LoadError(
            f"frame: it is not one that LoadResult.frame() gave: {error!r}.",
            action="Keep its attrs, or use to_csv and from_csv.",
        ) from error


def head(result: LoadResult) -> dict[str, Any]:
    """Everything but the samples, nan as None."""
    head = {name: getattr(result, name) for name in _REST}
    head["error_messages"] = dict(result.error_messages)
    for name in ("server", "generator"):
        share = getattr(result, name)
        head[name] = share and {key: None if value != value else value for key, value in asdict(share).items()}
    return head


def _built(head: dict[str, Any], columns: dict[str, list[Any]]) -> LoadResult:
    arrays = {
        name: np.array([np.nan if value is None else value for value in columns[name]], dtype=kind)
        for name, kind in _TYPES.items()
    }
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError("its columns are of different lengths")
    if len(arrays["status"]) and not 0 <= arrays["status"].min() <= arrays["status"].max() < len(WORDS):
        raise ValueError("it has a status that is none")
    rest = {name: head[name] for name in _REST}
    rest["window_s"] = tuple(float(end) for end in rest["window_s"])
    rest["usage"] = tuple((float(t), str(name), float(cpu), float(rss)) for t, name, cpu, rss in rest["usage"])
    server = ServerShare(**_with_nan(head["server"])) if head["server"] else None
    generator = GeneratorShare(**_with_nan(head["generator"]))
    return LoadResult(samples=Samples(**arrays), server=server, generator=generator, **rest)


def _with_nan(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: np.nan if value is None else value for name, value in entries.items()}


def _not_ours(path: Path, error: Exception) -> LoadError:
    reason = error.strerror if isinstance(error, OSError) else f"it is not a load result: {error!r}"
    return LoadError(f"load result {path}: {reason}.", action="Name a file that to_json or to_csv wrote.")
