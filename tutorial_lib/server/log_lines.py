"""A Triton log line by line: whatever it was pasted through is taken off, what belongs together is joined."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_LINE = 20_000  # characters kept of one line: a log may hold a line without an end
MAX_JOINED = 4_000  # characters kept of a table cell that is wrapped over many lines
MAX_PARTS = 200  # lines joined into one table row or one stack

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
# docker compose and `docker logs` name the container in front of every line: "triton-1  | "
CONTAINER = re.compile(r"^[\w./-]+\s+\|\s?(?!\s*\d+\s*\|)")
# Triton's own header: "E1130 04:53:37.1 5417 server.cc:241] ", as ISO 8601, or with the time cut off
HEADER = re.compile(
    r"(?:^|(?<=[\s|]))(?:\d{4}-\d\d-\d\dT[\d:.]+Z?\s+)?(?P<level>[EWIF])"
    r"(?:\d{4} \d\d:\d\d:\d\d\.\d+)?\s+(?:\d+\s+)?(?P<where>[\w.-]+\.(?:cc|cu|h|cpp|py):\d+)\]\s?(?P<text>.*)$"
)
PROTOBUF = re.compile(r"\[libprotobuf (?:ERROR|FATAL)[^\]]*\]\s*(?P<text>.*)$")
ROW = re.compile(r"^\s*\|(?P<cells>.*)\|\s*$")
RULE = re.compile(r"^\s*\+[-+]+\+?\s*$")
# time stamps of docker, kubectl, journald and CI in front of a line without a header of Triton's own
TIME = re.compile(
    r"^(?:\[pod/\S+\]\s+)?(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?\s+)?(?:std(?:err|out) (?:F )?)?"
)


@dataclass(frozen=True)
class LogLine:
    """One statement of a log.

    Attributes:
        level: Triton's letter (E, W, I, F), "P" for protobuf, "T" for a row of the model table, "" for the rest.
        text: what it says, unescaped; a model row as "model|version|status".
        line: the line as it stands in the log, without the decoration it was pasted with.
    """

    level: str
    text: str
    line: str


def log_lines(lines: Iterable[str]) -> Iterator[LogLine]:
    """The statements of a log, in order; memory does not grow with the log.

    Args:
        lines: raw lines, with or without their line ends.
    """
    row: list[list[str]] = []
    models = False  # inside the table of models, not that of backends or options
    for line in _with_stacks(plain(raw) for raw in lines):
        cells = _cells(line)
        if cells is None and RULE.match(line):
            continue
        if cells is not None:
            if [cell.strip() for cell in cells[:3]] == ["Model", "Version", "Status"]:
                models = True
            elif models and len(cells) >= 3:
                if cells[0].strip() and row:
                    yield _row(row)
                    row = []
                if len(row) < MAX_PARTS and (row or cells[0].strip()):
                    row.append([cells[0], cells[1], "|".join(cells[2:])])
            continue
        if row:
            yield _row(row)
        row, models = [], False
        if line.strip():
            yield _statement(line)
    if row:
        yield _row(row)


def _with_stacks(lines: Iterable[str]) -> Iterator[str]:
    """Older releases print a message of several lines as it is: its Python stack goes back to its line."""
    held, parts = "", 0
    for line in lines:
        if held and (line.startswith("  ") or line.strip() in ("", "At:")) and parts < MAX_PARTS:
            held, parts = f"{held}\n{line}", parts + 1
            continue
        if held:
            yield held
        match = HEADER.search(line)
        opens = match is not None and match["level"] in "EF" and not match["text"].startswith('"')
        held, parts = (line, 0) if opens else ("", 0)
        if not opens:
            yield line
    if held:
        yield held


def plain(raw: str) -> str:
    """A line without colours, container names, time stamps of the tool it was pasted from, and line end."""
    line = ANSI.sub("", raw[:MAX_LINE]).rstrip("\r\n").replace("\x00", "")
    line = line.rpartition("\r")[2]
    line = CONTAINER.sub("", line, count=1)
    return TIME.sub("", line, count=1) if not HEADER.match(line) else line


def _statement(line: str) -> LogLine:
    first, line_end, stack = line.partition("\n")
    if match := HEADER.search(first):
        text = unescaped(match["text"].strip()) + (line_end + stack).rstrip()
        return LogLine(match["level"], text, first[match.start("level") :].strip())
    if match := PROTOBUF.search(line):
        return LogLine("P", match["text"].strip(), line[match.start() :].strip())
    return LogLine("", unescaped(line.strip()), line.strip())


def unescaped(text: str) -> str:
    """A quoted message as it was before Triton quoted it; the closing quote may be cut off."""
    if not text.startswith('"'):
        return text
    for candidate in (text, text + '"'):
        try:
            found = json.loads(candidate, strict=False)
        except ValueError:
            continue
        return found if isinstance(found, str) else text
    return text.strip('"').replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")


def _cells(line: str) -> list[str] | None:
    match = ROW.match(line)
    return match["cells"].split("|") if match else None


def _row(parts: list[list[str]]) -> LogLine:
    """A row of the model table; a long status is cut at the table's width, a multi-line one at its line ends."""
    model, version = parts[0][0].strip(), parts[0][1].strip()
    status = parts[0][2].strip()
    for part, before in zip(parts[1:], parts, strict=False):
        more = part[2]
        # cut inside a word: the line before is full, and this one goes on at once
        cut = bool(before[2].strip()) and _full(before[2]) and more.strip() and not more.startswith("   ")
        status += (more.strip() if cut else "\n" + more.strip()) if more.strip() or not cut else "\n"
        if len(status) > MAX_JOINED:
            status = status[:MAX_JOINED]
            break
    return LogLine("T", f"{model}|{version}|{status}", f"| {model} | {version} | {' '.join(status.split())} |")


def _full(cell: str) -> bool:
    return len(cell) - len(cell.rstrip()) <= 1
