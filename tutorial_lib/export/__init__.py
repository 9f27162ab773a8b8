"""From a torch model to an ONNX file: export, read, compare, look at, time."""

from tutorial_lib.export.graph_picture import draw_graph
from tutorial_lib.export.latency import latency_table, latency_under_callers
from tutorial_lib.export.netron_view import NetronView, show_netron, stop_netron
from tutorial_lib.export.onnx_file import OnnxSummary, OnnxTensor, describe_onnx, read_onnx, summary
from tutorial_lib.export.parity import check_parity, open_session
from tutorial_lib.export.to_onnx import export_densenet, export_onnx, quiet

__all__ = [
    "NetronView",
    "OnnxSummary",
    "OnnxTensor",
    "check_parity",
    "describe_onnx",
    "draw_graph",
    "export_densenet",
    "export_onnx",
    "latency_table",
    "latency_under_callers",
    "open_session",
    "quiet",
    "read_onnx",
    "show_netron",
    "stop_netron",
    "summary",
]
