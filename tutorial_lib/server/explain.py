"""From a Triton log to what went wrong: per model the guilty line, in words, with the fix."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tutorial_lib.errors import ServerError
from tutorial_lib.server.explanation import Explanation
from tutorial_lib.server.known_incidents import INCIDENTS
from tutorial_lib.server.log import NOISE
from tutorial_lib.server.log_lines import MAX_LINE, LogLine, log_lines
from tutorial_lib.server.reasons import UNKNOWN, UNKNOWN_FIX, explain_message, first_line

MAX_MODELS = 10_000
MAX_UNKNOWN = 20
MAX_MESSAGES = 6  # kept for one model: Triton says most things twice
SILENT = "the log says that it was not loaded, but not why; the decisive line may be cut off."

REFUSED = (
    re.compile(r"load '(?P<model>[^']+)' version \d+: (?P<why>.+)", re.S),
    re.compile(r"Poll failed for model directory '(?P<model>[^']+)': (?P<why>.+)", re.S),
    re.compile(r"failed to load model '(?P<model>[^']+)': (?P<why>.+)", re.S),
    re.compile(r"(?P<why>in ensemble (?P<model>[^ ,]+), .+)", re.S),
    re.compile(r"(?P<why>ensemble (?P<model>\S+) (?:contains models|allows maximum).+)", re.S),
    re.compile(r"(?P<why>circular dependency between ensembles: (?P<model>\S+).*)", re.S),
    re.compile(r"(?P<why>ensemble '(?P<model>[^']+)' depends on '[^']+' whose required version.*)", re.S),
    re.compile(r"(?P<why>version -?\d+ is specified for model '(?P<model>[^']+)', but the version directory.*)", re.S),
)
DEPENDS = re.compile(
    r"ensemble '(?P<model>[^']+)' depends on '(?P<root>[^']+)' which has no loaded version"
    r"(?:\. Model '[^']+' loading failed with error: (?:version \d+ is at UNAVAILABLE state: )?(?P<why>.+))?",
    re.S,
)
REQUEST = re.compile(
    r"Failed to process the request\(s\) for model (?:instance )?'(?P<model>[^']+)', message: (?P<why>.+)", re.S
)
NO_FILE = re.compile(r"(?P<why>Python model file not found in '(?P<path>[^']+)')")
INSTANCE = "ERROR: Failed to create instance: "
LOADED = re.compile(r"^successfully loaded '(?P<model>[^']+)'")
LOADING = re.compile(r"^loading: (?P<model>.+):\d+$")
GAVE_UP = re.compile(r"^failed to load '(?P<model>[^']+)'$")
CONSEQUENCES = re.compile(r"failed to load all models")
STOPPED = re.compile(r"Signal \((?P<n>2|15)\) received")  # Ctrl-C, or a polite kill: Triton then unloads its models
UNFINISHED = "Exit timeout expired"
VERSION_MISSING = "but the version directory is not present"
LOUD = re.compile(
    r"^(?:error|Error|ERROR)\b|^docker: |^terminate called|Signal \(\d+\) received|Segmentation fault|"
    r"\bImportError\b|error while loading|symbol lookup error|unrecognized option|No space left|Bus error|"
    r"exec format error|^Killed\b|NVIDIA Driver Release|could not select device driver|[Pp]ermission denied"
)
QUIET = (*NOISE, "unable to create stream for ", "NVIDIA Driver was not detected", "DCGM unable")


def explain_log(text: str) -> list[Explanation]:
    """Explain a log, or any piece of one.

    Args:
        text: of any tier, also pasted from `docker logs` with prefixes, colours and cut lines.

    Returns:
        One explanation per model that failed (several when different requests failed differently) and per failure
        of the server, in the log's order; empty when nothing failed.
    """
    return explain_lines(io.StringIO(text))


def explain_file(path: Path | str) -> list[Explanation]:
    """Explain a log file of any size; only what failed is kept in memory.

    Raises:
        ServerError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as log:
            return explain_lines(iter(lambda: log.readline(MAX_LINE), ""))
    except OSError as error:
        raise ServerError(f"log {os.fspath(path)}: {error.strerror or error}.", action="Name a Triton log.") from error


def explain_lines(lines: Iterable[str]) -> list[Explanation]:
    """Explain a log given line by line."""
    reader = _Reader()
    for line in log_lines(lines):
        reader.read(line)
    return reader.explanations()


@dataclass
class _Failure:
    """What the log says about one model's refusal: (message, guilty line) each, in order."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    consequences: list[str] = field(default_factory=list)


class _Reader:
    """Takes a log's statements one by one and keeps what failed."""

    def __init__(self) -> None:
        self.failures: dict[str, _Failure] = {}
        self.ready: set[str] = set()
        self.seen: set[str] = set()
        self.parse_errors: list[list[LogLine]] = [[]]  # those before the first unreadable file, the second, …
        self.unreadable: list[tuple[str, int]] = []  # model, and which of its messages
        self.odd_letter = False
        self.requests: dict[tuple[str, str], list] = {}
        self.incidents: dict[str, Explanation] = {}
        self.instances: dict[str, str] = {}
        self.silent: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self.more_unknown = 0
        self.stopped: Explanation | None = None

    def read(self, line: LogLine) -> None:
        text = line.text
        if line.level in ("I", "W"):
            self._progress(line)
        elif line.level == "T":
            self._row(line)
        elif line.level == "P":
            if "non ascii codepoint" in text:  # said first; the line that makes protobuf stop comes next
                self.odd_letter = True
            elif len(self.parse_errors) + len(self.parse_errors[-1]) < MAX_MODELS:
                odd, self.odd_letter = self.odd_letter, False
                self.parse_errors[-1].append(replace(line, text=f"{text} (non ascii codepoint)") if odd else line)
        elif not any(noise in text for noise in QUIET) and not CONSEQUENCES.search(text):
            self._error(line)

    def _progress(self, line: LogLine) -> None:
        if match := NO_FILE.search(line.text):  # Triton has no more to say, and waits for ever
            self._refuse(Path(match["path"]).parts[-3:][0], match["why"], line.line)
        elif match := LOADED.match(line.text):
            self._add(self.ready, match["model"])
            failure = self.failures.get(match["model"])
            if failure:  # mended since; what stays true is that some versions are missing
                failure.messages = [entry for entry in failure.messages if VERSION_MISSING in entry[0]]
            self.silent.pop(match["model"], None)
        elif match := LOADING.match(line.text):
            self._add(self.seen, match["model"])
        elif match := GAVE_UP.match(line.text):
            self.ready.discard(match["model"])
            if len(self.silent) < MAX_MODELS:
                self.silent.setdefault(match["model"], line.line)

    def _row(self, line: LogLine) -> None:
        model, _, rest = line.text.partition("|")
        status = rest.partition("|")[2]
        if status.startswith("READY"):
            self._add(self.ready, model)
        elif status.startswith("UNAVAILABLE: "):
            self._refuse(model, status.partition(": ")[2], line.line)
        elif status.startswith("Not loaded: "):
            self.silent.setdefault(model, line.line)

    def _error(self, line: LogLine) -> None:
        text = line.text
        if match := STOPPED.search(text):
            cause = f"it was stopped (signal {match['n']}): this is no failure."
            self.stopped = Explanation("", cause, line.line, "Nothing, if somebody meant to.", severity="warning")
        elif self.stopped and UNFINISHED in text:
            cause = self.stopped.cause.replace(":", ", and its exit timeout ended before all models were unloaded:")
            self.stopped = replace(self.stopped, cause=cause, line=f"{self.stopped.line}\n{line.line}")
        elif match := DEPENDS.search(text):
            self._refuse(match["root"], match["why"] or "", line.line)
            consequences = self.failures[match["root"]].consequences if match["root"] in self.failures else []
            if match["model"] not in consequences and len(consequences) < MAX_MODELS:
                consequences.append(match["model"])
        elif match := REQUEST.search(text):
            self._request(match["model"], match["why"], line.line)
        elif INSTANCE in text:
            if len(self.instances) < MAX_MODELS:
                self.instances.setdefault(text.partition(INSTANCE)[2], line.line)
        elif match := next(filter(None, (pattern.search(text) for pattern in REFUSED)), None):
            kept = self._refuse(match["model"], match["why"], line.line)
            if kept and "failed to read text proto" in match["why"]:
                self.unreadable.append((match["model"], len(self.failures[match["model"]].messages) - 1))
                self.parse_errors.append([])
        elif line.level in ("E", "F") or LOUD.search(text):
            self._incident(line)

    def _refuse(self, model: str, why: str, line: str) -> bool:
        """Keep a message; False when there are too many."""
        if model not in self.failures and len(self.failures) >= MAX_MODELS:
            return False
        messages = self.failures.setdefault(model, _Failure()).messages
        if why and len(messages) < MAX_MESSAGES:
            messages.append((why, line))
            return True
        return False

    def _place_parse_errors(self) -> list[LogLine]:
        """Give each unreadable file protobuf's line about it; what is left over has none.

        protobuf's lines stand before the one with the file's name, sometimes two. Where standard error and
        output were sorted apart, they go to the files in order.
        """
        *groups, rest = self.parse_errors
        if not all(groups):
            groups, rest = [[line] for group in self.parse_errors for line in group], []
        found = [group[0] for group in groups]
        for (model, number), parse_error in zip(self.unreadable, found, strict=False):
            messages = self.failures[model].messages
            if number < len(messages) and "failed to read text proto" in messages[number][0]:
                why, line = messages[number]
                path = why.rpartition(" from ")[2].strip('"')
                why = f"{os.path.basename(path)}:{parse_error.text.rpartition('ModelConfig: ')[2]}"
                messages[number] = (why, f"{parse_error.line}\n{line}")
        return [*found[len(self.unreadable) :], *rest]

    def _request(self, instance: str, why: str, line: str) -> None:
        model = re.sub(r"_\d+$", "", instance)
        shorter = re.sub(r"_\d+$", "", model)
        model = shorter if shorter in self.seen | self.ready and model not in self.seen | self.ready else model
        key = (model, re.split(r"\n| / ", why, maxsplit=1)[0].strip()[:200])
        if key in self.requests:
            self.requests[key][2] += 1
        elif len(self.requests) < MAX_MODELS:
            self.requests[key] = [why, line, 1]

    def _incident(self, line: LogLine) -> None:
        for known in INCIDENTS:
            if words := known.words(line.text):
                if len(self.incidents) < MAX_MODELS:
                    item = Explanation("", words[0], first_line(line.line), words[1], known.rule)
                    self.incidents.setdefault(words[0], item)
                return
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.setdefault(line.text, line.line)
        elif line.text not in self.unknown:
            self.more_unknown += 1

    def explanations(self) -> list[Explanation]:
        found: list[Explanation] = []
        nameless = self._place_parse_errors()
        for model, failure in self.failures.items():
            if failure.messages or failure.consequences:
                found.append(self._explained(model, failure))
        explained = {item.model for item in found}
        found += [
            Explanation(model, SILENT, line, UNKNOWN_FIX, known=False)
            for model, line in self.silent.items()
            if model not in explained
        ]
        for line in nameless:  # the line that names the file is cut off
            cause, fix, rule, known = explain_message(line.text)
            found.append(Explanation("", f"a config.pbtxt: {cause}", line.line, fix, rule, known))
        if not self.failures:
            for why, line in self.instances.items():
                cause, fix, rule, known = explain_message(why)
                found.append(Explanation("", cause, line, fix, rule, known))
        for (model, _), (why, line, count) in self.requests.items():
            cause, fix, rule, known = explain_message(why, request=True)
            found.append(Explanation(model, cause, first_line(line), fix, rule, known, count=count))
        causes = {item.cause for item in found}  # what a library said about a model is no second failure
        found += [item for item in self.incidents.values() if item.cause not in causes]
        found += [
            Explanation("", UNKNOWN, first_line(line), UNKNOWN_FIX, known=False) for line in self.unknown.values()
        ]
        if self.more_unknown:
            text = f"{self.more_unknown:,} more unknown error lines are not shown."
            found.append(Explanation("", text, "", UNKNOWN_FIX, known=False))
        return [*found, self.stopped] if self.stopped else found

    def _explained(self, model: str, failure: _Failure) -> Explanation:
        # the first message that is known; what is said last is often only that nothing was left to load
        choices = [(explain_message(why), line) for why, line in failure.messages]
        (cause, fix, rule, known), line = next(
            (choice for choice in choices if choice[0][3]),
            choices[0] if choices else ((SILENT, UNKNOWN_FIX, "", False), ""),
        )
        partly = model in self.ready and any(VERSION_MISSING in why for why, _ in failure.messages)
        return Explanation(
            model=model,
            cause=f"{cause} Its other versions are served." if partly else cause,
            line="\n".join(map(first_line, line.splitlines())),
            fix=fix,
            rule=rule,
            known=known,
            severity="warning" if partly else "error",
            consequences=tuple(failure.consequences),
        )

    def _add(self, names: set[str], name: str) -> None:
        if len(names) < MAX_MODELS:
            names.add(name)
