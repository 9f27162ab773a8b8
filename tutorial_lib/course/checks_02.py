"""Checks of the exercises in notebook 02."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tutorial_lib.course.attempt import Wrong
from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.errors import ExportError

if TYPE_CHECKING:
    import torch

OPEN_AXES = {"input_ids": {0, 1}, "attention_mask": {0, 1}, "scores": {0}}


@exercise(
    "02-dynamic-axes",
    hints=[
        "which sizes change from call to call, and which are fixed by the weights? There are four scores, always.",
        "both inputs have two open axes, the output one; each of the three tensors needs an entry.",
        "the outer keys are the three tensor names, the inner ones axis numbers: 0 is the batch, 1 the sequence.",
    ],
)
def check_dynamic_axes(dynamic_axes: Mapping[str, Mapping[int, str]]) -> str:
    """Export a small text model with these axes and call it with other sizes.

    The model takes `input_ids` and `attention_mask`, INT64 (batch, sequence), and gives `scores`,
    FP32 (batch, 4).

    Raises:
        ExerciseError: the file does not take every batch size and length.
    """
    import torch

    from tutorial_lib.export.onnx_file import describe_onnx
    from tutorial_lib.export.to_onnx import export_onnx

    if not isinstance(dynamic_axes, Mapping):
        raise wrong(dynamic_axes, "a dictionary: tensor name → {axis: symbol}")
    _check_entries(dynamic_axes)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = export_onnx(
                _text_model(),
                Path(folder) / "text.onnx",
                example=(torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64)),
                input_names=["input_ids", "attention_mask"],
                output_names=["scores"],
                dynamic_axes=dynamic_axes,
            )
        except (ExportError, AttributeError, TypeError, IndexError) as error:
            text = str(error).splitlines()[0]
            raise wrong(dynamic_axes, "a dictionary that exports", f"the exporter says: {text}") from error
        found = dict(describe_onnx(path)[["name", "shape"]].to_numpy().tolist())
    expected = {"input_ids": "[batch, sequence]", "attention_mask": "[batch, sequence]", "scores": "[batch, 4]"}
    for name, shape in expected.items():
        if found[name] != shape:
            raise wrong(f"{name} {found[name]}", f"{name} {shape}")
    return "one file takes any batch of any length, and says which sizes must agree."


def _check_entries(dynamic_axes: Mapping[str, Mapping[int, str]]) -> None:
    """What can be said before anything is exported, in the learner's words instead of the exporter's."""
    if strangers := dynamic_axes.keys() - OPEN_AXES.keys():
        raise wrong(f"an entry for {strangers.pop()!r}", f"entries for {', '.join(OPEN_AXES)} only")
    for name, axes in OPEN_AXES.items():
        if name not in dynamic_axes:
            raise wrong(f"no entry for {name!r}", f"an entry for each of {', '.join(OPEN_AXES)}")
        given = dynamic_axes[name]
        if not isinstance(given, Mapping) or not all(isinstance(symbol, str) for symbol in given.values()):
            raise wrong(
                f"{name}: {given}", "{axis: symbol}, such as {0: 'batch'}", "a symbol is a text, an axis a number."
            )
        if extra := sorted(given.keys() - axes, key=str):
            note = "there are four scores in every call." if name == "scores" and extra == [1] else ""
            raise wrong(f"{name} with axis {extra[0]} open", f"{name} with open axes {sorted(axes)}", note)
        if fixed := sorted(axes - given.keys()):
            raise wrong(f"{name} without axis {fixed[0]}", f"{name} with open axes {sorted(axes)}")


@exercise(
    "02-fold",
    hints=[
        "collect what multiplies z and what is added: gamma * (z - mean) / sqrt(var + eps) + beta = scale * z + shift.",
        "scale = gamma / sqrt(var + eps), one number per output channel; the shift is beta - mean * scale.",
        "the new weight is weight * scale[:, None, None, None], the new bias is the shift; return both.",
    ],
)
def check_fold(fold: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> str:
    """`fold(weight, gamma, beta, mean, var, eps)` must give a convolution that does both steps.

    Raises:
        ExerciseError: convolution and normalisation, one after the other, answer differently.
    """
    import torch

    torch_generator = torch.Generator().manual_seed(3)
    weight = torch.randn(6, 4, 3, 3, generator=torch_generator)
    gamma, beta, mean = torch.randn(3, 6, generator=torch_generator)
    var = torch.rand(6, generator=torch_generator) + 0.5
    image = torch.randn(2, 4, 8, 8, generator=torch_generator)
    eps = 0.1
    plain = torch.nn.functional.conv2d(image, weight)
    expected = torch.nn.functional.batch_norm(plain, mean, var, gamma, beta, eps=eps)
    stretch = "scale is (6,); scale[:, None, None, None] stretches it over the kernel."
    try:
        answer = fold(weight, gamma, beta, mean, var, eps)
    except Wrong as found:
        if "must match the size" in str(found.yours):
            found.note = f"{found.note} {stretch}"
        raise
    if not isinstance(answer, tuple) or len(answer) != 2 or not all(map(torch.is_tensor, answer)):
        raise wrong(f"a {type(answer).__name__}", "(weight, bias): two tensors")
    shapes = [list(tensor.shape) for tensor in answer]
    if shapes != [[6, 4, 3, 3], [6]]:
        raise wrong(f"shapes {shapes}", "shapes [[6, 4, 3, 3], [6]]", stretch)
    gap = float((torch.nn.functional.conv2d(image, *answer) - expected).abs().max())
    if not gap < 1e-4:
        without_eps = gamma / var.sqrt()
        note = ""
        if torch.allclose(answer[0], weight * without_eps[:, None, None, None], atol=1e-5):
            note = "the weight is as if eps were zero."
        elif torch.allclose(answer[1], beta - mean, atol=1e-5):
            note = "the mean is subtracted before the scaling, so it is scaled, too."
        raise wrong(f"an answer {gap:.3g} away", "the same answer as convolution, then normalisation", note)
    return f"one convolution does the work of two operators; largest difference {gap:.1g}."


def _text_model() -> torch.nn.Module:
    import torch

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(16, 8)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            weight = attention_mask[..., None].float()  # (batch, sequence, 1)
            mean = (self.embedding(input_ids) * weight).sum(1) / weight.sum(1)  # (batch, 8)
            return self.head(mean)

    return Text().eval()


WRONG = {
    "check_dynamic_axes": [
        (
            'dynamic_axes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}, "scores": {0: "batch"}}',
            "input_ids without axis 1",
        ),
        ('dynamic_axes = {"input_ids": {0: "batch", 1: "sequence"}}', "no entry for 'attention_mask'"),
        (
            'both = {0: "batch", 1: "sequence"}\n'
            'dynamic_axes = {"input_ids": both, "attention_mask": both, "scores": {0: "batch", 1: "4"}}',
            "four scores in every call",
        ),
        (
            'both = {0: "sequence", 1: "batch"}\n'
            'dynamic_axes = {"input_ids": both, "attention_mask": both, "scores": {0: "sequence"}}',
            "yours:    input_ids [sequence, batch]",
        ),
        ('dynamic_axes = ["batch", "sequence"]', "a dictionary: tensor name"),
    ],
    "check_fold": [
        (
            "def fold(weight, gamma, beta, mean, var, eps):\n"
            "    scale = gamma / var.sqrt()\n"
            "    return weight * scale[:, None, None, None], beta - mean * scale",
            "as if eps were zero",
        ),
        (
            "def fold(weight, gamma, beta, mean, var, eps):\n"
            "    scale = gamma / (var + eps).sqrt()\n"
            "    return weight * scale[:, None, None, None], beta - mean",
            "so it is scaled, too",
        ),
        (
            "def fold(weight, gamma, beta, mean, var, eps):\n"
            "    scale = gamma / (var + eps).sqrt()\n"
            "    return weight * scale, beta - mean * scale",
            "your line 3, `return weight * scale, beta - mean * scale`",
        ),
    ],
}
