"""Find the tritonserver binary that runs here, and what belongs to it."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import SetupError
from tutorial_lib.paths import CHECKOUT, real_path, workspace
from tutorial_lib.preflight import libpython

BINARY_VARIABLE = "WORKSHOP_TRITONSERVER"
IMAGE_ROOT = Path("/opt/tritonserver")  # where the NGC image keeps Triton
OWN_BACKENDS = CHECKOUT / "tutorial_lib" / "backends"


@dataclass(frozen=True)
class Installation:
    """A Triton that can be started on this machine.

    Attributes:
        binary: the tritonserver executable.
        tier: "installed" when it brings its own ONNX Runtime backend, else "embedded".
        root: the folder that holds its `backends`.
        libraries: folders the binary needs on LD_LIBRARY_PATH.
        stub: the Python backend's stub for the running Python version; None for "installed".
    """

    binary: Path
    tier: str
    root: Path
    libraries: tuple[Path, ...]
    stub: Path | None


def find_installation() -> Installation:
    """The Triton to start: `$WORKSHOP_TRITONSERVER`, else the NGC image's, else the PyPI wheel's.

    Raises:
        SetupError: there is none, or the one named does not exist.
    """
    named = os.environ.get(BINARY_VARIABLE)
    if named:
        binary = real_path(named, f"${BINARY_VARIABLE}")
        if not (binary.is_file() and os.access(binary, os.X_OK)):
            raise SetupError(
                f"${BINARY_VARIABLE}: found '{named}', which is not an executable file.",
                action="Name the tritonserver binary itself, or unset the variable.",
            )
        return _installation(binary)
    if (IMAGE_ROOT / "bin" / "tritonserver").is_file():
        return _installation(IMAGE_ROOT / "bin" / "tritonserver")
    spec = importlib.util.find_spec("pytriton")
    for folder in spec.submodule_search_locations if spec and spec.submodule_search_locations else ():
        binary = Path(folder) / "tritonserver" / "bin" / "tritonserver"
        if binary.is_file():
            return _installation(binary)
    raise SetupError(
        "tritonserver: found none; expected it in the nvidia-pytriton wheel of this environment.",
        action="Run ./workshop doctor, which makes the environment complete, or use the container tier.",
    )


def _installation(binary: Path) -> Installation:
    root = binary.parent.parent
    if (root / "backends" / "onnxruntime" / "libtriton_onnxruntime.so").exists():
        return Installation(binary, "installed", root, (), None)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = (
        root / "python_backend_stubs" / version / "triton_python_backend_stub",
        root / "backends" / "python" / "triton_python_backend_stub",
    )
    stub = next((path for path in stubs if path.is_file()), None)
    if stub is None:
        raise SetupError(
            f"{binary}: found no Python stub for Python {version}.",
            action="Use Python 3.11 or 3.12 (./workshop doctor shows which one runs).",
        )
    wheel = root.parent.parent / "nvidia_pytriton.libs"
    return Installation(binary, "embedded", root, (wheel,) if wheel.is_dir() else (), stub)


def server_environment(installation: Installation) -> dict[str, str]:
    """The environment variables to start the server with.

    The stub must load the running interpreter's own libpython: one of another patch level, which a
    system folder may offer first, would be paired with this interpreter's standard library. And it
    finds this environment's packages through the first `python3` on PATH.

    Raises:
        SetupError: numpy 2 is installed.
    """
    environment = dict(os.environ)
    if installation.tier == "installed":
        return environment
    numpy = importlib.metadata.version("numpy")
    if int(numpy.partition(".")[0]) >= 2:
        raise SetupError(
            f"numpy {numpy}: tritonserver 2.51's Python stub returns silently empty tensors with numpy 2; "
            "expected numpy < 2.",
            action="Run: ./workshop doctor, or in this environment: pip install 'numpy<2'.",
        )
    library = libpython()
    if library is None:
        raise SetupError(
            f"{sys.executable}: found no shared libpython of its own, which Triton's Python stub loads.",
            action="./workshop doctor names the package to install.",
        )
    folders = [str(Path(library).parent), *map(str, installation.libraries)]
    inherited = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *([inherited] if inherited else [])])
    environment["PATH"] = os.pathsep.join([str(Path(sys.prefix) / "bin"), environment.get("PATH", os.defpath)])
    for name in ("LD_LIBRARY_PATH", "PATH"):  # the server does not run in this folder
        if environment.get(name):
            environment[name] = os.pathsep.join(map(os.path.abspath, environment[name].split(os.pathsep)))
    environment.pop("PYTHONHOME", None)
    environment["PYTHONNOUSERSITE"] = "1"
    return environment


def empty_folder() -> Path:
    """The folder to start the server in.

    Triton's Python stub imports from its working directory first: a learner's json.py or numpy.py beside
    the notebook would take the place of the real one.
    """
    folder = workspace().cache / "server"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def from_here(argument: str) -> str:
    """A flag whose path begins with ./ or ../, with that path made absolute."""
    return re.sub(r"(?<=[=,])\.{1,2}/[^,]*", lambda found: os.path.abspath(found[0]), argument)


def backend_directory(installation: Installation) -> Path:
    """The folder to give as --backend-directory; put together once per environment version.

    Files are copied: Triton refuses a backend whose library is a link to outside its folder.
    """
    if installation.tier == "installed":
        return installation.root / "backends"
    sources = {Path("python") / path.name: path for path in (installation.root / "backends" / "python").glob("*.*")}
    sources[Path("python") / "triton_python_backend_stub"] = installation.stub
    for path in OWN_BACKENDS.glob("*/*.py"):
        sources[path.relative_to(OWN_BACKENDS)] = path
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        state = path.stat()
        digest.update(f"{name} {path} {state.st_size} {state.st_mtime_ns}\n".encode())
    target = workspace().cache / "backends" / digest.hexdigest()[:16]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
        try:
            for name, path in sources.items():
                (scratch / name).parent.mkdir(exist_ok=True)
                _copy(path, scratch / name)
            scratch.chmod(0o755)
            try:
                scratch.rename(target)
            except OSError:  # another kernel was faster; its folder has the same content
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copy2(source, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise SetupError(
            f"{target}: could not be written: its disk is full.", action="./workshop clean makes room, then try again."
        ) from error
