"""The same server as an NGC container: `docker run`, compose, and starting it where Docker runs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from tutorial_lib.errors import SetupError
from tutorial_lib.server.options import ServerOptions
from tutorial_lib.server.ports import LOOPBACK
from tutorial_lib.versions import TARGET, image

PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}  # Triton's own, inside the container
SHARED_MEMORY = "1g"  # Python models exchange tensors through /dev/shm; Docker's default is 64 MB
STACK_BYTES = 67108864
MODELS = "/models"


def mounts(options: ServerOptions) -> dict[Path, str]:
    """Where each repository is mounted: /models, and /models1, /models2, … for further ones."""
    return {path: f"{MODELS}{number or ''}" for number, path in enumerate(options.repositories)}


def docker_command(
    options: ServerOptions, *, ports: Mapping[str, int] = PORTS, tag: str = TARGET, gpus: str = "", name: str = ""
) -> list[str]:
    """The `docker run` that serves the same repository with the same options.

    Args:
        options: as for every tier.
        ports: host ports; they are published on loopback only.
        tag: the NGC release, such as "24.10".
        gpus: Docker's `--gpus` value, such as "all"; "" for a CPU start.
        name: the container's name.
    """
    command = ["docker", "run", "--rm", "--init"]
    command += [f"--name={name}"] if name else []
    command += [f"--gpus={gpus}"] if gpus else []
    command += [f"--shm-size={SHARED_MEMORY}", "--ulimit", "memlock=-1", "--ulimit", f"stack={STACK_BYTES}"]
    command += [part for key in PORTS for part in ("-p", f"{LOOPBACK}:{ports[key]}:{PORTS[key]}")]
    command += [part for path, inside in mounts(options).items() for part in ("-v", f"{path}:{inside}:ro")]
    return [*command, image(tag), "tritonserver", *options.arguments(tuple(mounts(options).values()))]


def shell_text(command: list[str]) -> str:
    """A command as text to paste into a shell, one option a line."""
    lines, words = [], list(command)
    while words:
        word = words.pop(0)
        takes_value = word in ("-p", "-v", "--ulimit") and words
        lines.append(shlex.join([word, words.pop(0)] if takes_value else [word]))
    head = " ".join(lines[:2])
    return " \\\n  ".join([head, *lines[2:]])


def compose_text(options: ServerOptions, *, ports: Mapping[str, int] = PORTS, tag: str = TARGET, gpus: str = "") -> str:
    """The same start as a compose file (YAML)."""
    service: dict[str, object] = {
        "image": image(tag),
        "command": ["tritonserver", *options.arguments(tuple(mounts(options).values()))],
        "init": True,
        "shm_size": SHARED_MEMORY,
        "ulimits": {"memlock": -1, "stack": STACK_BYTES},
        "ports": [f"{LOOPBACK}:{ports[key]}:{PORTS[key]}" for key in PORTS],
        "volumes": [f"{path}:{inside}:ro" for path, inside in mounts(options).items()],
        "healthcheck": {
            "test": ["CMD", "curl", "-sf", f"http://localhost:{PORTS['http']}/v2/health/live"],
            "interval": "5s",
            "start_period": "60s",
        },
    }
    if gpus:
        count: object = gpus if gpus == "all" else int(gpus)
        devices = [{"driver": "nvidia", "count": count, "capabilities": ["gpu"]}]
        service["deploy"] = {"resources": {"reservations": {"devices": devices}}}
    return yaml.safe_dump({"services": {"triton": service}}, sort_keys=False)


def require_docker() -> None:
    """Check that a Docker engine answers.

    Raises:
        SetupError: no client, or no engine behind it.
    """
    if not shutil.which("docker"):
        raise SetupError("Docker: found no 'docker' command.", action="Install Docker, or use the embedded tier.")
    try:
        asked = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
        problem = "" if asked.returncode == 0 else asked.stderr.strip() or f"status {asked.returncode}"
    except subprocess.TimeoutExpired:
        problem = "no answer within 10 s"
    if problem:
        raise SetupError(
            f"Docker: the client is there, but its engine does not answer: {problem.rstrip('.?')}.",
            action="Start the Docker engine (and join the docker group), or use the embedded tier.",
        )
