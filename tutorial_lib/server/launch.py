"""`serve()`: start, find again, or attach to a Triton server."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tutorial_lib.cores import checked_cores, on_cores, under_sched_batch
from tutorial_lib.errors import RepositoryError, ServerError, WorkshopError
from tutorial_lib.paths import workspace
from tutorial_lib.repository.layout import find_repository
from tutorial_lib.server import container
from tutorial_lib.server.control import Control, without_credentials
from tutorial_lib.server.locate import backend_directory, empty_folder, find_installation, from_here, server_environment
from tutorial_lib.server.log import prune
from tutorial_lib.server.models import check_models, model_folders, warn_of_models_not_loaded
from tutorial_lib.server.options import MODES, ServerOptions, address_arguments
from tutorial_lib.server.plain_path import plain_path
from tutorial_lib.server.ports import LOOPBACK, choose
from tutorial_lib.server.process import ServerProcess
from tutorial_lib.server.registry import remember
from tutorial_lib.server.server import Server
from tutorial_lib.versions import TARGET, cpu_count, target

TIERS = ("auto", "container", "attached")
START_ATTEMPTS = 3  # a free port can be taken between choosing it and Triton listening on it

_numbers = itertools.count(1)


def serve(
    repository: Path | str | Sequence[Path | str] | None = None,
    *,
    models: Sequence[str] | None = None,
    url: str = "",
    tier: str = "auto",
    model_control_mode: str = "explicit",
    strict_readiness: bool = True,
    exit_on_error: bool = False,
    disable_auto_complete_config: bool = False,
    backend_config: Mapping[tuple[str, str], str] | None = None,
    http_port: int | None = None,
    grpc_port: int | None = None,
    metrics_port: int | None = None,
    extra_arguments: Sequence[str] = (),
    startup_timeout_s: float = 120.0,
    image_tag: str = TARGET,
    gpus: str = "",
    cores: Iterable[int] | None = None,
    sched_batch: bool = False,
) -> Server:
    """Start a Triton server for this Python process, or find the one that runs already.

    Called again with the same arguments it returns the running server. The server listens on
    loopback only and ends with this process, however the process ends.

    Args:
        repository: one model repository or several; by default the workspace's.
        models: models to load at start (explicit mode); None loads all there are, [] none. ["*"] is Triton's
            own "all", which takes every folder for a model, .ipynb_checkpoints too.
        url: the HTTP base of a server that runs already; then nothing is started or stopped here
            ("attached"). TRITON_GRPC_URL and TRITON_METRICS_URL may name its other two addresses.
        tier: "auto" (the Triton on this machine), "container" (the NGC image through Docker) or "attached".
        model_control_mode: "explicit", "none" or "poll", as Triton's flag.
        strict_readiness: as Triton's flag: ready only when every model is.
        exit_on_error: as Triton's flag: do not start at all when a model does not load.
        disable_auto_complete_config: as Triton's flag: take config.pbtxt as written.
        backend_config: (backend, setting) → value, as Triton's --backend-config.
        http_port: a port, or None for a free one; likewise grpc_port and metrics_port.
        extra_arguments: further flags for tritonserver. The server runs in an empty folder of its own;
            a path behind "=" that begins with "./" or "../" is taken from here, all else passed unchanged.
        startup_timeout_s: the longest to wait, model loading included.
        image_tag: the NGC release, on the container tier.
        gpus: Docker's --gpus value, on the container tier.
        cores: numbers of the cores it may use, as for `taskset -c` and Docker's --cpuset-cpus; None for all.
        sched_batch: run it under Linux's SCHED_BATCH, as `chrt --batch 0` does. That may give more requests a second
            where all cores are busy (`./workshop bench gateway` says how many); other programs may come before it.

    Raises:
        RepositoryError: the repository or a named model is not there, or its weights are not made yet.
        PortInUseError: a port that was given is taken.
        SetupError: there is no Triton to start here.
        ServerError: it did not start, with the decisive log lines; or an argument is not possible.
    """
    if tier not in TIERS:
        raise ServerError(f"tier: found '{tier}', expected one of {', '.join(TIERS)}.")
    if model_control_mode not in MODES:
        raise ServerError(f"model_control_mode: found '{model_control_mode}', expected one of {', '.join(MODES)}.")
    if models is not None and model_control_mode != "explicit" and not url:
        raise ServerError(
            f"models: found names with model_control_mode '{model_control_mode}', which loads all there are.",
            action="Leave models out, or use model_control_mode='explicit'.",
        )
    if tier == "attached" and not url:
        raise ServerError("tier 'attached': found no url.", action="Give url='http://HOST:8000'.")
    for name, given in (("cores", cores is not None), ("sched_batch", sched_batch)):
        if url and given:
            raise ServerError(
                f"{name}: found with url; a server that runs already keeps its own.", action="Leave one out."
            )
    if url:
        others = os.environ.get("TRITON_GRPC_URL"), os.environ.get("TRITON_METRICS_URL")
        return remember(("attached", url, *others), lambda: attach(url))
    options = ServerOptions(
        repositories=_repositories(repository),
        models=None if models is None else tuple([models] if isinstance(models, str) else models),
        model_control_mode=model_control_mode,
        strict_readiness=strict_readiness,
        exit_on_error=exit_on_error,
        disable_auto_complete_config=disable_auto_complete_config,
        backend_config=dict(backend_config or {}),
        cores=checked_cores(cores),
        sched_batch=sched_batch,
        extra_arguments=tuple(extra_arguments),
    )
    ports = {"http": http_port, "grpc": grpc_port, "metrics": metrics_port}
    key = (tier, repr(options), tuple(ports.items()), image_tag, gpus, str(workspace().root))

    def start() -> Server:
        with on_cores(options.cores), under_sched_batch(options.sched_batch and tier != "container"):
            return _start(options, ports, tier, startup_timeout_s, image_tag, gpus)

    return remember(key, start)


def attach(url: str) -> Server:
    """Use a server that runs already; it is not stopped from here.

    Args:
        url: its HTTP base; a missing scheme is taken as http.

    Raises:
        ServerError: nothing there answers as Triton's HTTP endpoint does.
    """
    base = url if "://" in url else f"http://{url}"
    try:
        control = Control(base)
    except (httpx.InvalidURL, ValueError) as error:
        raise ServerError(
            f"{without_credentials(base)}: not an address: {error}.", action="Give http://HOST:PORT."
        ) from error
    if not control.is_triton():
        control.close()
        raise ServerError(
            f"{control.url}: found no Triton that answers GET /v2/health/live.",
            action="Give the HTTP port (Triton's default is 8000; 8001 is gRPC, 8002 metrics) of a running server.",
        )
    host = urlsplit(control.url).hostname or LOOPBACK
    ports = container.PORTS
    grpc_url = os.environ.get("TRITON_GRPC_URL") or f"{host}:{ports['grpc']}"
    metrics_url = os.environ.get("TRITON_METRICS_URL") or f"http://{host}:{ports['metrics']}/metrics"
    grpc_address = grpc_url.partition("://")[2] or grpc_url
    return Server(control, tier="attached", hardware=host, grpc_address=grpc_address, metrics_url=metrics_url)


def _repositories(given: Path | str | Sequence[Path | str] | None) -> tuple[Path, ...]:
    if given is None or given == "":
        return (find_repository(workspace().seed()),)
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    paths = list(given) if several else [given]
    if not paths:
        raise RepositoryError("repository: found an empty list, expected one folder or several.")
    return tuple(dict.fromkeys(find_repository(path) for path in paths))  # the same one twice is one


def _start(
    options: ServerOptions, ports: Mapping[str, int | None], tier: str, timeout_s: float, tag: str, gpus: str
) -> Server:
    check_models(options)
    prune(workspace().logs)
    for attempt in range(1, START_ATTEMPTS + 1):
        chosen = choose(ports)
        number = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_numbers)}"
        log = workspace().logs / f"triton-{number}.log"
        identity = f"c2t-{uuid.uuid4().hex}"
        control = Control(f"http://{LOOPBACK}:{chosen['http']}")
        process, where = _process(options, chosen, tier, log, tag, gpus, identity)
        try:
            process.wait_live(control, timeout_s=timeout_s, identity=identity)
            server = Server(
                control,
                tier=where,
                hardware=_hardware(where, gpus),
                grpc_address=f"{LOOPBACK}:{chosen['grpc']}",
                metrics_url=f"http://{LOOPBACK}:{chosen['metrics']}/metrics",
                repositories=options.repositories,
                process=process,
            )
            warn_of_models_not_loaded(server, options)  # inside: a learner may turn warnings into errors
            return server
        except BaseException as error:
            control.close()
            process.stop()
            stolen = isinstance(error, WorkshopError) and "already in use" in process.log_text()
            if not (stolen and None in ports.values() and attempt < START_ATTEMPTS):
                raise
    raise ServerError(f"Triton: no start in {START_ATTEMPTS} attempts.")


def _process(
    options: ServerOptions, ports: Mapping[str, int], tier: str, log: Path, tag: str, gpus: str, identity: str
) -> tuple[ServerProcess, str]:
    if options.models is None:  # not "*": with a folder that is no model the server is never ready
        options = replace(options, models=tuple(model_folders(options)))
    given = tuple(from_here(argument) for argument in options.extra_arguments)
    options = replace(options, extra_arguments=(f"--id={identity}", *given))
    if tier == "container":
        container.require_docker()
        name = f"checkpoint-to-triton-{os.getpid()}-{ports['http']}"
        command = container.docker_command(options, ports=ports, tag=tag, gpus=gpus, name=name)
        cleanup = ["docker", "rm", "--force", name]
        return ServerProcess(command, environment=os.environ, log=log, cleanup=cleanup), "container"
    installation = find_installation()
    environment = server_environment(installation)
    backends = plain_path(backend_directory(installation))
    command = [str(installation.binary), f"--backend-directory={backends}"]
    command += [f"--cache-directory={installation.root / 'caches'}"]
    command += ["--backend-config=python,shm-region-prefix-name={region_prefix}"]
    if installation.tier == "embedded":
        release = target()
        environment |= {"WORKSHOP_ONNX_MAX_IR": str(release.max_ir), "WORKSHOP_ONNX_MAX_OPSET": str(release.max_opset)}
        # glibc opens up to eight malloc arenas a core: what came and went with models is then spread over all of them
        environment.setdefault("MALLOC_ARENA_MAX", "2")  # 0.2 MiB per 100 loads less (./workshop bench cycles)
        environment["WORKSHOP_CPU_COUNT"] = str(cpu_count())  # a container's share of the cores is not in the affinity
    repositories = tuple(str(plain_path(path)) for path in options.repositories)
    command += [*address_arguments(LOOPBACK, ports), *options.arguments(repositories)]
    return ServerProcess(command, environment=environment, log=log, folder=empty_folder()), installation.tier


def _hardware(tier: str, gpus: str) -> str:
    """What the server computes on: the GPU where it can use one, else the cores."""
    if tier == "installed" or gpus:
        nvidia_smi = shutil.which("nvidia-smi")
        if nvidia_smi:
            asked = subprocess.run(
                [nvidia_smi, "--query-gpu=name", "--format=csv,noheader"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False,
            )  # fmt: skip
            names = asked.stdout.split("\n") if asked.returncode == 0 else []
            names = [name.strip() for name in names if name.strip()]
            if names:
                return f"{names[0]} ×{len(names)}"
    return f"CPU ×{cpu_count()}"
