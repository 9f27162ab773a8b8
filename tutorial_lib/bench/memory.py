"""Memory of a served instance against that of the same session in a bare Python process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

_BARE = """
import sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
tensor = session.get_inputs()[0]
for batch in map(int, sys.argv[2].split(",")):
    session.run(None, {tensor.name: np.zeros((batch, *tensor.shape[1:]), np.float32)})
print("ready", flush=True)
sys.stdin.read()
"""


def session_mib(onnx: Path, *, batches: tuple[int, ...]) -> float:
    """Resident memory of a Python process that holds only this session and has run these batches."""
    with subprocess.Popen(
        [sys.executable, "-c", _BARE, str(onnx), ",".join(map(str, batches))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.readline()
        resident = resident_mib(process.pid)
        process.stdin.close()
    return resident


def resident_mib(pid: int) -> float:
    """Resident memory, in MiB: private memory (USS) would change with other servers that map the same libraries."""
    return psutil.Process(pid).memory_info().rss / 2**20
