"""The child process that opens and runs a graph, seen from outside: start it, bound it, hear it out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.repository import probe_child

TIMEOUT_S = 60.0
MEMORY_MIB = 4096  # besides three times the file

# ONNX Runtime's name for a type → Triton's; what is missing here its ONNX Runtime backend cannot serve
_TYPES = {"bool": "BOOL", "string": "STRING", "float16": "FP16", "float": "FP32", "double": "FP64"}
_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True)
class GraphTensor:
    """An input or output as ONNX Runtime reports it, which is what Triton's backend compares with.

    Attributes:
        kind: ONNX Runtime's type, such as "tensor(float)" or "seq(map(int64,tensor(float)))".
        shape: sizes; a string or None for an axis that is open.
    """

    name: str
    kind: str
    shape: tuple[int | str | None, ...]

    @property
    def data_type(self) -> str:
        """config.pbtxt's type, such as "TYPE_FP32"; "" when there is none."""
        known = _TYPES.get(self.kind.removeprefix("tensor(").removesuffix(")"), "")
        return f"TYPE_{known}" if known and self.kind.startswith("tensor(") else ""

    @property
    def dims(self) -> list[int]:
        """The shape with -1 for every open axis."""
        return [axis if isinstance(axis, int) else -1 for axis in self.shape]

    @property
    def shape_text(self) -> str:
        # exporters write whole formulas into axes
        axes = ("?" if axis is None else str(axis) for axis in self.shape)
        return f"[{', '.join(axis if len(axis) <= 24 else f'{axis[:23]}…' for axis in axes)}]"


def ask_child(
    path: Path | str,
    *,
    example: Mapping[str, np.ndarray] | None = None,
    timeout_s: float = TIMEOUT_S,
    memory_mib: int = 0,
    op_library: str = "",
    dynamic: bool = False,
    threads: int = 1,
    samples: str = "",
    rows: int = 1,
) -> tuple[dict[str, dict], str]:
    """Run the child on a file: what it told, by event, and how it ended, in words ("" for well).

    Raises:
        ExportError: it did not get as far as opening the file.
        RepositoryError: the example does not fit the graph.
    """
    path = Path(path).absolute()
    memory_mib = memory_mib or MEMORY_MIB + 3 * path.stat().st_size // 2**20
    with tempfile.TemporaryDirectory(prefix="c2t-probe-") as folder:
        result, saved = Path(folder) / "result.jsonl", Path(folder) / "example.npz"
        if example:
            _save_example(saved, example)
        settings = {
            "path": str(path),
            "result": str(result),
            "timeout_s": timeout_s,
            "memory_mib": memory_mib,
            "threads": threads,
            "op_library": op_library,
            "dynamic": dynamic,
            "example": str(saved) if example else "",
            "samples": samples,
            "rows": rows,
        }
        ended = _run(settings, timeout_s, folder)
        found = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    events = {line.pop("event"): line for line in found}
    if "opened" not in events:
        raise _not_opened(path, events.get("refused", {}).get("message", ""), ended)
    _check_example(path, example, graph_tensors(events["opened"]["inputs"]))
    return events, ended


def graph_tensors(told: list) -> tuple[GraphTensor, ...]:
    return tuple(GraphTensor(name, kind, tuple(shape)) for name, kind, shape in told)


def _run(settings: dict[str, object], timeout_s: float, folder: str) -> str:
    """Run the child; returns how it ended, in words."""
    # -P: a file of the current folder must not stand in for a module
    command = [sys.executable, "-P", probe_child.__file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": folder}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        process.communicate(json.dumps(settings).encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"it took longer than {timeout_s:g} s"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode < 0:
        return f"its process ended by {signal.Signals(-process.returncode).name}"
    return "" if process.returncode == 0 else "it ended its process"


def _not_opened(path: Path, message: str, ended: str) -> ExportError:
    if message:
        return ExportError(
            f"ONNX file {path.name!r}: ONNX Runtime does not open it, and Triton would not either.",
            action="The reason is ONNX Runtime's own:",
            details=message,
        )
    return ExportError(
        f"ONNX file {path.name!r}: ONNX Runtime does not survive opening it: {ended or 'it said nothing'}.",
        action="Triton's process would fare the same: export the model again, or give it more time or memory.",
    )


def _save_example(target: Path, example: Mapping[str, np.ndarray]) -> None:
    arrays = {name: np.asarray(array) for name, array in example.items()}
    for name, array in arrays.items():
        if array.size == 0:
            raise RepositoryError(
                f"example, input {name!r}: found shape {list(array.shape)}, expected one sample at least along axis 0."
            )
    texts = {name: array.astype(str) for name, array in arrays.items() if array.dtype == object}
    np.savez(target, **(arrays | texts))


def _check_example(path: Path, example: Mapping[str, np.ndarray] | None, inputs: tuple[GraphTensor, ...]) -> None:
    known = {tensor.name: tensor for tensor in inputs}
    for name, array in (example or {}).items():
        if name not in known:
            raise RepositoryError(
                f"example: found an array {name!r}, expected inputs of {path.name!r}: {', '.join(known)}."
            )
        dims, shape = known[name].dims, np.shape(array)
        fits = len(dims) == len(shape) and all(d in (-1, s) for d, s in zip(dims, shape, strict=True))
        if not fits:
            raise RepositoryError(
                f"example, input {name!r}: found shape {list(shape)}, expected {known[name].shape_text}."
            )
