"""From a torch model to an ONNX file: export, read, compare, look at, time."""

from tutorial_lib.export.onnx_file import OnnxSummary, OnnxTensor, describe_onnx, read_onnx, summary
from tutorial_lib.export.to_onnx import export_densenet, export_onnx

__all__ = [
    "OnnxSummary",
    "OnnxTensor",
    "describe_onnx",
    "export_densenet",
    "export_onnx",
    "read_onnx",
    "summary",
]
