"""Which tensor of config.pbtxt is which argument of `forward`, and which of its results.

TorchScript keeps no names of outputs, so Triton's PyTorch backend goes by conventions: the arguments' own
names, or `<name>__<index>`, or the order in config.pbtxt.

Source: "Important Notes" and the naming rules in https://github.com/triton-inference-server/pytorch_backend
"""

from __future__ import annotations

from collections.abc import Callable

import torch

SEPARATOR = "__"


def indexed(name: str) -> int | None:
    """The index of `INPUT__0`; None where a name is not made so. Without a digit it counts as 0, as in C++."""
    _, separator, index = name.partition(SEPARATOR)
    if not separator or (index and not index.isdecimal()):
        return None
    return int(index or 0)


def arguments_of(module: torch.jit.ScriptModule) -> tuple[list[str], bool]:
    """The names of `forward`'s arguments, and whether it takes one dictionary instead.

    Raises:
        ValueError: `forward` takes what no tensor can be, in the C++ backend's words.
    """
    arguments = module.forward.schema.arguments[1:]  # the first is the module itself
    kinds = [argument.type.kind() for argument in arguments]
    if kinds == ["DictType"]:
        return [], True
    if "DictType" in kinds:
        raise ValueError(
            "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, Tensor) is "
            "supported."
        )
    for argument, kind in zip(arguments, kinds, strict=True):
        if kind not in ("TensorType", "ListType"):
            raise ValueError(
                f"An input of type '{argument.type.str()}' was detected in the model. Only a single input of type "
                "Dict(str, Tensor) or input(s) of type Tensor are supported."
            )
    return [argument.name for argument in arguments], False


def input_positions(names: list[str], arguments: list[str], model: str, warn: Callable[[str], None]) -> dict[str, int]:
    """config.pbtxt's input name → position among `forward`'s arguments."""
    if arguments and all(name in arguments for name in names):
        return {name: arguments.index(name) for name in names}
    return _by_index(
        names,
        warn,
        f"or previous input(s) are neither an input argument to the model '{model}' nor do they follow",
        role="input",
    )


def output_positions(names: list[str], model: str, warn: Callable[[str], None]) -> dict[str, int]:
    """config.pbtxt's output name → position among `forward`'s results."""
    return _by_index(names, warn, f"or previous output(s) of the model '{model}' do not follow", role="output")


def _by_index(names: list[str], warn: Callable[[str], None], why: str, *, role: str) -> dict[str, int]:
    positions = {name: indexed(name) for name in names}
    other = next((name for name, position in positions.items() if position is None), None)
    if other is None:
        return positions
    if SEPARATOR in other:
        warn(
            f"{role} '{other}' {why} the <name>__<index> naming convention. Falling back to enforcing strict ordering "
            "from model configuration."
        )
    return {name: position for position, name in enumerate(names)}


def control_names(config: dict) -> list[str]:
    """The tensors that the sequence batcher adds to every request.

    Raises:
        ValueError: the configuration asks for what the server does for C++ backends alone.
    """
    sequence = config.get("sequence_batching", {})
    if sequence.get("state"):
        raise ValueError(
            f"model '{config['name']}': sequence state is not supported on this tier, whose backends are in Python"
        )
    if config.get("batch_input") or config.get("batch_output"):
        raise ValueError(f"model '{config['name']}': batch_input and batch_output are not supported on this tier")
    return [control["name"] for control in sequence.get("control_input", [])]
