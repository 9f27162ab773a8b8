"""The same server as an NGC container: `docker run`, compose, and starting it where Docker runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tutorial_lib.errors import ServerError, SetupError
from tutorial_lib.server.options import ServerOptions
from tutorial_lib.server.ports import LOOPBACK
from tutorial_lib.versions import TARGET, image

PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}  # Triton's own, inside the container
SHARED_MEMORY = "1g"  # Python models exchange tensors through /dev/shm; Docker's default is 64 MB
STACK_BYTES = 67108864
MODELS = "/models"


def mounts(options: ServerOptions) -> dict[Path, str]:
    """Where each repository is mounted: /models, and /models1, /models2, … for further ones."""
    return {path: f"{MODELS}{number or ''}" for number, path in enumerate(dict.fromkeys(options.repositories))}


def docker_command(
    options: ServerOptions, *, ports: Mapping[str, int] = PORTS, tag: str = TARGET, gpus: str = "", name: str = ""
) -> list[str]:
    """The `docker run` that serves the same repository with the same options.

    Args:
        options: as for every tier.
        ports: host ports; they are published on loopback only.
        tag: the NGC release, such as "24.10".
        gpus: Docker's `--gpus` value: "all", a number, or "device=0,1"; "" for a CPU start.
        name: the container's name.

    Raises:
        ServerError: `gpus` is something else.
    """
    devices = _devices(gpus)
    command = ["docker", "run", "--rm", "--init"]
    command += [f"--name={name}"] if name else []
    if "device_ids" in devices:
        command += ["--gpus=" + _csv_field(f"device={','.join(devices['device_ids'])}")]
    elif devices:
        command += [f"--gpus={devices['count']}"]
    command += [f"--cpuset-cpus={_list(options.cores)}"] if options.cores else []
    command += [f"--shm-size={SHARED_MEMORY}", "--ulimit", "memlock=-1", "--ulimit", f"stack={STACK_BYTES}"]
    command += [part for key in PORTS for part in ("-p", f"{LOOPBACK}:{ports[key]}:{PORTS[key]}")]
    for path, inside in mounts(options).items():  # not -v: it takes a colon in the path for its own
        command += ["--mount", f"type=bind,{_csv_field(f'source={path}')},target={inside},readonly"]
    return [*command, image(tag), *_tritonserver(options)]


def shell_text(command: list[str]) -> str:
    """A command as text to paste into a shell, one option a line."""
    lines, words = [], list(command)
    while words:
        word = words.pop(0)
        takes_value = word in ("-p", "--mount", "--ulimit", "--batch") and words
        lines.append(shlex.join([word, words.pop(0)] if takes_value else [word]))
    head = " ".join(lines[:2])
    return " \\\n  ".join([head, *lines[2:]])


def compose_text(options: ServerOptions, *, ports: Mapping[str, int] = PORTS, tag: str = TARGET, gpus: str = "") -> str:
    """The same start as a compose file (YAML).

    Raises:
        ServerError: `gpus` is none of the values that `docker_command` takes.
    """
    service: dict[str, object] = {
        "image": image(tag),
        "command": _tritonserver(options),
        "init": True,
        "shm_size": SHARED_MEMORY,
        "ulimits": {"memlock": -1, "stack": STACK_BYTES},
        "ports": [f"{LOOPBACK}:{ports[key]}:{PORTS[key]}" for key in PORTS],
        "volumes": [
            {"type": "bind", "source": str(path), "target": inside, "read_only": True}
            for path, inside in mounts(options).items()
        ],
        "healthcheck": {
            "test": ["CMD", "curl", "-sf", f"http://localhost:{PORTS['http']}/v2/health/live"],
            "interval": "5s",
            "start_period": "60s",
        },
    }
    if options.cores:
        service["cpuset"] = _list(options.cores)
    if devices := _devices(gpus):
        device = {"driver": "nvidia", **devices, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    # compose puts a variable's value where it reads a dollar sign
    return yaml.safe_dump({"services": {"triton": service}}, sort_keys=False).replace("$", "$$")


def _tritonserver(options: ServerOptions) -> list[str]:
    """The command inside the container; its policy is set there, because Docker has no option for it."""
    policy = ["chrt", "--batch", "0"] if options.sched_batch else []
    return [*policy, "tritonserver", *options.arguments(tuple(mounts(options).values()))]


def _list(cores: tuple[int, ...]) -> str:
    """Cores as Docker lists them."""
    return ",".join(map(str, cores))


def _devices(gpus: str) -> dict[str, Any]:
    """Docker's --gpus value as compose says it; {} for none."""
    text = str(gpus).strip("\"'")
    if not text:
        return {}
    if text == "all" or (text.isascii() and text.isdecimal() and int(text)):
        return {"count": text if text == "all" else int(text)}
    kind, _, names = text.partition("=")
    if kind == "device" and re.fullmatch(r"[\w:/.-]+(,[\w:/.-]+)*", names):
        return {"device_ids": names.split(",")}
    raise ServerError(
        f"gpus: found {gpus!r}, expected 'all', a number of GPUs, or 'device=0,1' with their numbers or UUIDs.",
        action="Write one of these, or leave it out for a start on the CPU.",
    )


def _csv_field(text: str) -> str:
    """The text as one field of the lists that Docker reads: quoted if it holds a comma or a quote."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if "," in text or '"' in text else text


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
