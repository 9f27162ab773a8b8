"""Write the lock files from pyproject.toml: `python -m tutorial_lib.lock`.

`requirements.lock` pins every package of the CPU environment, `requirements-cuda.lock` those that only the
CUDA build of torch adds. Both hold for Python 3.11 and 3.12 on Linux, x86-64 and aarch64.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tutorial_lib.errors import SetupError
from tutorial_lib.paths import CHECKOUT, atomic_write

PYPROJECT = CHECKOUT / "pyproject.toml"
LOCK = CHECKOUT / "requirements.lock"
CUDA_LOCK = CHECKOUT / "requirements-cuda.lock"
TIMEOUT_S = 300

_HEAD = "# Written by `python -m tutorial_lib.lock` from pyproject.toml; do not edit.\n"
_CUDA_HEAD = f"{_HEAD}# What torch's CUDA build adds to requirements.lock; a constraint, not a list to install.\n"
_CUDA_NAMES = re.compile(r"(nvidia|cuda)-|triton$")
# uv repeats on every line what pyproject.toml already says of all of them
_EVERYWHERE = (
    "((platform_machine == 'aarch64' and sys_platform == 'linux')"
    " or (platform_machine == 'x86_64' and sys_platform == 'linux'))",
    "python_full_version < '3.13'",
)


def requirements() -> dict[str, Requirement]:
    """What pyproject.toml asks for, tests included, by canonical package name."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def read(path: Path) -> list[Requirement]:
    """The pins of a lock file, with their markers."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return [Requirement(line) for line in lines if line]


def pins(path: Path = LOCK, *, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The version of each package that a lock file names for an environment.

    Args:
        path: the lock file.
        environment: marker values that differ from the running Python's ({"python_full_version": "3.12.1"}).
    """
    chosen = [pin for pin in read(path) if pin.marker is None or pin.marker.evaluate(environment)]
    return {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in chosen}


def split(output: str, direct: set[str]) -> tuple[list[str], list[str]]:
    """Sort uv's lines into those of the CPU environment and those that only CUDA adds.

    Args:
        output: what `uv pip compile --universal --no-header --no-annotate` printed.
        direct: canonical names that pyproject.toml asks for itself.
    """
    cpu, cuda = [], []
    for line in filter(None, map(str.strip, output.splitlines())):
        pin, _, marker = line.partition(" ; ")
        for guard in _EVERYWHERE:
            marker = marker.replace(guard, "")
        parts = [part.strip() for part in marker.split(" and ")]
        marker = " and ".join(part for part in parts if part)
        name = canonicalize_name(pin.partition("==")[0])
        only_cuda = _CUDA_NAMES.match(name) and name not in direct
        (cuda if only_cuda else cpu).append(f"{pin} ; {marker}" if marker else pin)
    return cpu, cuda


def resolve(*, upgrade: bool) -> str:
    """Ask uv for the whole set; versions already locked are kept where they still fit.

    Raises:
        SetupError: there is no uv, or no set of versions fits.
    """
    command = _uv() + ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--extra", "test"]
    command += ["--no-header", "--no-annotate", "--only-binary", ":all:", str(PYPROJECT)]
    if not upgrade:
        for path in (LOCK, CUDA_LOCK):
            command += ["--constraint", str(path)] if path.is_file() else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise SetupError(
            "pyproject.toml: uv found no set of versions that fits.",
            action="Change the requirement it names" + ("." if upgrade else ", or try again with --upgrade."),
            details=done.stderr.strip(),
        )
    return done.stdout


def _uv() -> list[str]:
    beside = Path(sys.prefix) / "bin" / "uv"
    if uv := shutil.which("uv") or (str(beside) if beside.is_file() else None):
        return [uv]
    if uvx := shutil.which("uvx"):
        return [uvx, "uv"]
    raise SetupError("uv: found none on PATH; it resolves the lock.", action="Install it: pip install uv.")


def main() -> None:
    """Write both files, and say what changed."""
    parser = argparse.ArgumentParser(prog="python -m tutorial_lib.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions, not the locked ones")
    arguments = parser.parse_args()
    try:
        groups = split(resolve(upgrade=arguments.upgrade), set(requirements()))
    except SetupError as error:
        sys.exit(f"SetupError: {error}")
    for path, head, lines in zip((LOCK, CUDA_LOCK), (_HEAD, _CUDA_HEAD), groups, strict=True):
        before = set(path.read_text().splitlines()) if path.is_file() else set()
        with atomic_write(path) as temporary:
            temporary.write_text(head + "\n".join(lines) + "\n")
        print(f"{path.name}: {len(lines)} pins, {len(set(lines) - before)} new or changed")


if __name__ == "__main__":
    main()
