"""The container tier with a stand-in for Docker that starts the embedded server as the image would.

No Docker engine runs where these tests do. What is checked is everything on this side of it: the
command, the published ports and mounted repository, waiting, stopping, and removing the container.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.server.conftest import write_echo
from tutorial_lib.server import serve

STAND_IN = """#!{python}
import csv, os, sys
arguments = sys.argv[1:]
with open({calls!r}, "a") as calls:
    print(*arguments, file=calls)
if arguments[0] != "run":
    sys.exit(print("27.0"))
from tutorial_lib.server.locate import backend_directory, find_installation, server_environment
from tutorial_lib.server.plain_path import plain_path
after = arguments[arguments.index("tritonserver") + 1 :]
values = dict(zip(arguments, arguments[1:]))
published = [b.split(":") for a, b in zip(arguments, arguments[1:]) if a == "-p"]
(mount,) = [next(csv.reader([b])) for a, b in zip(arguments, arguments[1:]) if a == "--mount"]  # as Docker reads it
parts = dict(part.partition("=")[::2] for part in mount)
host, inside = str(plain_path(parts["source"])), parts["target"]  # in a container Triton sees only the target
names = {{"8000": "http", "8001": "grpc", "8002": "metrics"}}
flags = [f"--{{names[port]}}-port={{outside}}" for _, outside, port in published]
flags += [f"--{{name}}-address=127.0.0.1" for name in names.values()]
found = find_installation()
flags += [f"--backend-directory={{backend_directory(found)}}"]
flags += [flag.replace(inside, host) for flag in after]
os.execve(found.binary, [str(found.binary), *flags], server_environment(found))
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    log, script = tmp_path / "calls", tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text(STAND_IN.format(python=sys.executable, calls=str(log)))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    return log


def test_a_container_is_started_asked_stopped_and_removed(tmp_path, calls):
    repository = write_echo(tmp_path / "a:b,c$d")
    with serve(repository, tier="container", models=["echo"]) as server:
        assert server.tier == "container" and "container" in server.label
        assert server.health("echo")
        assert serve(repository, tier="container", models=["echo"]) is server
    run, remove = [line for line in calls.read_text().splitlines() if line.startswith(("run", "rm"))]
    name = next(word.partition("=")[2] for word in run.split() if word.startswith("--name="))
    assert f'type=bind,"source={repository}",target=/models,readonly' in run and "--load-model=echo" in run
    assert remove == f"rm --force {name}"
    assert not server.running
