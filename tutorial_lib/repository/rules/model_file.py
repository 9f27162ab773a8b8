"""The model files in the version folders."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from onnx import TensorProto

from tutorial_lib.errors import ExportError
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView, inside, is_file
from tutorial_lib.versions import RELEASES, Release, check_onnx

LESSON = "04#layout-question"
PROTOBUF_LIMIT = 2**31 - 1
ENDINGS = {
    "onnxruntime": (".onnx", ".ort"), "python": (".py",), "tensorrt": (".plan", ".engine", ".trt"),
    "pytorch": (".pt", ".pth", ".torchscript"), "openvino": (".xml",),
    "tensorflow": (".pb", ".savedmodel", ".graphdef"),
}  # fmt: skip


@rule(
    "model-path",
    severity="error",
    lesson=LESSON,
    why="A model file outside its version folder is not part of the repository, and perhaps not yours.",
)
def model_path(model: ModelView) -> Iterator[Problem]:
    name = model.config.default_model_filename
    if name and not inside(name):
        # Triton 2.51 lets its Python backend read such a file; without one there the model stays "loading"
        newest = model.path / str(model.versions[-1] if model.versions else 1)
        read = model.backend == "python" and not name.startswith("/") and is_file(newest / name)
        yield Problem(
            "",
            f"default_model_filename: {name!r}",
            "a file inside the version folder",
            f"Put the file into {model.name}/1/ and write its plain name.",
            at="default_model_filename",
            severity="warning" if read else "",
        )
    elif model.backend == "python" and "." in name.split("/")[:-1]:
        fix = f'Write default_model_filename: "{PurePosixPath(name)}".'
        at = "default_model_filename"
        found = f"default_model_filename: {name!r}"
        yield Problem("", found, "no folder . in it: the stub takes it for a module's name", fix, at=at)


@rule(
    "model-file-name",
    severity="error",
    lesson=LESSON,
    why="The backend opens one file name in each version folder, and no other.",
)
def model_file_name(model: ModelView) -> Iterator[Problem]:
    names = model.file_names
    if not names or not all(inside(name) for name in names) or model.listing.problem:
        return
    for version in model.read_versions:
        places = [model.path / str(version) / name for name in names]
        if any(_may_be_model(place, model.backend) for place in places):
            continue
        odd = next((place for place in places if os.path.lexists(place)), None)
        if odd is not None:
            what = (
                "a folder"
                if os.path.isdir(odd)
                else "a pipe or a device"
                if os.path.exists(odd)
                else "a link to nowhere"
            )
            fix = f"Put the model itself there: {model.name}/{version}/{odd.name}."
            yield Problem(f"{version}/{odd.name}", what, "a file", fix, file=f"{version}/{odd.name}")
            continue
        found = [name for name in model.files_of(version) if Path(name).suffix in ENDINGS.get(model.backend, ())]
        if not found and not model.config.default_model_filename and model.backend == "openvino":
            continue
        fix = f"Put the model there: {model.name}/{version}/{names[0]}."
        if found:
            fix = f'Rename {found[0]} to {names[0]}, or write default_model_filename: "{found[0]}".'
        what = ", ".join(found or model.files_of(version)[:4]) or "nothing"
        yield Problem("", f"{what} in version folder {version}", " or ".join(names), fix, file=str(version))


def _may_be_model(path: Path, backend: str) -> bool:
    """Whether a backend can open it: a file, or a folder where models are folders."""
    if backend == "onnxruntime" and os.path.isdir(path):
        return is_file(path / "model.onnx")  # with its weights beside it
    return is_file(path) or (backend != "python" and os.path.isdir(path))


@rule(
    "model-file",
    severity="error",
    lesson="05#broken-question",
    why="The backend cannot read this file, so the model does not load.",
)
def model_file(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        file = model.relative(graph.path)
        size = _size(graph.path)
        if graph.problem is not None:
            text = graph.problem.problem.partition(": ")[2].rstrip(".")
            found = text.removeprefix("found ")
            yield Problem(file, found, "an ONNX graph", graph.problem.action, file=file)
        elif size > PROTOBUF_LIMIT:
            fix = "Save it with its weights beside it: onnx.save(model, path, save_as_external_data=True)."
            yield Problem(
                file, f"{size / 2**30:.1f} GiB", "less than 2 GiB, which is what protobuf reads", fix, file=file
            )
    if model.backend not in ("onnxruntime", "python"):
        for _, path in model.model_files():
            file = model.relative(path)
            if _size(path) == 0:
                yield Problem(file, "0 bytes", "a model", "Copy or build it again.", file=file)
            elif _head(path, 64).startswith(b"version https://git-lfs"):
                yield Problem(
                    file, "a Git LFS pointer", "the model itself", "Fetch the model: git lfs pull.", file=file
                )


@rule(
    "model-too-new",
    severity="error",
    lesson="02#s2",
    why="A server reads only what its ONNX Runtime knew when it was built.",
)
def model_too_new(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        if graph.header is None:
            continue
        try:
            check_onnx(graph.ir, graph.opset, model.repository.release)
        except ExportError as error:
            found, _, expected = error.problem.partition(": found ")[2].partition(", expected ")
            file = model.relative(graph.path)
            yield Problem(file, found, expected.rstrip("."), error.action, file=file)


@rule(
    "external-data",
    severity="error",
    lesson="04#layout-question",
    why="Weights in a file of their own have to travel with the graph.",
)
def external_data(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        needed: dict[str, int] = {}
        for tensor in graph.header.graph.initializer if graph.header is not None else ():
            if tensor.data_location == TensorProto.EXTERNAL:
                place = {entry.key: entry.value for entry in tensor.external_data}
                end = sum(int(place[key]) for key in ("offset", "length") if place.get(key, "").isdecimal())
                needed[place.get("location", "")] = max(needed.get(place.get("location", ""), 0), end)
        file = model.relative(graph.path)
        for location, end in needed.items():
            inner = PurePosixPath(location)
            beside = graph.path.parent / inner
            if not location or inner.is_absolute() or ".." in inner.parts or "\0" in location:
                fix = "Save the model again with its weights beside it."
                yield Problem(
                    file, f"weights outside its folder: {location!r}", "a plain relative name", fix, file=file
                )
            elif not is_file(beside):
                fix = f"Copy {location} to {model.name}/{graph.version}/."
                yield Problem(file, f"no file {location}, where its weights are", "it beside the graph", fix, file=file)
            elif _size(beside) < end:
                fix = f"It was cut: copy {location} again."
                yield Problem(file, f"{_size(beside)} bytes in {location}", f"{end} at least", fix, file=file)


@rule(
    "plan-version",
    severity="error",
    lesson="05#container-question",
    why="A TensorRT plan runs only on the TensorRT that built it.",
)
def plan_version(model: ModelView) -> Iterator[Problem]:
    if model.backend != "tensorrt":
        return
    lowest, highest, expected = _tensorrt_of(model.repository.release)
    for _, path in model.model_files():
        head, file = _head(path, 28), model.relative(path)
        if not head:
            continue
        if len(head) < 28 or head[:4] != b"ftrt":
            yield Problem(
                file,
                "no TensorRT plan",
                "a file that trtexec --saveEngine wrote",
                "Build it again, with trtexec of the container.",
                file=file,
                severity="warning",
            )
            continue
        # Source: trtexec --getPlanVersionOnly in TensorRT's samples: serialization version, then four bytes at 24
        if struct.unpack("<I", head[4:8])[0] == 0 and not lowest <= tuple(head[24:27]) <= highest:
            found = ".".join(str(part) for part in head[24:28])
            fix = f"Build it with trtexec of {model.repository.release.image}, on the GPU that serves it."
            yield Problem(file, f"a plan of TensorRT {found}", expected, fix, file=file)


def _tensorrt_of(release: Release) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Lowest and highest TensorRT (three numbers) that an image may have, and both in words.

    Where no source names it, it lies between those of the releases before and after.
    """
    known = [(one.tag, one.tensorrt) for one in RELEASES.values() if one.tensorrt]
    low = max((one for one in known if one[0] <= release.tag), default=("", "0.0.0"))[1]
    high = min((one for one in known if one[0] >= release.tag), default=("", "999.0.0"))[1]
    versions = " to ".join(dict.fromkeys((low, high)))
    numbers = (tuple(int(part) for part in text.split(".")[:3]) for text in (low, high))
    return *numbers, f"TensorRT {versions}, which Triton {release.tag} has"


@rule(
    "environment-archive",
    severity="error",
    lesson="04#layout-question",
    why="The Python stub runs in this environment, so Triton unpacks it first.",
)
def environment_archive(model: ModelView) -> Iterator[Problem]:
    if "EXECUTION_ENV_PATH" not in model.config.parameters:
        return
    value = model.config.parameters["EXECUTION_ENV_PATH"].string_value
    place = value.replace("$$TRITON_MODEL_DIRECTORY", str(model.path))
    if place != value and not os.path.exists(place):
        fix = "Put the packed environment there, or delete the parameter."
        yield Problem(
            "parameter EXECUTION_ENV_PATH",
            f"{value}, and no such file",
            "an archive made by conda-pack",
            fix,
            at="parameters",
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _head(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""
