"""Values of a request and of `forward`: types, joining, and what Triton takes."""

from __future__ import annotations

import numpy as np
import torch

# torch's type -> Triton's name in config.pbtxt; the C++ backend has no others
TRITON_TYPES = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}
Value = torch.Tensor | list[str]


def check_types(model: str, role: str, entries: list[dict], batching: bool) -> None:
    """Refuse types that torch has not; strings are lists of one axis.

    Raises:
        ValueError: in the C++ backend's words.
    """
    known = {*TRITON_TYPES.values(), "TYPE_STRING"}
    for entry in entries:
        name = entry["name"]
        if entry["data_type"] not in known:
            raise ValueError(f"unsupported datatype {entry['data_type']} for {role} '{name}' for model '{model}'")
        dims = entry.get("reshape", {}).get("shape", entry["dims"])
        if entry["data_type"] == "TYPE_STRING" and len(dims) + batching > 1:
            raise ValueError(
                f"Triton only supports 1 dimensional List of String as {role} for '{name}' for model '{model}'"
            )


def as_list(answer: object) -> list[Value]:
    """What `forward` gave as a list of tensors and lists of strings."""
    if isinstance(answer, torch.Tensor):
        return [answer]
    if isinstance(answer, list):
        if not all(isinstance(item, str) for item in answer):
            raise ValueError(f"output must be of type Tensor or List[str], received List[{type(answer[0]).__name__}]")
        return [answer]
    if not isinstance(answer, tuple):
        raise ValueError(
            "output must be of type Tensor, List[str] or Tuple containing one of these two types. It should not be a "
            "List / Dictionary of Tensors or a Scalar"
        )
    for position, item in enumerate(answer):
        if isinstance(item, list) and not all(isinstance(part, str) for part in item):
            raise ValueError(f"output at index {position} must be of type Tensor or List[str], received List")
        if not isinstance(item, torch.Tensor | list):
            raise ValueError(f"output at index {position} must be of type Tensor or List[str]")
    return list(answer)


def joined(parts: tuple[Value, ...]) -> Value:
    """Several requests' values of one input as one batch."""
    if isinstance(parts[0], list):
        return [text for part in parts for text in part]
    return torch.cat(parts)


def filled(entry: dict, samples: int, value: int) -> Value:
    """A made-up batch for an input of config.pbtxt; an open axis has length 2."""
    dims = [int(dim) for dim in entry.get("reshape", entry).get("shape" if "reshape" in entry else "dims", [])]
    if entry["data_type"] == "TYPE_STRING":
        return [str(value)] * samples
    kind = next(torch_type for torch_type, name in TRITON_TYPES.items() if name == entry["data_type"])
    return torch.full([samples, *(2 if dim < 0 else dim for dim in dims)], value, dtype=kind)


def to_numpy(result: Value) -> np.ndarray:
    """A result as Triton takes it; strings as bytes."""
    if isinstance(result, list):
        return np.array([text.encode("utf-8") for text in result], dtype=object)
    return result.contiguous().numpy()
