"""TorchScript that must come out right, and traces that silently keep the example's size."""

from __future__ import annotations

import pytest
import torch

from tutorial_lib.errors import ExportError
from tutorial_lib.export import export_torchscript


class Chunked(torch.nn.Module):
    """Works on one row at a time: a trace keeps the example's number of rows."""

    def forward(self, x):
        rows = [x[number] * 2 for number in range(x.shape[0])]
        return torch.stack(rows)


class Branch(torch.nn.Module):
    """Depends on the values: a trace keeps the branch the example took."""

    def forward(self, x):
        if bool(x.sum() > 0):
            return x + 1
        return x - 1


class Pair(torch.nn.Module):
    def forward(self, x, y):
        return x + y, x * y


def test_it_answers_as_the_module_does(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval()
    path = export_torchscript(model, tmp_path / "net" / "1" / "model.pt", example=torch.ones(2, 4))
    x = torch.randn(5, 4)
    with torch.inference_mode():
        torch.testing.assert_close(torch.jit.load(str(path))(x), model(x))


def test_several_arguments_keep_their_names(tmp_path):
    path = export_torchscript(Pair().eval(), tmp_path / "model.pt", example=[torch.ones(2, 3), torch.ones(2, 3)])
    assert [argument.name for argument in torch.jit.load(str(path)).forward.schema.arguments] == ["self", "x", "y"]


@pytest.mark.parametrize("model", [Chunked(), torch.nn.Unflatten(0, (2, 1))])
def test_a_trace_that_keeps_the_batch_is_refused(tmp_path, model):
    with pytest.raises(ExportError, match=r"batch 4|every batch size"):
        export_torchscript(model.eval(), tmp_path / "model.pt", example=torch.ones(2, 3))
    assert list(tmp_path.iterdir()) == []


def test_scripting_keeps_loops_and_branches(tmp_path):
    for model in (Chunked().eval(), Branch().eval()):
        path = export_torchscript(model, tmp_path / "model.pt", example=torch.ones(2, 3), script=True)
        x = -torch.ones(3, 3)
        torch.testing.assert_close(torch.jit.load(str(path))(x), model(x))


def test_training_mode_and_bad_code_are_refused_and_leave_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    with pytest.raises(ExportError, match="training mode"):
        export_torchscript(torch.nn.Dropout(), path, example=torch.ones(2, 3))

    class Text(torch.nn.Module):
        def forward(self, x):
            return {"answer": "no tensor"}

    with pytest.raises(ExportError, match="cannot be traced"):
        export_torchscript(Text().eval(), path, example=torch.ones(2, 3))
    assert path.read_bytes() == b"before" and [entry.name for entry in tmp_path.iterdir()] == ["model.pt"]
