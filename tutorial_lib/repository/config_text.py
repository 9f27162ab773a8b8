"""Writing config.pbtxt by hand: blocks, strings and comments that cannot break out of their place."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf import text_encoding

WIDTH = 110


@dataclass(frozen=True)
class Entry:
    """One tensor of a configuration.

    Attributes:
        data_type: such as "TYPE_FP32".
        dims: what clients send or get, without the batch.
        reshape: the model's own axes behind the batch, where they differ from `dims`.
        label_filename: names of the classes.
        optional: a client may leave this input out.
        note: a comment above the entry.
    """

    name: str
    data_type: str
    dims: Sequence[int]
    reshape: Sequence[int] | None = None
    label_filename: str = ""
    optional: bool = False
    note: str = ""


def quoted(text: str) -> str:
    """A string in protobuf's text form."""
    return f'"{text_encoding.CEscape(text.encode("utf-8"), as_utf8=True)}"'


def comment(text: str, indent: int = 0) -> str:
    """Text as comment lines; a line end inside it (in a hostile name) becomes a space."""
    margin = " " * indent + "# "
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    lines = textwrap.wrap(plain, WIDTH - len(margin), break_long_words=False, break_on_hyphens=False)
    return "".join(f"{margin}{line}\n" for line in lines)


def shape_text(dims: Iterable[int]) -> str:
    """Dims as config.pbtxt has them: `[ 3, 32, 32 ]`."""
    inner = ", ".join(str(size) for size in dims)
    return f"[ {inner} ]" if inner else "[ ]"


def tensors(role: str, entries: Sequence[Entry]) -> str:
    """The `input [ … ]` or `output [ … ]` block; nothing when there are no entries."""
    if not entries:
        return ""
    return f"{role} [\n" + ",\n".join(_entry(entry) for entry in entries) + "\n]\n"


def _entry(entry: Entry) -> str:
    lines = [f"name: {quoted(entry.name)}", f"data_type: {entry.data_type}", f"dims: {shape_text(entry.dims)}"]
    if entry.reshape is not None:
        lines.append(f"reshape {{ shape: {shape_text(entry.reshape)} }}")
    if entry.label_filename:
        lines.append(f"label_filename: {quoted(entry.label_filename)}")
    if entry.optional:
        lines.append("optional: true")
    body = "".join(f"    {line}\n" for line in lines)
    return f"{comment(entry.note, 2)}  {{\n{body}  }}"


def instance_group(count: int, kind: str = "KIND_AUTO") -> str:
    return f"instance_group [\n  {{\n    count: {count}\n    kind: {kind}\n  }}\n]\n"


def dynamic_batching(queue_delay_us: int | None) -> str:
    if not queue_delay_us:
        return "dynamic_batching { }\n"
    return f"dynamic_batching {{\n  max_queue_delay_microseconds: {queue_delay_us}\n}}\n"
