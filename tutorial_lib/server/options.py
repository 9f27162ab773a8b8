"""What a server is started with, in Triton's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tutorial_lib.errors import ServerError
from tutorial_lib.server.control import CONTROL_HEADER, RESTRICT_FLAG

MODES = ("explicit", "none", "poll")


@dataclass(frozen=True)
class ServerOptions:
    """Options that mean what Triton's flags of the same name mean.

    Attributes:
        repositories: model repositories, as `--model-repository`, one flag each.
        models: models to load at start in explicit mode, as `--load-model`; None loads all.
        model_control_mode: "explicit", "none" or "poll".
        strict_readiness: ready only when every model is.
        exit_on_error: end the server when a model does not load at start.
        disable_auto_complete_config: take config.pbtxt as it is written.
        backend_config: (backend, setting) → value, as `--backend-config=backend,setting=value`.
        exit_timeout_s: how long a stopping server waits for requests under way, and for clients
            that keep a connection open.
        cores: numbers of the cores it may use, which is no flag of Triton's; None for all.
        sched_batch: run under Linux's SCHED_BATCH, which is no flag of Triton's either.
        extra_arguments: passed through unchanged, last.
    """

    repositories: tuple[Path, ...]
    models: tuple[str, ...] | None = None
    model_control_mode: str = "explicit"
    strict_readiness: bool = True
    exit_on_error: bool = False
    disable_auto_complete_config: bool = False
    backend_config: Mapping[tuple[str, str], str] = field(default_factory=dict)
    exit_timeout_s: int = 3
    cores: tuple[int, ...] | None = None
    sched_batch: bool = False
    extra_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        cores = self.cores
        if cores is not None and not (cores and all(type(core) is int and core >= 0 for core in cores)):
            raise ServerError(
                f"cores: found {cores!r}, expected numbers from 0 on.", action="Give such as cores=(0, 1)."
            )
        if type(self.sched_batch) is not bool:
            raise ServerError(f"sched_batch: found {self.sched_batch!r}, expected True or False.")

    def arguments(self, repositories: tuple[str, ...] | None = None) -> list[str]:
        """The command line flags.

        Args:
            repositories: the repositories' paths as the server sees them (inside a container),
                instead of `self.repositories`.
        """
        flags = [f"--model-repository={path}" for path in repositories or map(str, self.repositories)]
        flags.append(f"--model-control-mode={self.model_control_mode}")
        if self.model_control_mode == "explicit":
            flags += [f"--load-model={name}" for name in (("*",) if self.models is None else self.models)]
        flags += [
            f"--strict-readiness={str(self.strict_readiness).lower()}",
            f"--exit-on-error={str(self.exit_on_error).lower()}",
            f"--exit-timeout-secs={self.exit_timeout_s}",
        ]
        if self.disable_auto_complete_config:
            flags.append("--disable-auto-complete-config")
        flags += [f"--backend-config={name},{key}={value}" for (name, key), value in self.backend_config.items()]
        if not any(flag.startswith(RESTRICT_FLAG) and "model-repository" in flag for flag in self.extra_arguments):
            flags.append(f"{RESTRICT_FLAG}=model-repository:{'='.join(CONTROL_HEADER)}")
        return [*flags, *self.extra_arguments]


def address_arguments(host: str, ports: Mapping[str, int]) -> list[str]:
    """The flags for the three listeners.

    Args:
        host: the address to listen on; Triton's own default is 0.0.0.0.
        ports: "http", "grpc" and "metrics".
    """
    return [flag for name, port in ports.items() for flag in (f"--{name}-address={host}", f"--{name}-port={port}")]
