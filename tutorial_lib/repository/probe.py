"""What ONNX Runtime says of a file, and whether its first axis is a batch, found by running it."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.probe_process import TIMEOUT_S, GraphTensor, ask_child, graph_tensors


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
    events, ended = ask_child(
        path,
        example=example,
        op_library=str(Path(op_library).absolute()) if op_library else "",
        dynamic=dynamic,
        timeout_s=timeout_s,
        memory_mib=memory_mib,
        threads=threads,
    )
    inputs, outputs = graph_tensors(events["opened"]["inputs"]), graph_tensors(events["opened"]["outputs"])
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


def sample_inputs(
    path: Path | str,
    *,
    rows: int = 1,
    example: Mapping[str, np.ndarray] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, np.ndarray]:
    """Inputs that the graph runs with, made up and tried in a child process: numbers without a meaning.

    Args:
        rows: the size of first axes that are open.
        example: input name → the whole array for it, where made-up numbers do not suit.

    Raises:
        ExportError: as `probe_onnx`.
        RepositoryError: nothing that was tried suits the graph.
    """
    with tempfile.TemporaryDirectory(prefix="c2t-sample-") as folder:
        samples = Path(folder) / "samples.npz"
        events, ended = ask_child(path, example=example, timeout_s=timeout_s, samples=str(samples), rows=rows)
        found = events.get("sampled", {"ok": False, "message": ended})
        if not found["ok"]:
            raise RepositoryError(
                f"ONNX file {Path(path).name!r}: no made-up inputs suit it: {' '.join(found['message'].split())[:300]}",
                action="Give arrays that do, by input name: example={…}.",
            )
        with np.load(samples, allow_pickle=False) as arrays:
            return {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in arrays.items()}


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
