"""The reason Triton gave, in words."""

from __future__ import annotations

import re

from tutorial_lib.server.known_incidents import INCIDENTS
from tutorial_lib.server.known_troubles import KNOWN
from tutorial_lib.server.log import without_stack

UNKNOWN = "this message is not one this workshop knows; it is quoted as it stands."
UNKNOWN_FIX = "Read it, run ./workshop lint on the repository, or search for it in Triton's issues."
FRAME = re.compile(r"^\s+(?P<file>\S+)\((?P<line>\d+)\): (?P<function>\S+)", re.M)
OUTSIDE = ("<frozen", "site-packages", "/lib/python3", "/backends/")
KIND = re.compile(r"^(?:Invalid argument|Internal|Unavailable|Not found|Unsupported|TritonModelException): ")
PLACE = re.compile(r"(?P<file>[^\s:]+\.pbtxt):(?P<at>\d+:\d+): ")


def explain_message(message: str, *, request: bool = False) -> tuple[str, str, str, bool]:
    """Cause, fix, rule and whether it is known, for the reason Triton gave.

    Args:
        message: such as the reason in the repository index.
        request: it came with a request; then nothing is wrong with the warm-up.
    """
    reason = without_stack(KIND.sub("", KIND.sub("", message.strip())))
    for known in (*KNOWN, *INCIDENTS):
        if request and known.rule == "warmup":
            continue
        if words := known.words(reason):
            place = PLACE.match(reason)
            cause = f"{place['file']}:{place['at']}: {words[0]}" if place else words[0]
            return cause + _frame(message), words[1], known.rule, True
    return UNKNOWN + _frame(message), UNKNOWN_FIX, "", False


def _frame(message: str) -> str:
    """Where in the learner's own code: the innermost frame that is not a library's."""
    for match in FRAME.finditer(message):
        if not any(part in match["file"] for part in OUTSIDE):
            return f" At {match['file']} line {match['line']}, in {match['function']}."
    return ""


def first_line(line: str) -> str:
    """A log line without the Python stack that is quoted into it."""
    return without_stack(line.replace("\\n\\nAt:\\n", "\n\nAt:\n")).strip()
