"""From protobuf's parse error to its cause: the rule, the place and, where it is certain, the edit."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf import json_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.repository.config import format_config
from tutorial_lib.repository.findings import Edit
from tutorial_lib.repository.parsed import ParseError
from tutorial_lib.repository.proto_fields import (
    SYNONYMS,
    field_before,
    homes,
    may_hold,
    message_around,
    message_name,
    right_name,
    written_around,
)
from tutorial_lib.repository.registry import Problem
from tutorial_lib.repository.source import Token
from tutorial_lib.repository.view import ModelView

_TWICE = re.compile(r'should not have multiple "([\w.]+)" (?:fields|extensions)|multiple times')
_ONEOF = re.compile(r'Field "[\w.]*?(\w+)" is specified along with field "[\w.]*?(\w+)", another member of oneof')
_NO_FIELD = re.compile(r'has no field named "([^"]+)"|no field named "([^"]+)"')
_ENUM = re.compile(r'Enum type "[\w.]*?(\w+)" has no value (?:named|with number) "?([^".\s]+)')


# bounded, since a text may begin a million of them and end none
_PLACEHOLDER = re.compile(r"(?<!\$)\$\{[^}\n]{0,200}\}|\{\{[^}\n]{0,200}\}\}|\{%[^\n]{0,200}?%\}|<%[^\n]{0,200}?%>")


@dataclass(frozen=True)
class Diagnosis:
    rule: str
    problem: Problem


def diagnose(model: ModelView) -> Diagnosis | None:
    """The first thing that makes a configuration unreadable; None when it can be read, or has a rule of its own.

    Placeholders and byte order marks are found by rules that look at the text.
    """
    if "_diagnosis" not in model.__dict__:
        model.__dict__["_diagnosis"] = _diagnose(model)
    return model.__dict__["_diagnosis"]


def _diagnose(model: ModelView) -> Diagnosis | None:
    error = model.parse_error
    if error is None or (model.config_bytes or b"").startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    text = model.text
    head = text.lstrip("\ufeff \t\r\n")[:2]
    if head.startswith("{") and head not in ("{%", "{{"):  # these begin a template
        return _whole_json(text)
    tokens = model.source.tokens()
    offset = model.source.offset(error.line, error.column or 1) if error.line else 0
    near = next((number for number, token in enumerate(tokens) if token.end > offset), len(tokens) - 1)
    token = tokens[near] if tokens else Token("mark", "", 0)
    before = tokens[near - 1] if near > 0 else None
    if _at_placeholder(tokens, near) and next(placeholders(text), None):
        return None
    line = model.source.line_at(token.start)
    if error.foreign:
        return _foreign(error, offset)
    if "codec can't decode" in error.message:
        fix, note = "Write text in UTF-8.", "Triton takes it, and cannot pass it on."
        problem = Problem(
            f"line {line}", "a text of bytes that are not UTF-8", "UTF-8", fix, at=line, severity="warning", note=note
        )
        return Diagnosis("text-encoding", problem)
    if match := _ONEOF.search(error.message):
        return _two_schedulers(match[1], match[2], line)
    if _TWICE.search(error.message):
        return _twice(error.message, line, token)
    if match := _NO_FIELD.search(error.message):
        return _unknown(model, match[1] or match[2], tokens, near, line)
    if _enum_expected(model, error.message, token) and (found := _enum(model, error.message, token, line)):
        return found
    if token.text.startswith("-") and before and before.text == ":" and not re.fullmatch(r"-\s*[\d.]+", token.text):
        return _yaml(line)
    if before and _lacks_comma(tokens, near):
        last = model.source.line_at(before.end - 1)
        column = before.end - model.source.offset(last) + 1
        return Diagnosis(
            "missing-comma",
            Problem(
                f"line {line}",
                f"{_short(before.text)} {_short(token.text)}",
                f"{_short(before.text)}, {_short(token.text)}",
                f"Add a comma after {_short(before.text)} at column {column} of line {last}.",
                at=line,
                edits=(Edit(before.end, before.end, ","),),
            ),
        )
    where = f"line {error.line}, column {error.column}" if error.line else "config.pbtxt"
    return Diagnosis(
        "syntax",
        Problem(
            where,
            _sentence(error.message),
            "protobuf text such as field: value or field { … }",
            _balance(tokens) or "Look for a missing bracket, colon or quote at or before this place.",
            at=error.line,
        ),
    )


def _at_placeholder(tokens: list[Token], near: int) -> bool:
    """The parser stopped at `${…}`, `{{ … }}` or `{% … %}`."""
    around = "".join(token.text for token in tokens[max(0, near - 2) : near + 3])
    return any(mark in around for mark in ("${", "{{", "{%", "<%"))


def placeholders(text: str) -> Iterator[re.Match[str]]:
    """All of them outside comments."""
    return _PLACEHOLDER.finditer(_without_comments(text))


def _without_comments(text: str) -> str:
    """The text with comments blanked, every character in its place."""
    return re.sub(
        r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*""",
        lambda match: match[1] or " " * len(match[0]),
        text,
    )


def _whole_json(text: str) -> Diagnosis:
    """JSON, perhaps the answer of /v2/models/NAME/config."""
    fix = "Write it as protobuf text: field: value, without the outer braces and the quotes around names."
    try:
        converted = format_config(json_format.ParseDict(json.loads(text), ModelConfig(), ignore_unknown_fields=True))
        fix = "Replace the file by:\n" + converted.rstrip()
    except (ValueError, json_format.ParseError, RecursionError):
        pass
    return Diagnosis("json-config", Problem("config.pbtxt", "JSON", "protobuf text", fix, at=1))


def _foreign(error: ParseError, offset: int) -> Diagnosis:
    """Spaces of other scripts, as pages and word processors have them, and numbers as Python writes them."""
    where, found = f"line {error.line}, column {error.column}", error.foreign
    if found.isspace():
        name, edits = unicodedata.name(found, f"U+{ord(found):04X}").lower(), (Edit(offset, offset + 1, " "),)
        problem = Problem(where, f"a {name}", "a plain space", "Write a plain space.", at=error.line, edits=edits)
        return Diagnosis("text-encoding", problem)
    if not found.isascii():
        fix = "Write it in ASCII, or put quotes around it."
        return Diagnosis("text-encoding", Problem(where, _short(found), "ASCII outside quotes", fix, at=error.line))
    if found.startswith("\\"):
        fix = "Write two backslashes for one."
        return Diagnosis("syntax", Problem(where, found, "an escape that protobuf knows", fix, at=error.line))
    fix = "Write the digits alone."
    return Diagnosis("syntax", Problem(where, _short(found), "a number such as 8, 0x8 or 0.5", fix, at=error.line))


def _yaml(line: int) -> Diagnosis:
    fix = "Write a list as name [ { … }, { … } ]."
    return Diagnosis(
        "json-config", Problem(f"line {line}", "a list with dashes, as in YAML", "[ ] or { }", fix, at=line)
    )


def _two_schedulers(second: str, first: str, line: int) -> Diagnosis:
    names = f"{first} and {second}"
    if "ensemble_scheduling" in (first, second):
        other = first if second == "ensemble_scheduling" else second
        fix = f"Delete {other} here, and write it into the configuration of the step that should have it."
        return Diagnosis("ensemble-scheduling", Problem("", names, "ensemble_scheduling alone", fix, at=line))
    fix = f"Keep one of {first} and {second}."
    return Diagnosis("batching-contradiction", Problem("", names, "one scheduler", fix, at=line))


def _twice(message: str, line: int, token: Token) -> Diagnosis:
    match = _TWICE.search(message)
    name = (match[1] if match else None) or token.text
    problem = Problem(f"field '{name}'", "it is written twice", "once", f"Delete one of the two {name} lines.", at=line)
    return Diagnosis("field-twice", problem)


def _unknown(model: ModelView, name: str, tokens: list[Token], near: int, line: int) -> Diagnosis:
    """A field that its message lacks; the nearest name, or where the field belongs."""
    # the parser may stand behind the name already
    place = next((n for n in range(near, max(-1, near - 4), -1) if tokens[n].text == name), near)
    token = tokens[place]
    descriptor = message_around(tokens, place)
    known = [field.name for field in descriptor.fields if may_hold(field, tokens, place)]
    known = known or [field.name for field in descriptor.fields]
    close = difflib.get_close_matches(SYNONYMS.get(name, name), known, n=2, cutoff=0.7)
    places = sorted(homes(name))
    line = model.source.line_at(token.start)
    if close:
        certain = len(close) == 1 and name not in SYNONYMS and close[0] not in written_around(tokens, place)
        edits = (Edit(token.start, token.end, close[0]),) if certain else ()
        fix, expected = f"Write {close[0]} in place of {name}.", f"{close[0]}, perhaps"
    elif places:
        edits, expected = (), f"it inside {' or '.join(places)}"
        fix = f"Move {name} into {places[0]}: here it stands in {message_name(descriptor)}."
    else:
        edits, expected = (), f"one of {', '.join(known[:12])}"
        fix = f"Delete {name}, or write one of the fields of {message_name(descriptor)}."
    problem = Problem(f"field '{name}'", f"no field of {message_name(descriptor)}", expected, fix, at=line, edits=edits)
    return Diagnosis("unknown-field", problem)


def _enum_expected(model: ModelView, message: str, token: Token) -> bool:
    return bool(_ENUM.search(message)) or (
        token.kind == "string" and ("identifier" in message.lower() or "enum" in message.lower())
    )


def _enum(model: ModelView, message: str, token: Token, line: int) -> Diagnosis | None:
    """A value that its enum lacks, or one in quotes; None when no enum belongs there."""
    tokens = model.source.tokens()
    place = tokens.index(token)
    value = token.text.strip("\"'")
    if token.kind != "string" and (match := _ENUM.search(message)):
        value = match[2]
        place = next((n for n in range(place, max(-1, place - 3), -1) if tokens[n].text == value), place)
        token = tokens[place]
    field = field_before(tokens, place)
    if field is None or not field.enum_type:
        return None
    names = list(field.enum_type.values_by_name)
    right, certain = right_name(value, names)
    quoted = token.kind == "string"
    kind = "json-config" if quoted else "type-alias"
    found = f"{field.name}: {token.text}"
    if right:
        fix = f"Write {right} in place of {token.text}."
        edits = (Edit(token.start, token.end, right),) if certain else ()
    else:
        fix, edits = f"Write one of {', '.join(names)}.", ()
    expected = f"{right}{', without quotes' if quoted else ''}" if right else f"one of {', '.join(names)}"
    return Diagnosis(
        kind, Problem(f"line {line}", found, expected, fix, at=model.source.line_at(token.start), edits=edits)
    )


def _lacks_comma(tokens: list[Token], near: int) -> bool:
    """Two values inside [ ] follow each other."""
    before, token = tokens[near - 1], tokens[near]
    if before.text in ("[", ",", ":", "{") or token.text in ("]", ",", ":"):
        return False
    depth = 0
    for number in range(near - 1, -1, -1):
        text = tokens[number].text
        depth += (text in "}]") - (text in "{[") if text in "{}[]" else 0
        if depth < 0:
            return text == "[" and (before.text == "}") == (token.text == "{")
    return False


def _balance(tokens: list[Token]) -> str:
    """Which bracket is never closed, or never opened."""
    pairs, open_marks = {"}": "{", "]": "["}, []
    for token in tokens:
        if token.text in "{[" and token.kind == "mark":
            open_marks.append(token.text)
            continue
        closes = token.kind == "mark" and token.text in pairs
        if closes and (not open_marks or open_marks.pop() != pairs[token.text]):
            return f"A {token.text} too many, or the wrong one: check the brackets at or before this place."
    return f"Close the bracket {open_marks[-1]} that is still open at the end." if open_marks else ""


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"


def _sentence(message: str) -> str:
    return f"what protobuf says: {message if len(message) <= 300 else f'{message[:299]}…'}"
