"""What a server panel shows, read from a server at one moment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tutorial_lib.errors import ServerError
from tutorial_lib.repository.layout import models_of
from tutorial_lib.server import Server
from tutorial_lib.server.log import is_noise

TAIL_BYTES = 64 * 1024  # of the log's end are read: a verbose log grows without limit
LINE_LIMIT = 240  # characters shown of a log line
READY = "READY"
_EMPTY = re.compile(r"\s*$|\||\+-|[IWE]\d{4} [^\]]*\]\s*$")  # nothing, a table's line, a table's heading


@dataclass(frozen=True)
class ModelState:
    """One model of a server's repository, over all its versions.

    Attributes:
        name: its folder's name.
        versions: loaded versions, "1, 3"; "" when none is.
        state: Triton's word (READY, LOADING, UNLOADING, UNAVAILABLE), or "not loaded".
        reason: Triton's reason, when it gives one.
    """

    name: str
    versions: str
    state: str
    reason: str

    @property
    def ready(self) -> bool:
        return self.state == READY

    @property
    def unloaded(self) -> bool:
        """Whether it is away because somebody unloaded it, which is no fault."""
        return self.state == "UNAVAILABLE" and self.reason == "unloaded"


@dataclass(frozen=True)
class ServerState:
    """A server at one moment.

    Attributes:
        title: "Triton 2.51.0 embedded · CPU ×2 — 127.0.0.1:PORT", or that there is none.
        running: whether it answers.
        models: as the repository index has them, by name.
        log: the last lines of its log.
        problem: why it cannot be asked, or how it ended; "".
    """

    title: str
    running: bool
    models: tuple[ModelState, ...] = ()
    log: tuple[str, ...] = field(default=(), repr=False)
    problem: str = ""


def read_state(server: Server | None, *, log_lines: int) -> ServerState:
    """Look at a server; never raises for what a server can do.

    Args:
        server: the server, or None when none has been started.
        log_lines: how many of the log's last lines to keep.
    """
    if server is None:
        return ServerState("No server", running=False)
    log = tail(server.log_path, log_lines) if server.log_path else ()
    if server.control.closed:
        return ServerState(f"{server.label} — stopped", running=False, log=log)
    if not server.running:
        return ServerState(f"{server.label} — gone", running=False, log=log, problem=_how_it_ended(server))
    title = f"{server.label} — {server.http_address}"
    try:
        models = models_of_index(server.control.index(), folders=_folders(server))
        return ServerState(title, running=True, models=models, log=log)
    except ServerError as error:  # it hangs, or it is going down at this moment
        return ServerState(title, running=True, log=log, problem=str(error))


def models_of_index(index: list[dict[str, str]], *, folders: Iterable[str] = ()) -> tuple[ModelState, ...]:
    """Triton's repository index, one entry a version, as one entry a model.

    Args:
        index: as Triton gives it.
        folders: names of model folders; Triton leaves out those that it could not make sense of.
    """
    by_name: dict[str, list[dict[str, str]]] = {name: [{"name": name}] for name in folders}
    by_name.update({entry["name"]: [] for entry in index})
    for entry in index:
        by_name[entry["name"]].append(entry)
    models = []
    for name, entries in sorted(by_name.items()):
        ready = [entry for entry in entries if entry.get("state") == READY]
        shown = (ready or entries)[-1]
        versions = ", ".join(entry["version"] for entry in ready if entry.get("version"))
        models.append(ModelState(name, versions, shown.get("state") or "not loaded", shown.get("reason", "")))
    return tuple(models)


def tail(path: Path, lines: int) -> tuple[str, ...]:
    """The last events of a log, none longer than `LINE_LIMIT`; () when it cannot be read.

    Left out is what would fill a short view with nothing: the tables that Triton draws at its start, and the
    warnings that any machine without a GPU gets.
    """
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return ()
    found = text.splitlines()
    if size > TAIL_BYTES:
        found = found[1:]  # it begins in the middle of a line
    found = [line for line in found if not (_EMPTY.match(line) or is_noise(line))]
    return tuple(line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} …" for line in found[-lines:])


def _folders(server: Server) -> list[str]:
    try:
        return [model.name for repository in server.repositories for model in models_of(repository)]
    except OSError:  # the repository was moved away
        return []


def _how_it_ended(server: Server) -> str:
    if server.process is None:
        return f"{server.http_url} does not answer any more."
    said = "\n".join(server.decisive_lines())
    how = server.process.ending
    return f"The server ended without being stopped from here ({how})." + (f"\n{said}" if said else "")
