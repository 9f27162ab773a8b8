"""From a torch model to an ONNX file: export, read, compare, look at, time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.export.graph_picture import draw_graph
    from tutorial_lib.export.latency import latency_table, latency_under_callers
    from tutorial_lib.export.netron_view import NetronView, show_netron, stop_netron
    from tutorial_lib.export.onnx_file import OnnxSummary, OnnxTensor, describe_onnx, read_onnx, summary
    from tutorial_lib.export.parity import check_parity, open_session
    from tutorial_lib.export.quantize import quantize_int8
    from tutorial_lib.export.to_onnx import export_densenet, export_onnx, quiet
    from tutorial_lib.export.to_torchscript import export_torchscript

_HOMES = {
    "NetronView": "tutorial_lib.export.netron_view",
    "OnnxSummary": "tutorial_lib.export.onnx_file",
    "OnnxTensor": "tutorial_lib.export.onnx_file",
    "check_parity": "tutorial_lib.export.parity",
    "describe_onnx": "tutorial_lib.export.onnx_file",
    "draw_graph": "tutorial_lib.export.graph_picture",
    "export_densenet": "tutorial_lib.export.to_onnx",
    "export_onnx": "tutorial_lib.export.to_onnx",
    "export_torchscript": "tutorial_lib.export.to_torchscript",
    "latency_table": "tutorial_lib.export.latency",
    "latency_under_callers": "tutorial_lib.export.latency",
    "open_session": "tutorial_lib.export.parity",
    "quantize_int8": "tutorial_lib.export.quantize",
    "quiet": "tutorial_lib.export.to_onnx",
    "read_onnx": "tutorial_lib.export.onnx_file",
    "show_netron": "tutorial_lib.export.netron_view",
    "stop_netron": "tutorial_lib.export.netron_view",
    "summary": "tutorial_lib.export.onnx_file",
}

__all__ = [
    "NetronView",
    "OnnxSummary",
    "OnnxTensor",
    "check_parity",
    "describe_onnx",
    "draw_graph",
    "export_densenet",
    "export_onnx",
    "export_torchscript",
    "latency_table",
    "latency_under_callers",
    "open_session",
    "quantize_int8",
    "quiet",
    "read_onnx",
    "show_netron",
    "stop_netron",
    "summary",
]

__getattr__ = lazy_names(__name__, _HOMES)
