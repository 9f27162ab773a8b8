"""Opens an ONNX file and runs it at several batch sizes; `probe_process.py` starts this in a process of its own.

A graph from elsewhere may crash ONNX Runtime, run for ever or take all memory, and then only this process
ends. It imports nothing of `tutorial_lib`, so that it starts quickly. What it finds goes into a file, a JSON
object a line, as it finds it: the lines before a crash are not lost.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

ROWS = 5
FIRST = [0, 1, 2]
OTHERS = [3, 1, 4]  # the same sample in the middle, other neighbours before and after it
CLOSE, ALIKE = 1e-4, 5e-2  # differences that still count as the same, as parts of the largest number
SIZES = (32, 8, 16, 64, 4, 2, 1, 48, 100, 128, 224, 256, 320, 512, 576, 640, 1024, 1600, 16000)
STYLES = ("plain", "digits", "ones")
LARGEST = 4_000_000  # elements of a made-up tensor


def main() -> None:
    """Read the settings from standard input and write what was found."""
    settings = json.load(sys.stdin)
    limit = settings["memory_mib"] * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(int(settings["timeout_s"]) + 5)  # should the parent be gone
    with open(settings["result"], "w", encoding="utf-8") as file:

        def tell(**found: object) -> None:
            file.write(json.dumps(found) + "\n")
            file.flush()
            os.fsync(file.fileno())

        try:
            session = open_session(settings)
        except MemoryError:
            tell(event="refused", message="it needs more memory than it was given")
            return
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            tell(event="refused", message=str(error))
            return
        inputs, outputs = session.get_inputs(), session.get_outputs()
        tell(event="opened", **{"inputs": [described(t) for t in inputs], "outputs": [described(t) for t in outputs]})
        if settings["samples"]:
            tell(event="sampled", **sample(session, settings))
        elif inputs and all(t.shape and not isinstance(t.shape[0], int) for t in (*inputs, *outputs)):
            tell(event="batch", **judge(session, settings))


def open_session(settings: dict) -> onnxruntime.InferenceSession:
    """A session with as few threads and as little memory as it can do with."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = settings["threads"]
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if settings["op_library"]:
        options.register_custom_ops_library(settings["op_library"])
    return onnxruntime.InferenceSession(settings["path"], options, providers=["CPUExecutionProvider"])


def described(tensor: onnxruntime.NodeArg) -> list:
    return [tensor.name, tensor.type, tensor.shape]


def sample(session: onnxruntime.InferenceSession, settings: dict) -> dict:
    """Find inputs that the graph runs with and save them; axes with the name of a first axis go with it first."""
    import numpy as np

    first_error, deadline = "", time.monotonic() + settings["timeout_s"] * 0.8
    for tied in (True, False):
        for feeds in candidates(session.get_inputs(), settings, rows=settings["rows"], tied=tied, whole=True):
            if time.monotonic() > deadline:
                break
            try:
                session.run(None, feeds)
            except Exception as error:
                first_error = first_error or str(error)
                continue
            texts = {name: array.astype(str) for name, array in feeds.items() if array.dtype == object}
            np.savez(settings["samples"], **(feeds | texts))
            return {"ok": True}
    return {"ok": False, "message": first_error or "no trial fitted into the time"}


def judge(session: onnxruntime.InferenceSession, settings: dict) -> dict:
    """Whether the first axis is a batch: every sample gets its own answer, whatever else is in the run."""
    names = [t.name for t in session.get_outputs()]
    deadline = time.monotonic() + settings["timeout_s"] * 0.8
    first_error = ""
    for feeds in candidates(session.get_inputs(), settings):
        if time.monotonic() > deadline:
            break
        try:
            session.run(names, rows_of(feeds, FIRST))
        except Exception as error:
            first_error = first_error or str(error)
            continue
        return compare(session, names, feeds, settings["dynamic"])
    for feeds in candidates(session.get_inputs(), settings):
        if time.monotonic() > deadline:
            break
        try:
            session.run(names, rows_of(feeds, [0]))
        except Exception:
            continue
        return {"ok": False, "kind": "one", "message": f"it runs with 1 sample and not with 3: {first_error}"}
    return {"ok": False, "kind": "no run", "message": first_error or "no trial fitted into the time"}


def compare(session: onnxruntime.InferenceSession, names: list[str], feeds: dict, dynamic: bool) -> dict:
    """Run three samples, two and one; then the middle one of three between other neighbours."""
    answers = {}
    for rows in (FIRST, [0, 1], [0], [1], [2], OTHERS):
        try:
            answers[tuple(rows)] = session.run(names, rows_of(feeds, rows))
        except Exception as error:
            message = f"it runs with 3 samples and not with {len(rows)}: {error}"
            return {"ok": False, "kind": "one", "message": message}
        for name, found in zip(names, answers[tuple(rows)], strict=True):
            if found.shape[:1] != (len(rows),):
                samples = "1 sample" if len(rows) == 1 else f"{len(rows)} samples"
                message = f"{samples} gave it the shape {list(found.shape)}"
                return {"ok": False, "kind": "shape", "tensor": name, "message": message}
    again = session.run(names, rows_of(feeds, FIRST))
    for position, name in enumerate(names):
        whole = answers[tuple(FIRST)][position]
        parts = [(answers[(0, 1)][position], whole[:2])]
        parts += [(answers[(row,)][position], whole[row : row + 1]) for row in FIRST]
        if any(found.shape[1:] != expected.shape[1:] for found, expected in parts):
            message = "a sample among 3 gets an answer of another shape than alone"
            return {"ok": False, "kind": "mixed", "tensor": name, "message": message}
        if not same(again[position], whole, tolerance=CLOSE):
            return {"ok": True, "kind": "random", "message": ""}
        # the same sums in the same order: whatever differs comes from the neighbours
        between = answers[tuple(OTHERS)][position]
        if between.shape != whole.shape or not same(between[1], whole[1], tolerance=0.1 if dynamic else CLOSE):
            message = "a sample gets another answer when its neighbours are others"
            return {"ok": False, "kind": "mixed", "tensor": name, "message": message}
        # kernels may take another way for another size, and normalisations make rounding visible
        if not all(same(found, expected, tolerance=0.1 if dynamic else ALIKE) for found, expected in parts):
            message = "a sample among 3 gets another answer than alone"
            return {"ok": False, "kind": "mixed", "tensor": name, "message": message}
    return {"ok": True, "kind": "repeats", "message": ""}


def rows_of(feeds: dict, rows: list[int]) -> dict:
    return {name: array[rows] for name, array in feeds.items()}


def same(found: np.ndarray, expected: np.ndarray, *, tolerance: float) -> bool:
    """Whether two arrays of one shape are the same answer, within a part of the largest number."""
    import numpy as np

    if found.dtype == object or found.dtype == bool or not (tolerance > ALIKE or found.dtype.kind == "f"):
        return bool(np.array_equal(found, expected))
    a, b = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    tolerance = max(tolerance, 2e-2 if found.dtype == np.float16 else 0)
    scale = float(np.abs(b[finite]).max(initial=0.0))
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) <= tolerance * scale + 1e-7


def candidates(
    tensors: list, settings: dict, *, rows: int = ROWS, tied: bool = False, whole: bool = False
) -> Iterator[dict]:
    """Made-up inputs, the likeliest first; free axes all take one size.

    Args:
        rows: the size of open first axes.
        tied: whether an axis with the same name as a first axis has its size.
        whole: whether an example is taken as it is, not as samples to vary.
    """
    import numpy as np

    given = dict(np.load(settings["example"], allow_pickle=False)) if settings["example"] else {}
    free = any(not isinstance(axis, int) for t in tensors if t.name not in given for axis in t.shape[1:])
    firsts = {t.shape[0] for t in tensors if tied and t.shape and isinstance(t.shape[0], str)}

    def size_of(axis: object, place: int, size: int) -> int:
        return axis if isinstance(axis, int) else rows if place == 0 or axis in firsts else size

    for size in SIZES if free else SIZES[:1]:
        for style in STYLES:
            generator = np.random.default_rng(0)
            feeds = {}
            for tensor in tensors:
                shape = [size_of(axis, place, size) for place, axis in enumerate(tensor.shape)]
                if np.prod(shape, dtype=np.float64) > LARGEST:
                    break
                if tensor.name in given and whole:
                    feeds[tensor.name] = given[tensor.name]
                elif tensor.name in given:
                    feeds[tensor.name] = varied(given[tensor.name], generator)
                else:
                    feeds[tensor.name] = made(tensor.type, shape, style, generator)
            else:
                yield feeds


def made(kind: str, shape: list[int], style: str, generator: np.random.Generator) -> np.ndarray:
    """One made-up tensor; whole numbers stay small, since they are often indices."""
    import numpy as np

    high = {"plain": 2, "digits": 10, "ones": 2}[style]
    low = 1 if style == "ones" else 0
    if kind == "tensor(string)":
        numbers = np.asarray(generator.integers(low, high, shape))
        return np.array([f"text {n}" for n in numbers.ravel()], object).reshape(shape)
    if kind == "tensor(bool)":
        return np.asarray(generator.integers(low, 2, shape)).astype(bool)
    name = {"float": "float32", "double": "float64"}.get(kind[7:-1], kind[7:-1])
    if name.startswith("float"):
        values = generator.standard_normal(shape) if style == "plain" else generator.random(shape)
        return np.asarray(values).astype(name)
    return np.asarray(generator.integers(low, high, shape)).astype(name)


def varied(example: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """As many rows as wanted, each like the example's and no two the same where it has several values."""
    import numpy as np

    parts = []
    for row in range(ROWS):
        part = example[row % len(example)]
        if row >= len(example):
            part = generator.permutation(part.ravel()).reshape(part.shape)
        parts.append(part)
    return np.stack(parts)


if __name__ == "__main__":
    main()
