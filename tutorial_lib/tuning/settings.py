"""Settings to try: changes to a configuration, made in Triton's protobuf and shown as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from google.protobuf import json_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import atomic_write
from tutorial_lib.repository.config import format_config, read_config
from tutorial_lib.repository.layout import CONFIG

Value = bool | int | Sequence[int] | str
THREADS = "intra_op_thread_count"  # the parameter that ONNX Runtime's backend reads
SETTINGS = ("dynamic", "queue_delay_us", "preferred", "max_batch_size", "instances", "threads", "parameters")


def with_settings(config: ModelConfig, **settings: Value | Mapping[str, object]) -> ModelConfig:
    """A copy of a configuration with some settings changed; all others stay.

    Args:
        config: Triton's message; it is not changed.
        **settings: `dynamic` (bool, `dynamic_batching` there or not), `queue_delay_us`, `preferred` (sizes),
            `max_batch_size`, `instances` (one group of so many, of the kind of the first), `threads`
            (ONNX Runtime's `intra_op_thread_count`), `parameters` (name → text or number).

    Raises:
        RepositoryError: there is no such setting, or it cannot have this value.
    """
    changed = ModelConfig()
    changed.CopyFrom(config)
    unknown = settings.keys() - set(SETTINGS)
    if unknown:
        raise RepositoryError(
            f"setting '{min(unknown)}': found no such setting, expected one of {', '.join(SETTINGS)}."
        )
    # off first and on last, so that a delay for no batching is an error and not an accident
    if settings.get("dynamic") is False:
        if settings.get("queue_delay_us") or settings.get("preferred"):
            raise RepositoryError(
                "settings: found dynamic=False with a queue delay or preferred sizes, expected neither.",
                action="Without dynamic batching nothing waits in a batcher: leave them out.",
            )
        changed.ClearField("dynamic_batching")
    elif settings.get("dynamic") or "queue_delay_us" in settings or "preferred" in settings:
        changed.dynamic_batching.SetInParent()
    for name, value in settings.items():
        _set(changed, name, value)
    return changed


def _set(config: ModelConfig, name: str, value: object) -> None:
    if name == "dynamic":
        if not isinstance(value, bool):
            raise _not(name, value, "True or False")
    elif name == "preferred":
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise _not(name, value, "a list of sizes")
        sizes = [_whole(name, size, least=1) for size in value]
        if config.HasField("dynamic_batching"):
            config.dynamic_batching.preferred_batch_size[:] = sizes
    elif name == "queue_delay_us":
        delay_us = _whole(name, value)
        if config.HasField("dynamic_batching"):
            config.dynamic_batching.max_queue_delay_microseconds = delay_us
    elif name == "max_batch_size":
        config.max_batch_size = _whole(name, value)
    elif name == "instances":
        kind = config.instance_group[0].kind if config.instance_group else 0
        count = _whole(name, value, least=1)
        del config.instance_group[:]
        config.instance_group.add(count=count, kind=kind)
    elif name == "threads":
        config.parameters[THREADS].string_value = str(_whole(name, value, least=1))
    else:
        if not isinstance(value, Mapping):
            raise _not(name, value, "a dictionary")
        for key, text in value.items():
            config.parameters[key].string_value = str(text)


def _whole(name: str, value: object, *, least: int = 0) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value.__index__() < 2**31:
        raise _not(name, value, f"a whole number from {least} on")
    return value.__index__()


def _not(name: str, value: object, expected: str) -> RepositoryError:
    return RepositoryError(f"setting '{name}': found {value!r}, expected {expected}.")


def as_json(config: ModelConfig) -> str:
    """A configuration as Triton's load API takes it."""
    return json_format.MessageToJson(config, preserving_proto_field_name=True)


@dataclass(frozen=True)
class ConfigDiff:
    """What differs between two configurations, line by line; coloured in a notebook, + and − elsewhere.

    Attributes:
        lines: each with "+", "-" or " " in front.
    """

    lines: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(line[0] != " " for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines) if self else "(no difference)"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colors = {"+": "#1b7f5f", "-": "#c0392b"}
        shown = "".join(
            f'<div style="color:{colors.get(line[0], "inherit")}">{escape(line)}</div>'
            for line in str(self).split("\n")
        )
        return (
            '<div style="font-family:var(--jp-code-font-family, monospace);font-size:12px;line-height:1.35;'
            f'white-space:pre;border-left:3px solid #76b900;padding:2px 10px">{shown}</div>'
        )


def config_diff(before: ModelConfig, after: ModelConfig, *, context: int = 1) -> ConfigDiff:
    """The difference of two configurations as config.pbtxt would show it.

    Args:
        context: lines to show around each change.
    """
    old, new = (format_config(config).splitlines() for config in (before, after))
    told = difflib.unified_diff(old, new, n=context, lineterm="")
    return ConfigDiff(tuple(line for line in told if not line.startswith(("---", "+++", "@@"))))


def write_config(folder: Path, config: ModelConfig) -> ConfigDiff:
    """Write a model's config.pbtxt, whole or not at all; comments of the old one are gone afterwards.

    Args:
        folder: the model's folder, with its config.pbtxt.
        config: what to write.

    Returns:
        What has changed.

    Raises:
        RepositoryError: the configuration there cannot be read.
    """
    before = read_config(folder)
    with atomic_write(folder / CONFIG) as temporary:
        temporary.write_text(format_config(config), encoding="utf-8")
    return config_diff(before, config)
