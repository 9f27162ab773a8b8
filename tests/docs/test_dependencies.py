"""pyproject.toml, the locks, environment.yml and what is installed say the same."""

from __future__ import annotations

import importlib.metadata
import itertools
import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tutorial_lib import lock, preflight
from tutorial_lib.environment import torch_build
from tutorial_lib.paths import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
LOCKS = (lock.LOCK, lock.CUDA_LOCK)
MACHINES = [
    {"python_version": version[:4], "python_full_version": version, "platform_machine": machine}
    for version, machine in itertools.product(("3.11.2", "3.11.7", "3.12.1"), ("x86_64", "aarch64"))
]


def closure() -> dict[str, list[Requirement]]:
    """What the installed packages themselves say they need, from pyproject.toml's names down."""
    waiting = list(lock.requirements().values())
    asked: dict[str, list[Requirement]] = {}
    done = set()
    while waiting:
        requirement = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        asked.setdefault(name, []).append(requirement)
        if (name, frozenset(requirement.extras)) in done:
            continue
        done.add((name, frozenset(requirement.extras)))
        for line in importlib.metadata.requires(name) or ():
            inner = Requirement(line)
            extras = requirement.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                inner.marker = None
                waiting.append(inner)
    return asked


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: "-".join(list(machine.values())[1:]))
def test_every_requirement_is_pinned_to_a_version_it_allows(machine):
    pins = lock.pins(environment=machine)
    for name, requirement in lock.requirements().items():
        if requirement.marker is None or requirement.marker.evaluate(machine):
            assert requirement.specifier.contains(pins[name]), f"{requirement} is pinned to {pins.get(name)}"


def test_the_lock_is_complete_and_holds_nothing_else():
    pins, asked = lock.pins(), closure()
    cuda = lock.pins(lock.CUDA_LOCK)
    assert set(pins) - set(asked) == set()
    assert set(asked) - set(pins) - set(cuda) == set()
    for name, requirements in asked.items():
        for requirement in requirements:
            version = pins.get(name) or cuda[name]
            assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: {version}"


def test_the_environment_is_at_its_pins():
    for name, version in lock.pins().items():
        if name != "pip":  # pip is what people upgrade by hand, and nothing here imports it
            assert Version(importlib.metadata.version(name)).public == Version(version).public, name


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_holds_only_exact_versions_in_order(path):
    pins = lock.read(path)
    assert all(pin.url is None and not pin.extras and str(pin.specifier).startswith("==") for pin in pins)
    assert not re.search(r"https?:|file:|--", path.read_text())
    names = [pin.name for pin in pins]
    assert names == sorted(names)
    for machine in MACHINES:
        chosen = [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate(machine)]
        assert len(chosen) == len(set(chosen)), "one version for each machine"


def test_the_cuda_lock_is_only_what_cuda_adds():
    cuda, cpu = set(lock.pins(lock.CUDA_LOCK)), set(lock.pins())
    assert not cuda & cpu
    assert "triton" in cuda
    assert "nvidia-pytriton" in cpu


def test_the_pins_that_everything_rests_on():
    pins = lock.pins()
    assert pins["torch"] == "2.13.0"
    assert Version(pins["numpy"]) < Version("2")
    assert pins["nvidia-pytriton"] == "0.7.0"
    assert "torchvision" not in pins
    assert "<2" in str(lock.requirements()["numpy"].specifier)


def test_the_preflight_accepts_the_pythons_of_the_project():
    allowed = SpecifierSet(PROJECT["requires-python"])
    accepted = {f"3.{minor}" for minor in range(8, 20) if allowed.contains(f"3.{minor}.1")}
    assert accepted == {f"{major}.{minor}" for major, minor in preflight.PYTHONS}


def test_conda_and_binder_get_the_same():
    environment = yaml.safe_load((CHECKOUT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    assert environment["channels"][0] == "conda-forge"
    python = next(line for line in conda if line.startswith("python="))
    assert Version(python.partition("=")[2] + ".1") in SpecifierSet(PROJECT["requires-python"])
    assert set(conda) == {python, "pip"}, "versions are the lock's business"
    assert pip == {
        "pip": [
            f"--extra-index-url {torch_build.CPU_INDEX}",
            f"-r {lock.LOCK.name}",
            f"-c {lock.CUDA_LOCK.name}",
            "-e .",
        ]
    }
