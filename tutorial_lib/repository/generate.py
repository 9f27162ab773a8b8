"""config.pbtxt from an ONNX file: what the graph says, and what running it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.export.onnx_file import opset_of
from tutorial_lib.repository.config import parse_config
from tutorial_lib.repository.config_text import Entry, comment, dynamic_batching, instance_group, quoted, tensors
from tutorial_lib.repository.labels import labelled_output, read_labels
from tutorial_lib.repository.onnx_source import OnnxSource, open_source
from tutorial_lib.repository.probe import TIMEOUT_S, GraphTensor, Probe, probe_onnx
from tutorial_lib.versions import RELEASES, Release, target

DEFAULT_MAX_BATCH_SIZE = 8
MODEL_FILE = "model.onnx"


def generate_config(
    onnx_path: Path | str,
    *,
    name: str = "",
    max_batch_size: int | None = None,
    instances: int | None = None,
    queue_delay_us: int | None = None,
    labels: Sequence[str] | Path | str | None = None,
    release: Release | str | None = None,
    example: Mapping[str, np.ndarray] | None = None,
    op_library: Path | str | None = None,
    model_filename: str = MODEL_FILE,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """The text of a config.pbtxt that Triton's ONNX Runtime backend accepts for this file.

    Names, types and shapes are those of an ONNX Runtime session. Whether there is a batch axis is decided by
    the open axes and then tried: the graph runs with 1, 2 and 3 samples in a process of its own.

    Args:
        name: the model's name; without one the folder's name counts.
        max_batch_size: the largest batch; by default 8 where the graph has a batch axis, else 0.
        instances: copies of the model; by default Triton's own choice: one for each GPU, two on a CPU, which share
            out the cores and which `./workshop bench backend --part settings` holds against others.
        queue_delay_us: how long a request may wait for others.
        labels: names of the classes, or a file with one a line; the configuration then names labels.txt.
        release: the Triton the model is for, or its NGC tag; `versions.target()` by default.
        example: input name → array of samples, for graphs that made-up numbers do not suit.
        op_library: a library with custom operators; the configuration then names it.
        model_filename: the name of the file in the version folder.
        timeout_s: the longest the graph may be tried.

    Raises:
        ExportError: the file is no ONNX file, or that release does not read it.
        RepositoryError: the graph has tensors that Triton has no word for, or cannot do what is asked.
    """
    release = release_named(release)
    source = open_source(onnx_path, release=release, op_library=op_library)
    found = probe_onnx(source.path, example=example, op_library=op_library, dynamic=source.dynamic, timeout_s=timeout_s)
    _check_tensors(source, found)
    size = _max_batch_size(source, found, max_batch_size)
    _check_scheduling(source, size, instances, queue_delay_us)
    names = read_labels(labels) if labels is not None else ()
    batched = size > 0
    outputs = [_entry(tensor, batched, role="output") for tensor in found.outputs]
    if names:
        outputs = labelled_output(source.path.name, outputs, names, batched=batched)
    parts = [_head(source, release), f"name: {quoted(name)}\n" if name else "", 'backend: "onnxruntime"\n']
    if model_filename != MODEL_FILE:
        parts.append(f"default_model_filename: {quoted(model_filename)}\n")
    parts += ["\n", _batch_comment(source, found, size), f"max_batch_size: {size}\n\n"]
    inputs = [_entry(tensor, batched, role="input") for tensor in found.inputs]
    parts += [tensors("input", inputs), tensors("output", outputs)]
    if instances:
        parts += ["\n", comment(_INSTANCES), instance_group(instances)]
    if batched:
        parts += ["\n", comment(_DELAY if queue_delay_us else _NO_DELAY), dynamic_batching(queue_delay_us)]
    if op_library:
        library = quoted(str(Path(op_library).absolute()))
        parts += ["\n", comment(_LIBRARY), f"model_operations {{ op_library_filename: [ {library} ] }}\n"]
    text = "".join(parts)
    parse_config(text, source=f"the configuration of {source.path.name}")  # whatever names the graph has
    return text


_INSTANCES = "Copies that work at the same time, on a GPU where there is one. Measure before you add more."
_NO_DELAY = "Put waiting requests together into one run, but never wait for more."
_DELAY = "Put requests together into one run. A lone request waits this long for company that may not come."
_LIBRARY = "Custom operators: this path must exist where the server runs."


def release_named(given: Release | str | None) -> Release:
    """The release itself, or the one of a tag; `versions.target()` for None."""
    if given is None or isinstance(given, Release):
        return given or target()
    if given not in RELEASES:
        raise RepositoryError(f"release: found {given!r}, expected one of {', '.join(RELEASES)}.")
    return RELEASES[given]


def _check_tensors(source: OnnxSource, found: Probe) -> None:
    """Refuse what the backend has no word for, with the way out."""
    for role, tensors_of_role in (("input", found.inputs), ("output", found.outputs)):
        for tensor in tensors_of_role:
            subject = f"ONNX file {source.path.name!r}, {role} '{tensor.name}'"
            if not tensor.kind.startswith("tensor("):
                nodes = source.header.graph.node
                zipmap = any(node.op_type == "ZipMap" and tensor.name in node.output for node in nodes)
                action = (
                    "It comes from a ZipMap: convert again with skl2onnx's options={'zipmap': False}, or make "
                    "the ZipMap's own input the graph's output."
                    if zipmap
                    else "Export it as tensors: one output for each part, or a concatenated one."
                )
                raise ExportError(f"{subject}: found {tensor.kind}, expected a tensor.", action=action)
            if not tensor.data_type:
                raise ExportError(
                    f"{subject}: found {tensor.kind}, for which Triton's ONNX Runtime backend has no type.",
                    action="Put a Cast to float or to an integer type at this end of the graph.",
                )
            if not tensor.shape and source.lacks_rank(tensor.name):
                raise ExportError(
                    f"{subject}: the file does not say how many axes it has, and Triton would take it for a scalar.",
                    action="Export again, or write its shape into the graph with onnx.helper.make_tensor_value_info.",
                )
            if 0 in tensor.shape:
                raise ExportError(
                    f"{subject}: found the shape {tensor.shape_text}; dims cannot say an axis of no elements.",
                    action="Export with that axis open, or leave this tensor out.",
                )
    if not found.inputs:
        raise ExportError(
            f"ONNX file {source.path.name!r}: found no input, expected one at least; Triton answers requests.",
            action="Its answer is a constant: store it, or export with an input.",
        )


def _max_batch_size(source: OnnxSource, found: Probe, asked: int | None) -> int:
    if asked is not None and asked < 0:
        raise RepositoryError(f"max_batch_size: found {asked}, expected 0 or more.")
    if asked and not found.batched:
        way_out = "Export with an open batch axis on every input and output, or take max_batch_size 0."
        if found.ran:
            way_out = "Take max_batch_size 0, or export a graph in which samples do not meet."
        elif found.culprit == "the graph":
            way_out = "Give an example input that suits it, or max_batch_size 0."
        raise RepositoryError(
            f"ONNX file {source.path.name!r}: max_batch_size {asked} was asked for, but {found.culprit} "
            f"{found.reason}.",
            action=way_out,
        )
    if asked is None:
        return DEFAULT_MAX_BATCH_SIZE if found.batched else 0
    return asked


def _check_scheduling(source: OnnxSource, size: int, instances: int | None, queue_delay_us: int | None) -> None:
    if instances is not None and instances < 1:
        raise RepositoryError(f"instances: found {instances}, expected 1 or more.")
    if queue_delay_us is not None and queue_delay_us < 0:
        raise RepositoryError(f"queue_delay_us: found {queue_delay_us}, expected 0 or more.")
    if queue_delay_us and size == 0:
        raise RepositoryError(
            f"ONNX file {source.path.name!r}: queue_delay_us {queue_delay_us} was asked for, but without a batch axis "
            "there is nothing to wait for.",
            action="Leave it out.",
        )


def _entry(tensor: GraphTensor, batched: bool, *, role: str) -> Entry:
    """One tensor; `dims` must not be empty, and a batched scalar therefore becomes one element."""
    dims = tensor.dims[1:] if batched else tensor.dims
    note = f"the graph says {tensor.shape_text}"
    if batched and not dims:
        note += ", one value for each sample. dims cannot be empty, so clients see [batch, 1]."
        return Entry(tensor.name, tensor.data_type, [1], reshape=[], note=note)
    if not dims:
        note = "a scalar in the graph; Triton has none, so clients see [1]. Without a batch no reshape is needed."
        return Entry(tensor.name, tensor.data_type, [1], note=note)
    wire = ["batch", *map(str, dims)] if batched else [str(size) for size in dims]
    note += f"; on the wire [{', '.join(wire)}]"
    if -1 in dims:
        note += ", where -1 is open"
        note += ": only requests that agree there are put into one batch" if batched and role == "input" else ""
    return Entry(tensor.name, tensor.data_type, dims, note=f"{note}.")


def _head(source: OnnxSource, release: Release) -> str:
    model = source.header
    producer = f", written by {model.producer_name} {model.producer_version}".rstrip() if model.producer_name else ""
    about = f"{source.path.name}: opset {opset_of(model)}, IR version {model.ir_version}{producer}."
    caps = f"opset {release.max_opset} and IR version {release.max_ir} at most"
    return comment(about) + comment(f"Made for Triton {release.tag}: ONNX Runtime {release.onnxruntime}, {caps}.")


def _batch_comment(source: OnnxSource, found: Probe, size: int) -> str:
    if size:
        text = (
            f"At most {size} samples in one run. Triton puts the batch axis before dims itself. Tried: runs of 1, 2 "
            "and 3 samples gave as many answers, "
        )
        text += (
            "and every sample the answer that it gets alone."
            if found.repeats
            else "but the graph answers at random, so the answers themselves could not be compared."
        )
        if source.dynamic:
            text += " The graph quantizes as it runs: an answer depends a little on its neighbours in the batch."
        return comment(text)
    if found.batched:
        return comment("No batching, as asked, although the graph has a batch axis; it stands in dims.")
    return comment(f"No batching, and dims are the whole shape, because {found.culprit} {found.reason}.")
