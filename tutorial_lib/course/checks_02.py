"""Checks of the exercises in notebook 02."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tutorial_lib.course.checks import attempted, right, wrong
from tutorial_lib.errors import ExportError


def check_dynamic_axes(dynamic_axes: Mapping[str, Mapping[int, str]]) -> None:
    """Export a small text model with these axes and call it with other sizes.

    The model takes `input_ids` and `attention_mask`, INT64 (batch, sequence), and gives `scores`,
    FP32 (batch, 4).

    Raises:
        ExerciseError: the file does not take every batch size and length.
    """
    if not attempted(dynamic_axes):
        return
    import torch

    from tutorial_lib.export.onnx_file import describe_onnx
    from tutorial_lib.export.to_onnx import export_onnx

    expected = {
        "input_ids": "[batch, sequence]",
        "attention_mask": "[batch, sequence]",
        "scores": "[batch, 4]",
    }
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
    for name, shape in expected.items():
        if found[name] != shape:
            hint = "both inputs have two open axes, the output one; name equal sizes equally."
            raise wrong(f"{name} {found[name]}", f"{name} {shape}", hint)
    right("one file takes any batch of any length, and says which sizes must agree.")


def check_fold(fold: Callable) -> None:
    """`fold(weight, gamma, beta, mean, var, eps)` must give a convolution that does both steps.

    Raises:
        ExerciseError: convolution and normalisation, one after the other, answer differently.
    """
    if not attempted(fold):
        return
    import torch

    torch_generator = torch.Generator().manual_seed(3)
    weight = torch.randn(6, 4, 3, 3, generator=torch_generator)
    gamma, beta, mean = torch.randn(3, 6, generator=torch_generator)
    var = torch.rand(6, generator=torch_generator) + 0.5
    image = torch.randn(2, 4, 8, 8, generator=torch_generator)
    eps = 0.1
    plain = torch.nn.functional.conv2d(image, weight)
    expected = torch.nn.functional.batch_norm(plain, mean, var, gamma, beta, eps=eps)
    answer = fold(weight, gamma, beta, mean, var, eps)
    if answer is ... or not isinstance(answer, tuple) or len(answer) != 2:
        raise wrong(answer, "(weight, bias)", "return two tensors.")
    shapes = [list(tensor.shape) for tensor in answer]
    if shapes != [[6, 4, 3, 3], [6]]:
        hint = "scale is (6,); scale[:, None, None, None] stretches it over the kernel."
        raise wrong(f"shapes {shapes}", "shapes [[6, 4, 3, 3], [6]]", hint)
    gap = float((torch.nn.functional.conv2d(image, answer[0], answer[1]) - expected).abs().max())
    if not gap < 1e-4:
        raise wrong(
            f"an answer {gap:.3g} away",
            "the same answer",
            "scale = gamma / sqrt(var + eps); the mean is scaled, too, before beta is added.",
        )
    right(f"one convolution does the work of two operators; largest difference {gap:.1g}.")


def _text_model():
    import torch

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(16, 8)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, input_ids, attention_mask):
            weight = attention_mask[..., None].float()  # (batch, sequence, 1)
            mean = (self.embedding(input_ids) * weight).sum(1) / weight.sum(1)  # (batch, 8)
            return self.head(mean)

    return Text().eval()
