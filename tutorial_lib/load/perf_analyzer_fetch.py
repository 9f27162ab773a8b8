"""Getting a perf_analyzer: out of the tritonclient wheel of 24.10, the last that runs with an older glibc.

Its newer wheel on PyPI needs glibc 2.38. This one needs two libraries: libcudart, which the wheel of
tritonserver has, and Debian's libb64, whose package is unpacked beside it, not installed.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tutorial_lib.errors import SetupError
from tutorial_lib.load.perf_analyzer import NAME, PerfAnalyzer, find_perf_analyzer
from tutorial_lib.paths import workspace

WHEEL = "tritonclient==2.51.0"
LIBRARY = "libb64-0d"
TIMEOUT_S = 300


def fetch_perf_analyzer() -> PerfAnalyzer:
    """The perf_analyzer of this machine; downloaded into the workspace's cache (14 MB) where there is none.

    Raises:
        SetupError: it cannot be had here, with the reason.
    """
    if found := find_perf_analyzer():
        return found
    if platform.machine() != "x86_64":
        raise SetupError(f"perf_analyzer: found {platform.machine()}, the wheel that has it is for x86-64.")
    home = workspace().cache / NAME
    with tempfile.TemporaryDirectory(dir=workspace().root) as place:
        made = Path(place) / NAME
        (made / "lib").mkdir(parents=True)
        _program(made, Path(place))
        _cudart(made / "lib")
        _libb64(made / "lib", Path(place))
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, home)
    if found := find_perf_analyzer():
        return found
    raise SetupError(
        f"perf_analyzer: {home / NAME} does not run here.", action=f"Look with ldd at what it lacks; {LIBRARY} perhaps."
    )


def _program(made: Path, place: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _call([*command, "--platform", "manylinux1_x86_64", "--dest", str(place), WHEEL], place)
    wheel = next(place.glob("*.whl"), None)
    with zipfile.ZipFile(wheel) as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith(f"/bin/{NAME}"))
        with archive.open(name) as source, (made / NAME).open("wb") as target:
            shutil.copyfileobj(source, target)
    (made / NAME).chmod(0o755)


def _cudart(libraries: Path) -> None:
    """A link under the name the program asks for, to the copy in the server's wheel."""
    found = importlib.util.find_spec("pytriton")
    folder = Path(found.origin).parent.parent / "nvidia_pytriton.libs" if found and found.origin else Path()
    if source := next(folder.glob("libcudart-*.so.12*"), None):
        (libraries / "libcudart.so.12").symlink_to(source)


def _libb64(libraries: Path, place: Path) -> None:
    """From Debian's package, without installing it; without apt the system's own is hoped for."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return
    _call(["apt-get", "download", LIBRARY], place)
    package = next(place.glob(f"{LIBRARY}*.deb"))
    _call(["dpkg-deb", "--extract", str(package), str(place / "deb")], place)
    for path in (place / "deb").rglob("libb64.so*"):
        shutil.copy2(path, libraries / path.name, follow_symlinks=True)


def _call(command: list[str], where: Path) -> None:
    done = subprocess.run(
        command, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise SetupError(
            f"perf_analyzer: '{' '.join(command[:4])} …' failed.",
            action="Connect to the network, or put a perf_analyzer on PATH.",
            details=done.stderr.strip()[-1000:],
        )
