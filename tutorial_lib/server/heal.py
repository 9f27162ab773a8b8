"""Healing: a model whose Python process died is unloaded and loaded, since Triton never starts one again."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tutorial_lib.server.health import Health

if TYPE_CHECKING:
    from tutorial_lib.server.server import Server

GRACE_S = 3.0  # for the living instances of the old version to end with their last request
DEAD = re.compile(r"Stub process '[^']*' is not healthy")  # Triton's words, one second after it was asked


@dataclass(frozen=True)
class Healing:
    """What was found and what became of it; truthy when the model answers now.

    Attributes:
        before: what asking the model showed.
        dead: instances without a living process.
        reloaded: whether it was unloaded and loaded. Triton brings ensembles around it back by itself.
        after: what asking it showed then; the same as `before` if nothing was done.
        seconds: how long it took.
    """

    model: str
    before: Health
    dead: int
    reloaded: bool
    after: Health
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.after)


def heal(server: Server, model: str, *, timeout_s: float = 5.0) -> Healing:
    """Ask a model a real question and reload it if a process of its died.

    Reloading ends the requests under way with an error. A model that is only slow, or refuses the
    question, is left alone: its health says so.

    Args:
        timeout_s: the longest to wait for an answer.

    Raises:
        ModelLoadError: it does not load again; with Triton's reason.
    """
    started = time.monotonic()
    before = server.health(model, timeout_s=timeout_s)
    dead = dead_instances(server, model) if before.ready else 0
    if not (dead or (before.ready and DEAD.search(before.detail))):
        return Healing(model, before, dead, False, before, time.monotonic() - started)
    old = instances(server, model)
    server.unload(model)
    server.load(model)
    # once a dead instance has been asked, Triton never finishes the unload and keeps the living ones for ever
    for process in (late := psutil.wait_procs(old, timeout=GRACE_S)[1]):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + GRACE_S
    while set(late) & set(instances(server, model)) and time.monotonic() < deadline:
        time.sleep(0.01)
    after = server.health(model, timeout_s=timeout_s)
    return Healing(model, before, max(dead, 1), True, after, time.monotonic() - started)


def dead_instances(server: Server, model: str) -> int:
    """How many of a loaded model's instances have no living process; 0 where that cannot be seen.

    Asking is not enough: of two instances the living one may answer, and the dead one fails every other
    request.
    """
    if server.tier != "embedded" or server.process is None:
        return 0
    versions = [entry for entry in server.control.index() if entry["name"] == model and entry.get("state") == "READY"]
    groups = server.config(model).get("instance_group", [])  # an ensemble has none
    wanted = len(versions) * sum(int(group["count"]) for group in groups)
    return max(0, wanted - len(instances(server, model)))


def instances(server: Server, model: str) -> list[psutil.Process]:
    """The living processes of a model's instances, on the embedded tier; they have its file as first argument."""
    try:
        children = psutil.Process(server.process.pid).children() if server.process else []
    except psutil.NoSuchProcess:
        return []  # the server itself has ended
    found = []
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended ones that Triton has not collected are zombies
            arguments = child.cmdline() if child.status() != psutil.STATUS_ZOMBIE else []
            if len(arguments) > 1 and re.search(rf"/{re.escape(model)}/\d+/", arguments[1]):
                found.append(child)
    return found
