"""The checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_lib.doctor import accelerators, interpreter, machine, packages
from tutorial_lib.doctor.report import CheckResult

CHECKS: tuple[Callable[[], CheckResult], ...] = (
    interpreter.system,
    interpreter.python,
    interpreter.shared_library,
    packages.numpy,
    packages.packages,
    interpreter.kernel,
    packages.tritonserver,
    machine.processors,
    machine.memory,
    machine.shared_memory,
    machine.workspace_folder,
    machine.disk,
    machine.triton_ports,
    machine.jupyter_port,
    accelerators.gpu,
    accelerators.docker,
)
