"""Whether requests may be joined into one run: only where every output has one row per sample.

An output whose first axis is free need not be a batch: NonZero has a row for each element that is not zero. Two such
requests in one run cannot be told apart again, and the rows of one client would go to another even where their
number happens to be right.
"""

from __future__ import annotations

import numpy as np
import onnxruntime as ort

TRIALS = (2, 3)  # samples; an output that keeps to both follows the batch
_TYPES = {
    "tensor(bool)": np.bool_, "tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64,
    "tensor(string)": np.object_,
    **{f"tensor({sign}int{bits})": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def one_row_per_sample(session: ort.InferenceSession, names: list[str]) -> tuple[bool, str]:
    """Whether each of these outputs follows the batch.

    The graph says so where the output's first axis has the name of the inputs' first axis. Other names mean nothing
    by themselves (exporters choose them), so such a model is run: with zeros and with ones, 2 samples and 3.

    Args:
        names: the outputs in config.pbtxt.

    Returns:
        The verdict, and what spoke against it ("" otherwise).
    """
    inputs = session.get_inputs()
    batch = {tensor.shape[0] for tensor in inputs if tensor.shape}
    named = all(isinstance(axis, str) for axis in batch)
    outputs = [tensor for tensor in session.get_outputs() if tensor.name in names]
    unlike = [tensor.name for tensor in outputs if not named or tensor.shape[:1] != [*batch]]
    if not unlike or not all(tensor.type in _TYPES for tensor in inputs):
        return not unlike, ", ".join(unlike)
    for samples in TRIALS:
        for value in (0, 1):
            feeds = {tensor.name: _filled(tensor, samples, value) for tensor in inputs}
            try:
                results = session.run(unlike, feeds)
            except Exception as error:  # zeros and ones do not suit every model
                return False, f"{', '.join(unlike)} (a trial with {samples} samples failed: {str(error)[:200]})"
            for name, result in zip(unlike, results, strict=True):
                if np.shape(result)[:1] != (samples,):
                    return False, f"{name} ({np.shape(result)[:1]} rows for {samples} samples of {value})"
    return True, ""


def _filled(tensor: ort.NodeArg, samples: int, value: int) -> np.ndarray:
    """A made-up input; an open axis behind the batch has length 2."""
    shape = [samples, *(axis if isinstance(axis, int) else 2 for axis in tensor.shape[1:])] if tensor.shape else []
    filled = str(value) if tensor.type == "tensor(string)" else value
    return np.full(shape, filled, _TYPES[tensor.type])
