"""Checks of what the other tiers need: a GPU with its driver, and Docker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tutorial_lib.doctor.check import Verdict, check, run
from tutorial_lib.doctor.report import Status

WSL_SMI = Path("/usr/lib/wsl/lib/nvidia-smi")  # not on PATH in every WSL2 distribution


def nvidia_smi() -> str | None:
    """The path of nvidia-smi, or None where no driver is installed."""
    return shutil.which("nvidia-smi") or (str(WSL_SMI) if WSL_SMI.is_file() else None)


def gpus() -> tuple[list[tuple[str, str]], str]:
    """GPUs that answer.

    Returns:
        (name, driver version) of each, and the error when nvidia-smi is there but fails.
    """
    program = nvidia_smi()
    if program is None:
        return [], ""
    code, output, errors = run([program, "--query-gpu=name,driver_version", "--format=csv,noheader"])
    if code:
        return [], (errors or output).strip().splitlines()[0] if (errors or output).strip() else f"exit code {code}"
    rows = [line.rpartition(", ") for line in output.splitlines() if ", " in line]
    return [(name, driver) for name, _, driver in rows], ""


@check("GPU")
def gpu() -> Verdict:
    """A GPU whose driver is new enough for the image that the models are made for."""
    from tutorial_lib.versions import target

    found, error = gpus()
    if error:
        return Status.WARN, f"nvidia-smi fails: {error}", "Reinstall the NVIDIA driver; on WSL2, that of Windows."
    if not found:
        return Status.OK, "none; the embedded tier runs on the processors"
    names = ", ".join(sorted({name for name, _ in found}))
    driver = found[0][1]
    text = f"{len(found)} × {names}, driver {driver}"
    release = target()
    if int(driver.partition(".")[0]) < release.min_driver:
        fix = f"The {release.tag} image wants driver {release.min_driver} or newer"
        accepted = ", ".join(release.compat_drivers or ())
        fix += f" (on data-center GPUs also {accepted} and later of the same branch)." if accepted else "."
        return Status.WARN, text, f"{fix} The embedded tier needs none."
    return Status.OK, text


@check("Docker")
def docker() -> Verdict:
    """A Docker engine that answers, with NVIDIA's runtime where there is a GPU."""
    program = shutil.which("docker")
    if program is None:
        return Status.OK, "none; the container tier is off, the embedded tier needs none"
    code, output, errors = run([program, "info", "--format", "{{json .}}"])
    try:
        info = json.loads(output)
    except ValueError:
        info = {}
    problems = info.get("ServerErrors") or (
        [] if info.get("ServerVersion") else [errors.strip() or f"exit code {code}"]
    )
    if problems:
        fix = "For the container tier: start Docker, and join the group docker. The embedded tier needs none."
        return Status.WARN, f"the engine does not answer: {problems[0].splitlines()[0]}", fix
    nvidia = "nvidia" in info.get("Runtimes", {})
    found = f"engine {info['ServerVersion']}, NVIDIA runtime {'present' if nvidia else 'absent'}"
    if gpus()[0] and not nvidia:
        return Status.WARN, found, "For GPUs in containers: install the NVIDIA Container Toolkit, then restart Docker."
    return Status.OK, found
