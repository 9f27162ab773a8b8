"""Static INT8: the same graph with 8-bit weights and activations, calibrated on real inputs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_file import inputs_of, opset_of, read_onnx
from tutorial_lib.paths import atomic_write
from tutorial_lib.versions import Release, check_onnx, target

PER_CHANNEL_OPSET = 13  # Source: QuantizeLinear-13 brought the axis
Samples = Sequence[Mapping[str, np.ndarray]]


def quantize_int8(path: Path, into: Path, *, samples: Samples, release: Release | None = None) -> Path:
    """Write a static INT8 version of an ONNX file: QUInt8 activations, QInt8 weights, one scale per channel.

    The ranges of the activations come from running `samples`. Unsigned activations matter on a CPU: ONNX Runtime
    has fast kernels for unsigned times signed, and with signed ones the bench's ResNet gained nothing. Weights use
    7 of their 8 bits: processors without VNNI (AVX2 alone) add two products in 16 bits, which overflow otherwise;
    there the bench's ResNet fell from 99.5 % to 93.6 % right answers with 8 bits, and kept 99.5 % with 7. Names,
    types and shapes of inputs and outputs stay, and so does config.pbtxt.

    Source: "Method selection" and "reduce_range" in
        https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html

    Args:
        path: the FP32 file; it is only read.
        into: where the INT8 file goes.
        samples: inputs as the model really gets them, each a mapping from name to array; a few hundred images
            are plenty.
        release: the Triton release that must load the result; `versions.target()` by default.

    Returns:
        `into`. Nothing is left there if anything fails, except what was there before.

    Raises:
        ExportError: the file cannot be read, its opset has no scales per channel, a sample has other tensors than
            the graph, or ONNX Runtime cannot calibrate it.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = read_onnx(path)
    names = {tensor.name for tensor in inputs_of(model)}
    if opset_of(model) < PER_CHANNEL_OPSET:
        raise ExportError(
            f"ONNX file {Path(path).name!r}: found opset {opset_of(model)}, expected {PER_CHANNEL_OPSET} or higher.",
            action=f"Export it again with opset_version={PER_CHANNEL_OPSET} or higher.",
        )
    if not samples:
        raise ExportError("samples: found none, expected inputs to calibrate with.", action="Give some real inputs.")
    for number, sample in enumerate(samples):
        if sample.keys() != names:
            raise ExportError(f"samples[{number}]: found tensors {sorted(sample)}, expected {sorted(names)}.")

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self._left, None)
            return None if sample is None else dict(sample)

    noise, before = logging.getLogger(), logging.getLogger().level
    noise.setLevel(logging.ERROR)  # its advice about pre-processing, which is done here
    try:
        with tempfile.TemporaryDirectory() as place, atomic_write(Path(into)) as temporary:
            prepared = Path(place) / "prepared.onnx"
            quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)  # folds batch normalisation
            quantize_static(
                str(prepared),
                str(temporary),
                Reader(),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
            )
            result = read_onnx(temporary)
            check_onnx(result.ir_version, opset_of(result), release or target(), name=Path(into).name)
    except ExportError:
        raise
    except Exception as error:  # ONNX Runtime's quantizer raises whatever its steps raise
        raise ExportError(
            f"ONNX file {Path(path).name!r}: ONNX Runtime cannot calibrate it with these samples.",
            action="Do the samples run through the FP32 model?",
            details=str(error)[:800],
        ) from error
    finally:
        noise.setLevel(before)
    return Path(into)
