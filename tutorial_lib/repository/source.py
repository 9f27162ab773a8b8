"""Where each field of a config.pbtxt stands: protobuf's parser gives values, but not their places.

The scanner knows strings, comments and brackets of protobuf's text format, and nothing of Triton. It never
fails: what it cannot read ends the scan, and what it saw until then keeps its place.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

BOM = "\ufeff"
_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff]+|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<word>-?\s*[\w.]+(?:[+-]\d+)?)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_WHITE = set(" \n\t\r\v\f")
_NUMBER = re.compile(
    r"-?\s*(?:0[0-7]*|[1-9]\d*|0[xX][\da-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fF]?)", re.ASCII
)
_NO_ESCAPE = re.compile(r"""(?<!\\)(?:\\\\)*(\\[^abfnrtv\\?'"0-7xXuU])""")
_PAIRS = {"{": "}", "<": ">", "[": "]"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass
class Place:
    """A field's key and value in the text.

    Attributes:
        key: its name as written.
        start: where the key begins; for a value in a list, where the value does.
        value_start, value_end: the value, brackets included.
        listed: the value is one of several between `[` and `]`.
    """

    key: str
    start: int
    value_start: int
    value_end: int
    listed: bool = False


@dataclass
class Source:
    """The text of a configuration and the places of its fields.

    Attributes:
        places: "input[0].dims[1]" → its place; every field carries its number.
        lists: "input[0].dims" → the list that was written with brackets, whole.
    """

    text: str
    places: dict[str, Place] = field(default_factory=dict)
    lists: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Source:
        source = cls(text)
        _Scanner(source).scan()
        return source

    def place(self, path: str) -> Place | None:
        """The place of a field: "max_batch_size", "input[1].dims" (the whole list) or "input[1].dims[0]"."""
        numbered = ".".join(part if part.endswith("]") else f"{part}[0]" for part in path.split("."))
        head, _, last = path.rpartition(".")
        if not last.endswith("]"):
            parents = numbered.rpartition(".")[0]
            whole = self.lists.get(f"{parents}.{last}" if head else last)
            if whole:
                return whole
        return self.places.get(numbered)

    def line(self, path: str) -> int:
        """The line of a field, or of the nearest field around it; 0 when none is written."""
        while path:
            place = self.place(path)
            if place:
                return self.line_at(place.start)
            path = path.rpartition(".")[0]
        return 0

    def line_at(self, offset: int) -> int:
        return bisect.bisect_right(self._starts, offset)

    def offset(self, line: int, column: int = 1) -> int:
        """The place of a line and column, both from 1."""
        return self._starts[min(line, len(self._starts)) - 1] + column - 1

    def line_text(self, line: int) -> str:
        start = self.offset(line)
        return self.text[start:].partition("\n")[0].rstrip("\r")

    def tokens(self) -> list[Token]:
        """All that is no space and no comment."""
        return list(_tokens(self.text))

    @property
    def _starts(self) -> list[int]:
        if not hasattr(self, "_cached_starts"):
            self._cached_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        return self._cached_starts


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield Token(match.lastgroup or "mark", match[0], match.start())


def foreign(text: str) -> tuple[int, str] | None:
    """The first thing that protobuf's Python parser takes and Triton's does not: where it stands, and what it is.

    Python knows spaces and digits of all scripts, "+8" and "1_000".
    """
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith("#"):
            continue
        if match.lastgroup == "string":
            escape = _NO_ESCAPE.search(token)
            if escape:
                return match.start() + escape.start(1), escape[1]
            continue
        if match.lastgroup == "space":
            place = next((place for place, one in enumerate(token) if one not in _WHITE), -1)
            if place >= 0:
                return match.start() + place, token[place]
        elif (
            not token.isascii()
            or token == "+"
            or (token.lstrip("- \t\r\n")[:1].isdigit() and not _NUMBER.fullmatch(token))
        ):
            return match.start(), token
    return None


class _Scanner:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = list(_tokens(source.text))
        self.here = 0
        self.counts: dict[str, int] = {}

    def peek(self) -> Token | None:
        return self.tokens[self.here] if self.here < len(self.tokens) else None

    def is_mark(self, marks: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == "mark" and token.text in marks

    def scan(self) -> None:
        self.fields("", 0)

    def fields(self, parent: str, depth: int) -> bool:
        """Fields up to the bracket that closes them; False where the text stops making sense."""
        while (token := self.peek()) is not None:
            if self.is_mark("}>") and parent:
                return True
            if self.is_mark(",;"):
                self.here += 1
                continue
            if token.kind not in ("word", "string") or depth > 64 or not self.field(parent, token, depth):
                return False
        return not parent

    def field(self, parent: str, key: Token, depth: int) -> bool:
        self.here += 1
        name = key.text.strip("\"'")
        path = f"{parent}.{name}" if parent else name
        colon = self.is_mark(":")
        self.here += colon
        if self.is_mark("["):
            return self.list(path, key, depth)
        if not colon and not self.is_mark("{<"):
            return False
        return self.value(path, name, key.start, depth, listed=False)

    def list(self, path: str, key: Token, depth: int) -> bool:
        opening, name = self.tokens[self.here], key.text
        self.here += 1
        while not self.is_mark("]"):
            token = self.peek()
            if token is None:
                return False
            if self.is_mark(","):
                self.here += 1
                continue
            if not self.value(path, name, token.start, depth, listed=True):
                return False
        closing = self.tokens[self.here]
        self.here += 1
        self.source.lists.setdefault(path, Place(name, key.start, opening.start, closing.end, True))
        return True

    def value(self, path: str, name: str, start: int, depth: int, *, listed: bool) -> bool:
        token = self.peek()
        if token is None:
            return False
        number = self.counts.get(path, 0)
        self.counts[path] = number + 1
        place = Place(name, start, token.start, token.end, listed)
        self.source.places[f"{path}[{number}]"] = place
        self.here += 1
        if token.kind == "mark":
            if token.text not in "{<":
                return False
            if not self.fields(f"{path}[{number}]", depth + 1) or not self.is_mark(_PAIRS[token.text]):
                return False
            place.value_end = self.tokens[self.here].end
            self.here += 1
            return True
        while token.kind == "string" and (more := self.peek()) is not None and more.kind == "string":
            place.value_end = more.end  # strings that follow each other are one
            self.here += 1
        return True
