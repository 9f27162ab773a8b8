"""From a torch module to an ONNX file that the target Triton loads, or a clear refusal."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_file import OnnxTensor, inputs_of, opset_of, outputs_of, shape_text
from tutorial_lib.models.names import IMAGE_SHAPE, INPUT_NAME, OUTPUT_NAME
from tutorial_lib.paths import atomic_write
from tutorial_lib.versions import Release, check_onnx, target

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tutorial_lib.models.densenet import DenseNet

OPSET = 18
# one protobuf message ends at 2 GiB; above this, the weights go into one file beside the graph
INLINE_LIMIT_MIB = 1800

DynamicAxes = Mapping[str, Mapping[int, str]]


def export_onnx(
    model: nn.Module,
    path: Path,
    *,
    example: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    input_names: Sequence[str],
    output_names: Sequence[str],
    dynamic_axes: DynamicAxes | None = None,
    opset: int = OPSET,
    release: Release | None = None,
    metadata: Mapping[str, str] | None = None,
    inline_limit_mib: int = INLINE_LIMIT_MIB,
) -> Path:
    """Export `model` with the names and open axes asked for, checked against what came out.

    Args:
        example: the arguments of `forward`, all tensors, in order; or by name as a mapping.
        input_names: a name for every argument; the same names clients and config.pbtxt will use.
        output_names: a name for every output.
        dynamic_axes: tensor name → {axis: symbol}. By default axis 0 of every input and output is "batch".
        opset: ONNX operator set to write.
        release: the Triton release whose ONNX Runtime must load the file; `versions.target()` by default.
        metadata: short texts to keep inside the file.
        inline_limit_mib: weights above this go into `<name>.data` beside the graph.

    Returns:
        `path`. Nothing is left there if anything fails, except what was there before.

    Raises:
        ExportError: the model is in training mode; an argument is not a tensor; torch cannot trace it;
            names or open axes did not survive; the release would not load the opset.
    """
    path, release = Path(path), release or target()
    if opset > release.max_opset:
        check_onnx(0, opset, release, name=path.name)
    refuse_training(model)
    tensors = _arguments(model, example, input_names)
    if dynamic_axes is None:
        dynamic_axes = {name: {0: "batch"} for name in (*input_names, *output_names)}
    unknown = sorted(set(dynamic_axes) - {*input_names, *output_names})
    if unknown:
        known = [*input_names, *output_names]
        raise ExportError(f"dynamic axes: found tensor names {unknown}, expected some of {known}.")

    proto = _trace(model, example, tensors, dynamic_axes, output_names=output_names, opset=opset)
    _clean(proto, metadata or {})
    _refuse_lost_names("inputs", input_names, inputs_of(proto))
    _refuse_lost_names("outputs", output_names, outputs_of(proto))
    _refuse_fixed_axes(dynamic_axes, {tensor.name: tensor for tensor in (*inputs_of(proto), *outputs_of(proto))})
    # the graph uses nothing newer than its opset, so an older container format can hold it
    proto.ir_version = min(proto.ir_version, release.max_ir)
    check_onnx(proto.ir_version, opset_of(proto), release, name=path.name)
    return _save(proto, path, inline_limit_mib=inline_limit_mib)


def export_densenet(
    model: DenseNet, path: Path, *, checkpoint_sha256: str = "", release: Release | None = None
) -> Path:
    """Export the digits model under the names every later step uses.

    Args:
        checkpoint_sha256: kept inside the file, so that one can tell which checkpoint it came from.
    """
    import torch

    return export_onnx(
        model,
        path,
        example=torch.zeros(2, *IMAGE_SHAPE),
        input_names=[INPUT_NAME],
        output_names=[OUTPUT_NAME],
        release=release,
        metadata={"checkpoint_sha256": checkpoint_sha256} if checkpoint_sha256 else None,
    )


def refuse_training(model: nn.Module) -> None:
    """Refuse a module any part of which is in training mode.

    Raises:
        ExportError: with the first such part.
    """
    training = [name or type(model).__name__ for name, module in model.named_modules() if module.training]
    if training:
        more = f" and {len(training) - 1} more modules" if len(training) > 1 else ""
        raise ExportError(
            f"model {type(model).__name__}: found {training[0]!r}{more} in training mode, expected evaluation mode. "
            "Batch normalisation would use each request's own statistics and dropout would drop.",
            action="Call model.eval() before the export.",
        )


def _arguments(model: nn.Module, example: object, input_names: Sequence[str]) -> dict[str, Tensor]:
    """The example tensors under the names they shall have; anything but a tensor is refused."""
    import torch

    if isinstance(example, torch.Tensor):
        values = [example]
    else:
        values = list(example.values() if isinstance(example, Mapping) else example)
    if len(values) != len(input_names) or len(set(input_names)) != len(input_names):
        raise ExportError(
            f"input names: found {list(input_names)}, expected {len(values)} different names, one for each argument."
        )
    constants = [
        f"{name!r} is a Python {type(value).__name__}"
        for name, value in zip(input_names, values, strict=True)
        if not isinstance(value, torch.Tensor)
    ]
    if constants:
        raise ExportError(
            f"model {type(model).__name__}: {'; '.join(constants)}, expected a tensor. "
            "The exporter would bake its value into the graph and the input would vanish.",
            action="Pass torch.tensor(value) and compute with the tensor, or fix the value inside the model.",
        )
    return dict(zip(input_names, values, strict=True))


def _trace(
    model: nn.Module,
    example: object,
    tensors: dict[str, Tensor],
    dynamic_axes: DynamicAxes,
    *,
    output_names: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    import torch

    symbols = {symbol for axes in dynamic_axes.values() for symbol in axes.values()}
    dims = {symbol: torch.export.Dim(symbol) for symbol in sorted(symbols)}
    values, shapes = [], []
    for name, tensor in tensors.items():
        axes = dynamic_axes.get(name, {})
        # one tensor given as two examples would be traced as one input, and the other silently ignored
        tensor = tensor.detach().clone()
        for axis in axes:
            # an example of size 1 invites torch to treat the axis as broadcast; two are as good as any number
            if tensor.shape[axis] == 1:
                tensor = torch.cat([tensor, tensor], dim=axis)
        values.append(tensor)
        shapes.append({axis: dims[symbol] for axis, symbol in axes.items()})
    by_name = isinstance(example, Mapping)
    try:
        with quiet():
            program = torch.onnx.export(
                model,
                () if by_name else tuple(values),
                kwargs=dict(zip(example, values, strict=True)) if by_name else None,
                input_names=list(tensors),
                output_names=list(output_names),
                dynamic_shapes=dict(zip(example, shapes, strict=True)) if by_name else tuple(shapes),
                opset_version=opset,
                dynamo=True,
                verbose=False,
            )
            return program.model_proto
    except Exception as error:  # torch raises many kinds here; all mean that the model cannot be exported so
        raise ExportError(
            f"model {type(model).__name__}: torch could not export it ({type(error).__name__}).",
            action="Often an if, a loop or .item() depends on a tensor's value or on the size of an open axis.",
            details=_decisive(error),
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's progress and notes about absent optional packages out of the notebook."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _decisive(error: BaseException) -> str:
    """The innermost cause, which names the line of the model, cut to a readable length."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(line[:300] for line in lines[:12])


def _clean(proto: onnx.ModelProto, metadata: Mapping[str, str]) -> None:
    """Drop the exporter's debugging notes (stack traces with local paths); keep only our own entries."""
    graph = proto.graph
    holders = [proto, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]
    for holder in holders:
        del holder.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""
    for key, value in metadata.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value


def _refuse_lost_names(kind: str, asked: Sequence[str], tensors: Sequence[OnnxTensor]) -> None:
    found = [tensor.name for tensor in tensors]
    if found == list(asked):
        return
    missing = [name for name in asked if name not in found]
    reason = f"Missing: {missing}; the graph does not use them, or they became constants. " if missing else ""
    raise ExportError(
        f"exported graph: found {kind} {found}, expected {list(asked)}. {reason}".rstrip(),
        action=f"Make forward() compute with every input, and name as many {kind} as it has.",
    )


def _refuse_fixed_axes(dynamic_axes: DynamicAxes, tensors: Mapping[str, OnnxTensor]) -> None:
    for name, axes in dynamic_axes.items():
        shape = tensors[name].shape or ()
        for axis, symbol in axes.items():
            if axis >= len(shape) or isinstance(shape[axis], int):
                raise ExportError(
                    f"exported graph, tensor {name!r}: found shape {shape_text(shape)}, expected axis {axis} to be "
                    f"open ({symbol!r}). Something in forward() turned its size into a Python number.",
                    action="Use tensor operations instead of loops, int() or len() over that axis.",
                )


def _save(proto: onnx.ModelProto, path: Path, *, inline_limit_mib: int) -> Path:
    side = path.with_name(path.name + ".data")
    weights_mib = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) / 2**20
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        draft = Path(folder) / path.name
        apart = weights_mib > inline_limit_mib
        onnx.save(proto, draft, save_as_external_data=apart, location=side.name, size_threshold=1024)
        try:
            onnx.checker.check_model(draft, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise ExportError(f"exported graph {path.name!r}: onnx.checker refuses it.", details=str(error)) from error
        for source, goal in ((draft.with_name(side.name), side), (draft, path)):
            if source.exists():
                with atomic_write(goal) as temporary:
                    source.replace(temporary)
    return path
