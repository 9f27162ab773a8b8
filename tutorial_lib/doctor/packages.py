"""Checks of the installed packages."""

from __future__ import annotations

import importlib.metadata
import sys

from packaging.utils import canonicalize_name
from packaging.version import Version

from tutorial_lib.doctor.check import Verdict, check
from tutorial_lib.doctor.report import Status
from tutorial_lib.paths import CHECKOUT

SHOWN = 4  # packages named in one line


def repair() -> str:
    """How to bring the environment back to the lock."""
    if sys.prefix == str(CHECKOUT / ".venv"):
        return "Run: rm -f .venv/workshop-stamp && ./workshop doctor"
    return "Run in the checkout: pip install -r requirements.lock -c requirements-cuda.lock"


@check("numpy")
def numpy() -> Verdict:
    """numpy 1: with 2, Triton's Python stub answers with empty tensors and no error."""
    version = importlib.metadata.version("numpy")
    if Version(version) >= Version("2"):
        reason = "tritonserver 2.51's Python stub returns silently empty tensors with numpy 2."
        return Status.FAIL, f"{version}: {reason}", repair()
    return Status.OK, f"{version} (below 2, which tritonserver 2.51's Python stub needs)"


@check("packages")
def packages() -> Verdict:
    """Every package at the version that the lock names."""
    from tutorial_lib.lock import pins

    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():  # the first on the path is the one imported
        installed.setdefault(canonicalize_name(distribution.metadata["Name"] or "?"), distribution.version)
    return compare(pins(), installed)


def compare(wanted: dict[str, str], installed: dict[str, str]) -> Verdict:
    """The verdict on installed versions, both by canonical package name."""
    missing = [f"{name} {version}" for name, version in wanted.items() if name not in installed]
    other = [
        f"{name} {installed[name]} instead of {version}"
        for name, version in wanted.items()
        if name in installed and not _same(name, version, installed[name])
    ]
    if not missing and not other:
        return Status.OK, f"all {len(wanted)} at their pins"
    found = [f"{len(missing)} missing: {_some(missing)}"] if missing else []
    found += [f"{len(other)} off their pins: {_some(other)}"] if other else []
    return (Status.FAIL if missing else Status.WARN), "; ".join(found), repair()


def _same(name: str, wanted: str, found: str) -> bool:
    if name == "torch" and "nv" in found:  # an NGC image's own build is used as it is
        return True
    return Version(Version(found).public) == Version(wanted)  # 2.13.0+cpu is a build of 2.13.0


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


@check("tritonserver")
def tritonserver() -> Verdict:
    """The server that would be started, and the stub for this Python."""
    from tutorial_lib.errors import SetupError
    from tutorial_lib.server.locate import find_installation

    try:
        installation = find_installation()
    except SetupError as error:
        return Status.FAIL, error.problem, error.action
    return Status.OK, f"{installation.tier} ({installation.binary})"
