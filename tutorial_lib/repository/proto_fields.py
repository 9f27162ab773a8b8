"""The fields and enums of Triton's configuration, as protobuf describes them, and where a token stands among them."""

from __future__ import annotations

import difflib
import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.repository.source import Token

# names that people carry over from numpy, torch, ONNX and Triton's protocol
ALIASES = {
    "FLOAT": "FP32", "FLOAT32": "FP32", "FLOAT16": "FP16", "HALF": "FP16", "FLOAT64": "FP64", "DOUBLE": "FP64",
    "LONG": "INT64", "BYTES": "STRING", "STR": "STRING", "BOOLEAN": "BOOL", "BFLOAT16": "BF16",
}  # fmt: skip
# names of fields that people carry over from there
SYNONYMS = {"shape": "dims", "type": "data_type", "dtype": "data_type", "labels": "label_filename"}
_PREFIXES = ("TYPE_", "KIND_", "FORMAT_")
_MESSAGES = ModelConfig.DESCRIPTOR.file.message_types_by_name.values()
# fields that may stand in one block several times
_LISTS = {field.name for message in _MESSAGES for field in message.fields if field.is_repeated}


def written_around(tokens: list[Token], place: int) -> set[str]:
    """Names used between the brackets around a place, where a repair must not write one a second time."""
    names, depth = set(), 0
    for step in (-1, 1):
        number, depth = place + step, 0
        while 0 <= number < len(tokens) and depth >= 0:
            text = tokens[number].text
            opens, closes = ("{[<", "}]>") if step > 0 else ("}]>", "{[<")
            depth += (text in opens) - (text in closes)
            if depth == 0 and tokens[number].kind == "word" and tokens[number].text not in _LISTS:
                names.add(text)
            number += step
    return names


def path_around(tokens: list[Token], place: int) -> list[str]:
    """The names of the fields whose brackets are open at a token."""
    path: list[str] = []
    name = ""
    for token in tokens[:place]:
        if token.text in ("{", "<"):
            path.append(name)
        elif token.text in ("}", ">") and path:
            name = path.pop()
        elif token.kind == "word":
            name = token.text
        elif token.text == "]" and not path:
            name = ""
    return path


def message_around(tokens: list[Token], place: int) -> Descriptor:
    descriptor = ModelConfig.DESCRIPTOR
    for name in path_around(tokens, place):
        field = descriptor.fields_by_name.get(name)
        if field is None or field.message_type is None:
            break
        descriptor = field.message_type
    return descriptor


def may_hold(field: FieldDescriptor, tokens: list[Token], place: int) -> bool:
    """Whether the value that stands behind a name is of a field's kind: a block, a text, a number or a word."""
    after = [token for token in tokens[place + 1 : place + 4] if token.text not in (":", "[")]
    value = after[0] if after else None
    if value is None or value.text in ("]", ","):
        return True
    if value.text in ("{", "<") or field.message_type is not None:
        return value.text in ("{", "<") and field.message_type is not None
    if value.kind == "string":
        return field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES) or field.enum_type is not None
    number = re.fullmatch(r"-?\s*[\d.]\S*", value.text) is not None
    words = field.enum_type is not None or field.type == FieldDescriptor.TYPE_BOOL
    return field.type != FieldDescriptor.TYPE_STRING and (not number if words else number)


def homes(name: str) -> set[str]:
    """The fields in whose message a name would be right."""
    found, waiting, seen = set(), [("", ModelConfig.DESCRIPTOR)], set()
    while waiting:
        path, descriptor = waiting.pop()
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            if field.name == name:
                found.add(path or "the top level")
            if field.message_type is not None:
                waiting.append((field.name, field.message_type))
    return found


def message_name(descriptor: Descriptor) -> str:
    return descriptor.full_name.removeprefix("inference.")


def field_before(tokens: list[Token], place: int) -> FieldDescriptor | None:
    """The field that a value belongs to."""
    number = place - 1
    while number >= 0 and tokens[number].text in (":", "[", ","):
        number -= 1
    while number >= 0 and tokens[number].kind == "string":  # earlier values of a list
        number -= 1
    return message_around(tokens, number).fields_by_name.get(tokens[number].text) if number >= 0 else None


def right_name(value: str, names: list[str]) -> tuple[str, bool]:
    """The enum's own name for what was meant ("" when there is no guess), and whether that is certain."""
    prefix = next((one for one in _PREFIXES if names and all(name.startswith(one) for name in names)), "")
    bare = value.upper().removeprefix(prefix)
    bare = ALIASES.get(bare, bare) if prefix == "TYPE_" else bare
    if f"{prefix}{bare}" in names:
        return f"{prefix}{bare}", True
    close = difflib.get_close_matches(f"{prefix}{bare}", names, n=2, cutoff=0.85)
    return (close[0] if len(close) == 1 else ""), False


def name_of(enum: EnumTypeWrapper, number: int) -> str:
    """The name of an enum's value; the number itself, which protobuf's text allows, when it has none."""
    return enum.Name(number) if number in enum.values() else str(number)
