"""An ONNX file as something to serve: what it needs beside it, and what rules it out for a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import onnx
from onnx import TensorProto

from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.export.onnx_file import opset_of
from tutorial_lib.export.onnx_header import read_header
from tutorial_lib.versions import Release, check_onnx

PROTOBUF_LIMIT = 2**31 - 1

# operator sets that ONNX Runtime itself implements
OWN_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft")
OWN_DOMAINS += ("com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc", "org.pytorch.aten")
# operators that choose their scale from all that is in the run
DYNAMIC_OPERATORS = ("DynamicQuantize", "MatMulInteger", "ConvInteger", "QAttention")


@dataclass(frozen=True)
class OnnxSource:
    """An ONNX file that the release would read, and what goes with it.

    Attributes:
        path: the file.
        header: its graph, without large weights.
        external: files with weights, relative to the file's folder.
        custom: operators that a library has to bring, as "domain:Name".
    """

    path: Path
    header: onnx.ModelProto
    external: tuple[PurePosixPath, ...]
    custom: tuple[str, ...]

    @property
    def dynamic(self) -> bool:
        """Whether the graph quantizes as it runs."""
        return any(node.op_type.startswith(DYNAMIC_OPERATORS) for node in _nodes(self.header))

    def lacks_rank(self, name: str) -> bool:
        """Whether the file leaves open how many axes a tensor has, and nothing in the graph tells."""
        model = self.header
        for attempt in range(2):
            values = [value for value in (*model.graph.input, *model.graph.output) if value.name == name]
            if any(value.type.tensor_type.HasField("shape") for value in values):
                return False
            if attempt == 0:
                model = onnx.shape_inference.infer_shapes(model)
        return True


def open_source(path: Path | str, *, release: Release, op_library: Path | str | None = None) -> OnnxSource:
    """Read an ONNX file's header and check what can be known without running it.

    Raises:
        ExportError: it is no ONNX file, too large for protobuf, newer than the release reads, or has
            operators that nothing implements.
        RepositoryError: its external data is missing, cut, or outside its folder.
    """
    path = Path(path).expanduser()
    header = read_header(path)
    size = path.stat().st_size
    if size > PROTOBUF_LIMIT:
        raise ExportError(
            f"ONNX file {path.name!r}: found {size / 2**30:.1f} GiB, expected less than 2 GiB: protobuf reads no more.",
            action="Save it with the weights beside it: onnx.save(model, path, save_as_external_data=True).",
        )
    check_onnx(header.ir_version, opset_of(header), release, name=f"ONNX file {path.name!r}")
    custom = tuple(sorted({f"{node.domain}:{node.op_type}" for node in _nodes(header) if _is_custom(node, header)}))
    if custom and not op_library:
        raise ExportError(
            f"ONNX file {path.name!r}: found custom operators {', '.join(custom[:4])}, expected operators of "
            f"ONNX Runtime ({', '.join(OWN_DOMAINS[1:4])}, …).",
            action="Give the shared library that implements them (op_library), or export without them.",
        )
    return OnnxSource(path, header, _external(header, path), custom)


def _is_custom(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    functions = {(function.domain, function.name) for function in model.functions}
    return node.domain not in OWN_DOMAINS and (node.domain, node.op_type) not in functions


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those inside branches, loops and functions too."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """All stored tensors: weights, and constants inside nodes."""
    graphs = [model.graph]
    for node in _nodes(model):
        for attribute in node.attribute:
            graphs += [attribute.g, *attribute.graphs]
            yield from (attribute.t, *attribute.tensors)
    for graph in graphs:
        yield from graph.initializer


def _external(model: onnx.ModelProto, path: Path) -> tuple[PurePosixPath, ...]:
    """The files that hold weights; each is there, long enough, and inside the file's folder."""
    needed: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        numbers = [entries.get(key, "0") for key in ("offset", "length")]
        end = sum(int(number) for number in numbers if number.isdecimal())
        needed[location] = max(needed.get(location, 0), end)
    homes = (path.parent.resolve(), path.resolve().parent)  # a hub's cache links files out of its folders
    for location, end in needed.items():
        subject = f"ONNX file {path.name!r}, external data {location!r}"
        inner = PurePosixPath(location)
        file = path.parent / inner
        if not location or inner.is_absolute() or ".." in inner.parts or "\\" in location or "\0" in location:
            raise RepositoryError(
                f"{subject}: found a place outside the file's folder, expected a plain relative name.",
                action="Do not trust this file, or save it again with its weights beside it.",
            )
        if not file.is_file():
            raise RepositoryError(
                f"{subject}: found no such file in {path.parent}.",
                action="Copy it there too: without it the model has no weights.",
            )
        if not any(file.resolve().is_relative_to(home) for home in homes):
            raise RepositoryError(
                f"{subject}: found a link that leads to {file.resolve()}, outside the file's folder.",
                action="Put the weights themselves beside the file.",
            )
        if file.stat().st_size < end:
            raise RepositoryError(
                f"{subject}: found {file.stat().st_size} bytes, expected {end} at least.",
                action="It was cut: copy or download it again.",
            )
    return tuple(sorted(PurePosixPath(location) for location in needed))
