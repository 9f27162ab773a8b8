"""ONNX Runtime without any server: the most these cores can do with a model.

Run as a script in a process of its own: `python -m tutorial_lib.bench.in_process MODEL.onnx SECONDS CORES` prints
images a second for each arrangement, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime

from tutorial_lib.paths import CHECKOUT

BATCHES = (1, 16, 64)


def images_per_s(path: Path, *, seconds: float, cores: int) -> dict[str, float]:
    """Measured in a fresh process: arrangement → images a second."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tutorial_lib.bench.in_process", str(path), str(seconds), str(cores)],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout)


def _session(path: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _rate(sessions: list[onnxruntime.InferenceSession], batch: int, seconds: float) -> float:
    """Images a second of sessions that run side by side, each in a thread."""
    tensor = sessions[0].get_inputs()[0]
    feeds = {tensor.name: np.random.default_rng(0).random((batch, *tensor.shape[1:]), np.float32)}
    for session in sessions:
        session.run(None, feeds)
    begin, counts = time.perf_counter(), [0] * len(sessions)

    def keep_running(number: int) -> None:
        while time.perf_counter() - begin < seconds:
            sessions[number].run(None, feeds)
            counts[number] += batch

    threads = [threading.Thread(target=keep_running, args=(number,)) for number in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def main() -> None:
    path, seconds, cores = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    one, each = [_session(path, cores)], [_session(path, 1) for _ in range(cores)]
    rates = {}
    for batch in BATCHES:
        rates[f"1 session × {cores} threads, batch {batch}"] = _rate(one, batch, seconds)
        rates[f"{cores} sessions × 1 thread, batch {batch}"] = _rate(each, batch, seconds)
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
