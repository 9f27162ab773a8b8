"""From a torch module to the TorchScript file that Triton's PyTorch backend reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tutorial_lib.errors import ExportError
from tutorial_lib.export.to_onnx import refuse_training
from tutorial_lib.paths import atomic_write

if TYPE_CHECKING:
    from torch import Tensor, nn


def export_torchscript(
    model: nn.Module, path: Path, *, example: Tensor | Sequence[Tensor], script: bool = False
) -> Path:
    """Write `model` as TorchScript, checked at another batch size than the example's.

    Args:
        model: in evaluation mode, on the CPU.
        path: usually `…/1/model.pt`.
        example: the arguments of `forward`, axis 0 the batch.
        script: compile the source, which keeps branches and loops that depend on values, instead of tracing one run.

    Returns:
        `path`. Nothing is left there if anything fails, except what was there before.

    Raises:
        ExportError: the model is in training mode, torch cannot trace or compile it, or the saved module answers
            differently at another batch size (a trace keeps the sizes that code took out of the example).
    """
    import torch

    refuse_training(model)
    tensors = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    larger = tuple(torch.cat([tensor, tensor[:1], tensor[-1:]]) if tensor.ndim else tensor for tensor in tensors)
    name = type(model).__name__
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracer and deprecation notes: the answers below are what counts
        try:
            module = torch.jit.script(model) if script else torch.jit.trace(model, tensors, check_trace=False)
            with atomic_write(Path(path)) as temporary:
                torch.jit.save(module, str(temporary))
                saved = torch.jit.load(str(temporary), map_location="cpu")
                for batch in (tensors, larger):
                    _compare(name, saved(*batch), model(*batch), len(batch[0]))
        except ExportError:
            raise
        except Exception as error:  # whatever the model's own code raises
            how = "compiled" if script else "traced"
            raise ExportError(
                f"model {name}: found code that cannot be {how} to TorchScript for every batch size.",
                action="Keep to tensors in forward, or try script=True." if not script else "Trace it instead.",
                details=str(error)[:800],
            ) from error
    return Path(path)


def _compare(name: str, found: object, expected: object, batch: int) -> None:
    """Refuse a module that answers differently from the one it was made from."""
    import torch

    try:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        raise ExportError(
            f"model {name}: its TorchScript answers differently at batch {batch}.",
            action="A trace keeps what depended on the example; try script=True.",
            details=str(error)[:600],
        ) from error
