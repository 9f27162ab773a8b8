"""What ONNX Runtime says of a file, and whether its first axis is a batch, found by running it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
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


@dataclass(frozen=True)
class Probe:
    """What opening and running a graph has shown.

    Attributes:
        batched: the first axis of every tensor is a batch, and running the graph confirmed it.
        reason: why not, as the rest of a sentence about `culprit`; "" when it is.
        culprit: the tensor that decided against it, such as "input 'scale'", or "the graph".
        ran: whether the graph was run at all.
        repeats: whether the same input gave the same answer twice.
    """

    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    batched: bool
    reason: str = ""
    culprit: str = ""
    ran: bool = True
    repeats: bool = True


def probe_onnx(
    path: Path | str,
    *,
    example: Mapping[str, np.ndarray] | None = None,
    op_library: Path | str | None = None,
    dynamic: bool = False,
    timeout_s: float = TIMEOUT_S,
    memory_mib: int = 0,
    threads: int = 1,
) -> Probe:
    """Open a graph in a child process; where all first axes are open, run it with 1, 2 and 3 samples.

    The first axis is taken for a batch only when every output has as many rows as were put in, and every
    sample gets the answer among others that it gets alone. Whatever the graph does to its process, this
    one lives on.

    Args:
        example: input name → array with the samples along axis 0, for a graph that made-up numbers do not
            suit; any input may be left out.
        op_library: a shared library with custom operators.
        dynamic: the graph quantizes as it runs, so answers may depend a little on their neighbours.
        timeout_s: the longest the child may run.
        memory_mib: the most memory it may take; by default 4 GiB and three times the file.

    Raises:
        ExportError: ONNX Runtime does not open the file, or ends, hangs or runs out of memory opening it.
        RepositoryError: the example does not fit the graph.
    """
    path = Path(path).absolute()
    with tempfile.TemporaryDirectory(prefix="c2t-probe-") as folder:
        result = Path(folder) / "result.jsonl"
        settings = {
            "path": str(path),
            "result": str(result),
            "timeout_s": timeout_s,
            "memory_mib": memory_mib or MEMORY_MIB + 3 * path.stat().st_size // 2**20,
            "threads": threads,
            "op_library": str(Path(op_library).absolute()) if op_library else "",
            "dynamic": dynamic,
            "example": "",
        }
        if example:
            settings["example"] = str(Path(folder) / "example.npz")
            _save_example(settings["example"], example)
        ended = _run(settings, timeout_s, folder)
        found = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    events = {line.pop("event"): line for line in found}
    if "opened" not in events:
        raise _not_opened(path, events.get("refused", {}).get("message", ""), ended)
    inputs = tuple(GraphTensor(name, kind, tuple(shape)) for name, kind, shape in events["opened"]["inputs"])
    outputs = tuple(GraphTensor(name, kind, tuple(shape)) for name, kind, shape in events["opened"]["outputs"])
    _check_example(path, example, inputs)
    culprit, reason = _structure(inputs, outputs)
    if culprit:
        return Probe(inputs, outputs, False, reason, culprit, ran=False)
    verdict = events.get("batch")
    if verdict is None:
        return Probe(inputs, outputs, False, f"could not be run with made-up inputs: {ended}", "the graph", ran=False)
    if verdict["ok"]:
        return Probe(inputs, outputs, True, repeats=verdict["kind"] == "repeats")
    message = " ".join(verdict["message"].split())[:300]
    if verdict["kind"] == "no run":
        return Probe(inputs, outputs, False, f"could not be run with made-up inputs: {message}", "the graph", ran=False)
    if verdict["kind"] == "one":
        return Probe(inputs, outputs, False, f"has an open first axis, but {message}", "the graph")
    return Probe(inputs, outputs, False, f"has an open first axis, but {message}", f"output '{verdict['tensor']}'")


def _structure(inputs: tuple[GraphTensor, ...], outputs: tuple[GraphTensor, ...]) -> tuple[str, str]:
    """The first tensor whose shape alone rules a batch out, and why; or two empty texts."""
    if not inputs:
        return "the graph", "has no input"
    for role, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            if not tensor.shape:
                return f"{role} '{tensor.name}'", "is a scalar and has no axis for a batch"
            if isinstance(tensor.shape[0], int):
                return f"{role} '{tensor.name}'", f"has the shape {tensor.shape_text}, whose first axis is fixed"
    return "", ""


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


def read_example(path: Path | str) -> dict[str, np.ndarray]:
    """Samples for the inputs, from an .npz file with one array for each input's name.

    Raises:
        RepositoryError: it cannot be read, or holds more than plain arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile, TypeError) as error:
        raise RepositoryError(
            f"example {str(path)!r}: found no arrays to read: {error}.",
            action="Write it with numpy.savez(path, **{name: samples}).",
        ) from error


def _save_example(target: str, example: Mapping[str, np.ndarray]) -> None:
    arrays = {name: np.asarray(array) for name, array in example.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] == 0 or array.dtype == object:
            raise RepositoryError(
                f"example, input {name!r}: found shape {list(array.shape)} of {array.dtype}, expected numbers with "
                "one sample at least along axis 0."
            )
    np.savez(target, **arrays)


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
