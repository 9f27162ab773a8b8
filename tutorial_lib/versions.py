"""The one compatibility table: what each NGC Triton image carries, and what it therefore accepts.

The exporter, the linter, the doctor and the docker files read this table. A model that a newer ONNX Runtime
on a laptop loads happily may be refused by the image it is meant for; `check_onnx` says so beforehand.
"""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tutorial_lib.errors import ExportError, SetupError

TARGET = "24.10"
TARGET_VARIABLE = "WORKSHOP_TARGET"
REGISTRY = "nvcr.io/nvidia/tritonserver"

# The server inside the nvidia-pytriton 0.7.0 wheel (it says so itself, at /v2); it belongs to TARGET.
EMBEDDED_TRITON = "2.51.0"

PACKAGES = ("torch", "onnx", "onnxruntime", "tritonclient", "transformers", "numpy")
MISSING = "not installed"

_NOTES = "https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-{}.html"


@dataclass(frozen=True)
class Release:
    """What one monthly NGC image `tritonserver:<tag>-py3` carries.

    A value that no public source confirmed is None, never a guess.

    Attributes:
        tag: the NGC tag, year and month ("24.10").
        triton: the version the server reports at `/v2` ("2.51.0").
        onnxruntime: ONNX Runtime of the onnxruntime backend.
        max_ir: highest ONNX IR version that ONNX Runtime loads.
        max_opset: highest official ai.onnx opset that ONNX Runtime loads.
        tensorrt: TensorRT of the tensorrt backend; plans must come from this very version.
        cuda: CUDA toolkit of the image.
        min_driver: driver branch of that toolkit; data-center GPUs may use an older one of `compat_drivers`.
        compat_drivers: oldest driver of each older branch that the image's CUDA compatibility package accepts
            on data-center GPUs; None when the release's own page was not available.
        python: Python of the image, which runs the Python backend's stub.
        source: the release's own page.

    Source:
        ONNX Runtime, CUDA, its driver and Python:
        https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md
        CUDA and compat_drivers: `source`. Its sentence on the driver lags behind its CUDA in some releases
        (25.03: CUDA 12.8, "560 or later"), so min_driver follows the driver the table above pairs with CUDA.
        max_ir, max_opset: measured by loading graphs of rising IR and opset in the runtime's PyPI wheel;
        they agree with https://github.com/onnx/onnx/blob/main/docs/Versioning.md
        Triton: one minor version a month. 24.05, 24.12 and their TensorRT:
        https://docs.twcloud.ai/en/docs/concepts-tutorials/twcc/ccs/concepts/images/triton-inference-server/
        25.06: https://www.sourceforge.net/projects/triton-inference-server.mirror/files/v2.59.0
        TensorRT of 25.01, 25.03, 25.06: the first table, rows built on those months' base images.
        24.12: the user guide of 2.53.0 says ONNX Runtime 1.19.2, the table 1.20.1; both have the same caps.
    """

    tag: str
    triton: str
    onnxruntime: str
    max_ir: int
    max_opset: int
    tensorrt: str | None
    cuda: str
    min_driver: int
    compat_drivers: tuple[str, ...] | None
    python: str

    @property
    def source(self) -> str:
        return _NOTES.format(self.tag.replace(".", "-"))

    @property
    def image(self) -> str:
        """The full image name, such as `nvcr.io/nvidia/tritonserver:24.10-py3`."""
        return image(self.tag)


# From 24.10 on, the pages call R545 both accepted and "not forward-compatible"; the refusal is believed.
_R470_TO_R535 = ("470.57", "525.85", "535.86")
_R470_TO_R545 = (*_R470_TO_R535, "545.23")

_ROWS = (
    # tag, Triton, ONNX Runtime, IR, opset, TensorRT, CUDA, driver, compat drivers, Python
    Release("24.05", "2.46.0", "1.18.0", 10, 21, "10.0.1.6", "12.4.1", 550, _R470_TO_R545, "3.10"),
    Release("24.08", "2.49.0", "1.18.1", 10, 21, None, "12.6.0", 560, None, "3.10"),
    Release("24.10", "2.51.0", "1.19.2", 10, 21, None, "12.6.2", 560, _R470_TO_R535, "3.10"),
    Release("24.12", "2.53.0", "1.20.1", 10, 21, "10.7.0.23", "12.6.3", 560, _R470_TO_R535, "3.12"),
    Release("25.01", "2.54.0", "1.20.1", 10, 21, "10.8.0.43", "12.8.0", 570, None, "3.12"),
    Release("25.03", "2.56.0", "1.21.0", 10, 22, "10.9.0.34", "12.8.1", 570, _R470_TO_R535, "3.12"),
    Release("25.06", "2.59.0", "1.22.0", 10, 22, "10.11.0.33", "12.9.1", 575, _R470_TO_R535, "3.12"),
)
RELEASES: dict[str, Release] = {release.tag: release for release in _ROWS}


def target() -> Release:
    """The release that models are made for: `$WORKSHOP_TARGET`, or 24.10.

    Raises:
        SetupError: the variable names a tag that is not in the table.
    """
    tag = os.environ.get(TARGET_VARIABLE, "").strip() or TARGET
    if tag in RELEASES:
        return RELEASES[tag]
    nearest = _nearest(tag)
    suggestion = f"{TARGET_VARIABLE}={nearest}" if nearest else f"{TARGET_VARIABLE}={TARGET}"
    raise SetupError(
        f"{TARGET_VARIABLE}: found {tag!r}, expected one of the known NGC tags {', '.join(RELEASES)}.",
        action=f"Set {suggestion}{' (the nearest)' if nearest else ''}, or unset it for {TARGET}.",
    )


def image(tag: str, variant: str = "py3") -> str:
    """The NGC image of a tag: `image("24.10") == "nvcr.io/nvidia/tritonserver:24.10-py3"`.

    Args:
        tag: any NGC tag; it need not be in the table.
        variant: "py3" (all backends), "py3-sdk" (clients and perf_analyzer), "py3-min" (to build on).
    """
    return f"{REGISTRY}:{tag}-{variant}"


def release_of_triton(version: str) -> Release:
    """The release whose server reports this version at `/v2`.

    Raises:
        SetupError: no release in the table carries it.
    """
    for release in RELEASES.values():
        if release.triton == version:
            return release
    known = ", ".join(f"{release.triton} ({release.tag})" for release in RELEASES.values())
    raise SetupError(
        f"Triton version: found {version!r}, expected one of {known}.",
        action=f"Name the release to check against: {TARGET_VARIABLE}=<tag>.",
    )


def check_onnx(ir: int, opset: int, release: Release | None = None, *, name: str = "ONNX model") -> None:
    """Refuse a model that the release's ONNX Runtime would refuse.

    Args:
        ir: the model's `ir_version`.
        opset: the version of its ai.onnx (default domain) opset import.
        release: the release to check against; `target()` when None.
        name: what the message calls the model.

    Raises:
        ExportError: the IR version or the opset is above the release's cap.
    """
    release = release or target()
    found, expected, steps = [], [], []
    if opset > release.max_opset:
        found.append(f"opset {opset}")
        expected.append(f"opset {release.max_opset} or lower")
        steps.append(f"re-export with opset_version={release.max_opset}")
    if ir > release.max_ir:
        found.append(f"IR version {ir}")
        expected.append(f"IR version {release.max_ir} or lower")
        steps.append(f"set model.ir_version = {release.max_ir} before onnx.save")
    if not found:
        return
    action = " and ".join(steps)
    raise ExportError(
        f"{name}: found {' and '.join(found)}, expected {' and '.join(expected)} "
        f"(Triton {release.tag} carries ONNX Runtime {release.onnxruntime}).",
        action=f"{action[0].upper()}{action[1:]}.",
    )


def installed() -> dict[str, str]:
    """Versions of the packages that decide results, by name; "not installed" for a missing one."""
    return {name: _version(name) for name in PACKAGES}


def capability_line() -> str:
    """One line for the top of a notebook: Python, the packages and the processors this kernel may use."""
    found = installed()
    shown = ("torch", "onnx", "onnxruntime", "tritonclient")
    parts = [f"Python {platform.python_version()}", *(f"{name} {found[name]}" for name in shown)]
    return " · ".join([*parts, f"CPU ×{cpu_count()}"])


def cpu_count() -> int:
    """Processors this process may really use: its affinity mask, cut by its cgroup's quota; at least 1.

    `os.cpu_count()` reports the machine, so a container with two cores of sixty-four would start
    sixty-four threads.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    available = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, math.ceil(min(available, _cgroup_quota())))


def int8_dot_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this CPU multiplies and adds 8-bit numbers in one instruction (VNNI, on Arm `asimddp`), which is most of
    what INT8 gains."""
    words = set(_read(cpuinfo).split())
    return not words.isdisjoint({"avx512_vnni", "avx_vnni", "asimddp"})


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float:
    """Processors the cgroup and its parents allow (versions 2 and 1); infinity without a limit."""
    folders = {root, root / "cpu", root / "cpu,cpuacct"}
    # inside a container the group's own path is usually mounted as the root; outside it is a folder below
    for line in _read(membership).splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        base = root if hierarchy == "0" else root / controllers
        own = base / path.lstrip("/")
        folders.update(folder for folder in (own, *own.parents) if folder.is_relative_to(root))
    return min(_folder_quota(folder) for folder in folders)


def _folder_quota(folder: Path) -> float:
    fields = _read(folder / "cpu.max").split()  # version 2: "200000 100000" or "max 100000"
    if not fields:  # version 1: two files, quota -1 for no limit
        fields = [_read(folder / f"cpu.cfs_{part}_us").strip() for part in ("quota", "period")]
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:
        return math.inf
    return int(fields[0]) / int(fields[1])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # not Linux, another cgroup version, or a folder of somebody else
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return MISSING


def _nearest(tag: str) -> str | None:
    """The known tag fewest months away, the newer of two at the same distance; None if `tag` is none."""
    months = _months(tag)
    if months is None:
        return None
    return min(RELEASES, key=lambda known: (abs(_months(known) - months), -_months(known)))


def _months(tag: str) -> int | None:
    year, dot, month = tag.partition(".")
    if not (dot and year.isdecimal() and month.isdecimal()):
        return None
    return int(year) * 12 + int(month)
