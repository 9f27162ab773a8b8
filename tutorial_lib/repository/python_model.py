"""config.pbtxt of a Python model, from a small spec."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.config import parse_config
from tutorial_lib.repository.config_text import Entry, comment, dynamic_batching, instance_group, quoted, tensors

# Source: "Datatypes" in https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md
TYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64")
TYPES += ("BF16", "STRING")
KEYS = ("name", "inputs", "outputs", "max_batch_size", "instances", "queue_delay_us", "decoupled", "parameters")
TENSOR = re.compile(r"\s*(?P<type>\w+)\s*\[(?P<dims>[^\]]*)\]\s*(?P<optional>optional)?\s*")


def python_model_config(spec: Mapping[str, Any]) -> str:
    """The text of a config.pbtxt for a model of the Python backend.

    Args:
        spec: `inputs` and `outputs` map names to a type and the axes behind the batch, such as
            `{"image": "UINT8 [-1, -1, 3]", "threshold": "FP32 [1] optional"}`. Not required are `name`,
            `max_batch_size` (0), `instances` (1, on the CPU), `queue_delay_us`, `decoupled` (False) and
            `parameters` (a mapping of texts).

    Raises:
        RepositoryError: a key is unknown, a tensor is not understood, or settings contradict each other.
    """
    for key in spec:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            raise RepositoryError(
                f"spec of a Python model: found the key {key!r}, expected {', '.join(KEYS)}.",
                action=f"Did you mean {near[0]!r}?" if near else "",
            )
    size, instances = _number(spec, "max_batch_size", 0), _number(spec, "instances", 1, least=1)
    delay = _number(spec, "queue_delay_us", 0)
    if delay and not size:
        raise RepositoryError(
            "spec of a Python model: found queue_delay_us without max_batch_size, and nothing to wait for.",
            action="Give max_batch_size, or leave queue_delay_us out.",
        )
    name = spec.get("name", "")
    parts = [f"name: {quoted(name)}\n" if name else "", 'backend: "python"\n']
    if size:
        text = f"execute() gets requests of up to {size} samples together; every tensor begins with the batch axis."
    else:
        text = "No batching: every request comes as it was sent, and dims are the whole shape."
    parts += ["\n", comment(text), f"max_batch_size: {size}\n\n"]
    for role in ("input", "output"):
        given = spec.get(f"{role}s")
        if not isinstance(given, Mapping) or not given:
            raise RepositoryError(f"spec of a Python model: found no {role}s, expected a mapping of names to tensors.")
        parts.append(tensors(role, [_tensor(role, key, text) for key, text in given.items()]))
    parts += ["\n", comment("Each instance is a process of its own."), instance_group(instances, "KIND_CPU")]
    if size:
        parts += ["\n", dynamic_batching(delay)]
    if spec.get("decoupled"):
        parts += ["\n", comment("Any number of answers to a request; clients must use gRPC streams.")]
        parts.append("model_transaction_policy { decoupled: true }\n")
    for key, value in (spec.get("parameters") or {}).items():
        parts.append(f"\nparameters {{ key: {quoted(key)} value {{ string_value: {quoted(str(value))} }} }}\n")
    text = "".join(parts)
    parse_config(text, source="the configuration of the Python model")
    return text


def _number(spec: Mapping[str, Any], key: str, default: int, *, least: int = 0) -> int:
    value = spec.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RepositoryError(f"spec of a Python model: found {key} {value!r}, expected a whole number from {least}.")
    return value


def _tensor(role: str, name: str, text: str) -> Entry:
    subject = f"spec of a Python model, {role} {name!r}"
    match = TENSOR.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise RepositoryError(f"{subject}: found {text!r}, expected a type and its axes, such as 'FP32 [3, -1]'.")
    kind = match["type"].upper().removeprefix("TYPE_")
    kind = "STRING" if kind == "BYTES" else kind
    if kind not in TYPES:
        near = difflib.get_close_matches(kind, TYPES, n=1)
        action = f"Did you mean {near[0]}?" if near else ""
        raise RepositoryError(f"{subject}: found the type {match['type']}, expected {', '.join(TYPES)}.", action=action)
    axes = [axis.strip() for axis in match["dims"].split(",") if axis.strip()]
    if not axes or not all(re.fullmatch(r"-1|[1-9]\d*", axis) for axis in axes):
        raise RepositoryError(
            f"{subject}: found the axes [{match['dims']}], expected numbers above zero, or -1 for an open axis.",
            action="For one value write [1].",
        )
    if match["optional"] and role == "output":
        raise RepositoryError(f"{subject}: found optional, which only an input can be.")
    note = "May be left out; execute() then gets None for it." if match["optional"] else ""
    return Entry(name, f"TYPE_{kind}", [int(axis) for axis in axes], optional=bool(match["optional"]), note=note)
