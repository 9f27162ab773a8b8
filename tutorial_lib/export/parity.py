"""Does the exported model answer like the one it was made from, at other batch sizes too?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tutorial_lib.errors import ExportError, ParityError
from tutorial_lib.export.onnx_file import OnnxTensor, inputs_of, read_onnx, shape_text

if TYPE_CHECKING:
    import onnxruntime
    from torch import nn

BATCHES = (1, 2, 7, 32)
# FP32 carries 7 digits; scores of about 10 that were summed in another order differ by some 1e-6
TOLERANCE = 1e-4

MakeInputs = Callable[[int], dict[str, np.ndarray]]

_NUMPY = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}


def open_session(path: Path, *, threads: int | None = None) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session on the CPU.

    Args:
        threads: threads inside an operator; ONNX Runtime's own choice by default.

    Raises:
        ExportError: ONNX Runtime refuses the file.
    """
    import onnxruntime

    read_onnx(path)  # a missing or cut file gets its own message
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # idle threads sleep instead of spinning: here torch wants the same cores a moment later
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common public base
        raise ExportError(f"ONNX file {Path(path).name!r}: ONNX Runtime refuses it.", details=str(error)) from error


def check_parity(
    model: nn.Module,
    path: Path,
    *,
    batches: Sequence[int] = BATCHES,
    tolerance: float = TOLERANCE,
    make_inputs: MakeInputs | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare every output of `model` and of the ONNX file, batch size by batch size.

    Args:
        model: in evaluation mode; called with the inputs in the file's order.
        tolerance: largest absolute difference that still counts as the same answer.
        make_inputs: batch size → array for every input; by default standard normal numbers, which needs
            floating-point inputs whose only open axis is the first.
        seed: for the default inputs.

    Returns:
        One row per batch size and output: batch, output, shape, largest_difference.

    Raises:
        ParityError: an answer has another shape, is not finite where torch's is, or differs by more than
            `tolerance`; or ONNX Runtime refuses a batch size.
        ExportError: the file cannot be loaded, or the inputs cannot be made up.
    """
    import torch

    session = open_session(path)
    inputs = inputs_of(read_onnx(path))
    outputs = [value.name for value in session.get_outputs()]
    generator = np.random.default_rng(seed)
    if model.training:
        raise ExportError(
            f"model {type(model).__name__}: found training mode, expected evaluation mode.",
            action="Call model.eval(); the two cannot agree otherwise.",
        )
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    rows = []
    for batch in batches:
        arrays = make_inputs(batch) if make_inputs else {t.name: _normal(t, batch, generator) for t in inputs}
        with torch.inference_mode():
            answer = model(*(torch.from_numpy(arrays[tensor.name]).to(device) for tensor in inputs))
        expected = [answer] if isinstance(answer, torch.Tensor) else list(answer)
        try:
            found = session.run(outputs, arrays)
        except Exception as error:  # as above
            raise ParityError(
                f"ONNX file {Path(path).name!r}: ONNX Runtime refuses batch {batch}, torch answers it.",
                action="Was the batch axis exported as a fixed size?",
                details=str(error)[:600],
            ) from error
        for name, theirs, ours in zip(outputs, found, expected, strict=True):
            difference = _difference(name, batch, theirs, ours.cpu().numpy(), tolerance=tolerance)
            rows.append((batch, name, shape_text(theirs.shape), difference))
    return pd.DataFrame(rows, columns=["batch", "output", "shape", "largest_difference"])


def _difference(name: str, batch: int, found: np.ndarray, expected: np.ndarray, *, tolerance: float) -> float:
    where = f"output {name!r} at batch {batch}"
    if found.shape != expected.shape:
        raise ParityError(f"{where}: found shape {list(found.shape)}, expected {list(expected.shape)}.")
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))  # equal infinities have no difference
    gap = np.abs(found.astype(np.float64) - expected.astype(np.float64), where=~same, out=np.zeros(found.shape))
    difference = float(gap.max(initial=0.0))
    if not difference <= tolerance:  # written so that NaN is refused
        raise ParityError(
            f"{where}: found a difference of {difference:.3g}, expected at most {tolerance:.3g}.",
            action="Export again from these weights in evaluation mode; loosen `tolerance` only on purpose.",
        )
    return difference


def _normal(tensor: OnnxTensor, batch: int, generator: np.random.Generator) -> np.ndarray:
    kind = _NUMPY.get(tensor.datatype)
    shape = tensor.shape or ()
    if kind is None or any(not isinstance(size, int) for size in shape[1:]):
        raise ExportError(
            f"input {tensor.name!r}: found {tensor.datatype} {shape_text(tensor.shape)}, expected a "
            "floating-point input whose only open axis is the first.",
            action="Pass make_inputs=lambda batch: {name: array, ...}.",
        )
    size = (batch, *shape[1:]) if shape and not isinstance(shape[0], int) else shape
    return generator.standard_normal(size).astype(kind)
