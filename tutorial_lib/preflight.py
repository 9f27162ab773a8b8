"""Find a Python that can run the course, or say what to install.

This file runs before anything is installed, on whatever Python a machine has: it uses the standard
library only and keeps to the syntax of Python 3.6. As a program it prints the path of the Python it chose:

    python3 tutorial_lib/preflight.py find
"""

import ctypes
import glob
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from typing import Any, Dict, Iterable, List, Optional, Tuple

PYTHONS = ((3, 11), (3, 12))  # numpy 1.26 has no wheels after 3.12; current pandas and onnxruntime need 3.11
MIN_GLIBC = (2, 35)  # the nvidia-pytriton wheel's
MACHINES = ("x86_64", "aarch64")
PYTHON_VARIABLE = "WORKSHOP_PYTHON"
PROBE_TIMEOUT_S = 30

CONTAINER = (
    "Use the container tier: with Docker, the course runs in a Linux container from this checkout:\n"
    '    docker run --rm -it -v "$PWD":/workshop -w /workshop python:3.11-bookworm ./workshop run'
)

Facts = Dict[str, Any]


def libpython() -> Optional[str]:
    """The path of this interpreter's own shared library, or None where it has none.

    Only this installation's folders count: a system library of another patch level would be paired
    with this interpreter's standard library. A statically linked Python may still ship the library.
    """
    name = str(sysconfig.get_config_var("INSTSONAME") or "")
    if ".so" not in name:
        name = "libpython{}.{}.so.1.0".format(*sys.version_info[:2])
    library = str(sysconfig.get_config_var("LIBDIR") or "")
    multiarch = str(sysconfig.get_config_var("MULTIARCH") or "")
    binary = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    own = os.path.join(os.path.dirname(os.path.dirname(binary)), "lib")
    for folder in (library, os.path.join(library, multiarch), os.path.join(sys.base_prefix, "lib"), own):
        path = os.path.join(folder, name)
        if os.path.isabs(path) and os.path.isfile(path):
            return path
    return None


def glibc() -> Optional[str]:
    """The C library's version, such as "2.36"; None where it is not glibc (musl, macOS)."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return None
    return text.split()[-1] if text.startswith("glibc") else None


def facts() -> Facts:
    """What decides whether the running interpreter suits, as plain JSON values."""
    library = libpython()
    library_version = None
    if library:
        try:
            get_version = ctypes.CDLL(library).Py_GetVersion
            get_version.restype = ctypes.c_char_p
            library_version = get_version().decode().split()[0]
        except (OSError, AttributeError):
            library_version = None
    try:
        import ensurepip  # Debian keeps it in python3.x-venv
        import venv

        has_venv = bool(ensurepip and venv)
    except ImportError:
        has_venv = False
    return {
        "executable": getattr(sys, "_base_executable", None) or sys.executable,
        "implementation": platform.python_implementation(),
        "version": list(sys.version_info[:3]),
        "release": platform.python_version(),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "system": platform.system(),
        "machine": platform.machine(),
        "glibc": glibc(),
        "libpython": library,
        "libpython_version": library_version,
        "venv": has_venv,
        "torch": _torch_version(),
    }


def _torch_version() -> Optional[str]:
    try:
        from importlib import metadata  # Python 3.8

        return metadata.version("torch")
    except Exception:  # no torch, no such module, or a damaged installation: all mean "none to build on"
        return None


def inside_ngc(found: Facts) -> bool:
    """Whether this Python carries the torch of an NGC PyTorch image, to be used as it is."""
    torch = found.get("torch") or ""
    return bool(torch) and ("nv" in torch or bool(os.environ.get("NVIDIA_PYTORCH_VERSION")))


def system_problem(found: Facts) -> Optional[str]:
    """Why no Python can run the course on this machine, with what to do; None when one can."""
    system, machine, libc = found["system"], found["machine"], found["glibc"]
    if system != "Linux":
        text = "System: found {}, expected Linux (Triton's server is a Linux program).\n{}"
        wsl = "\nOn Windows, WSL2 with Ubuntu 24.04 works too: run ./workshop inside it."
        return text.format({"Darwin": "macOS"}.get(system, system), CONTAINER + (wsl if system == "Windows" else ""))
    if machine not in MACHINES:
        return "Processor: found {}, expected {}.\nUse such a machine, or an `attached` server by URL.".format(
            machine, " or ".join(MACHINES)
        )
    if libc is None:
        return "C library: found none or musl, expected glibc {}.{} or newer.\n{}".format(*(MIN_GLIBC + (CONTAINER,)))
    if _numbers(libc) < MIN_GLIBC:
        return (
            "C library: found glibc {}, expected {}.{} or newer (Ubuntu 22.04, Debian 12, Fedora 36, RHEL 10).\n{}"
        ).format(libc, MIN_GLIBC[0], MIN_GLIBC[1], CONTAINER)
    return None


def python_problem(found: Facts) -> Optional[str]:
    """Why this Python does not suit, in a few words; None when it does."""
    version = tuple(found["version"])
    if found["implementation"] != "CPython":
        return "is {}; CPython is needed".format(found["implementation"])
    if version[:2] not in PYTHONS:
        return "is Python {}; {} is needed".format(found["release"], " or ".join("%d.%d" % v for v in PYTHONS))
    if found["bits"] != 64:
        return "is a 32-bit Python; a 64-bit one is needed"
    if not found["libpython"]:
        return "does not suit: its libpython{}.{}.so.1.0 is missing (Triton's Python stub loads it)".format(*version)
    if not found["libpython_version"]:
        return "has a shared library that does not load ({})".format(found["libpython"])
    if found["libpython_version"].split("+")[0] != found["release"].split("+")[0]:
        return "is {} but its shared library {} is {}".format(
            found["release"], found["libpython"], found["libpython_version"]
        )
    if not found["venv"]:
        return "is {} but its venv or ensurepip module is missing".format(found["release"])
    return None


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def candidates(checkout: str) -> List[str]:
    """Paths of the Pythons to try, best first; the environment of this checkout itself is left out.

    `$WORKSHOP_PYTHON` is the only candidate when it is set. Inside an NGC PyTorch image its own Python
    comes first, elsewhere an active conda or virtual environment's, then PATH, then usual places.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return [named]
    home = os.path.expanduser("~")
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    active = [os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    paths = [os.path.join(prefix, "bin", "python") for prefix in active]
    names = ["python{}.{}".format(*version) for version in PYTHONS]
    if os.environ.get("NVIDIA_PYTORCH_VERSION"):
        names = ["python", "python3"] + names
    for name in names + ["python3", "python"]:
        paths += [os.path.join(folder, name) for folder in folders]
    uv = os.environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(home, ".local", "share", "uv", "python")
    pyenv = os.path.join(os.environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv"), "versions")
    conda = [os.path.join(home, name) for name in ("miniconda3", "miniforge3", "mambaforge", "anaconda3")]
    for version in ("{}.{}".format(*numbers) for numbers in PYTHONS):
        roots = [os.path.join(pyenv, version + "*"), os.path.join(uv, "cpython-" + version + "*")]
        for root in roots + ["/usr/local", "/usr", "/opt/conda"] + conda:
            paths += sorted(glob.glob(os.path.join(root, "bin", "python" + version)), reverse=True)
    own = os.path.join(os.path.realpath(checkout), ".venv", "")
    chosen = []  # type: List[str]
    seen = set()
    for path in paths:
        key = os.path.realpath(path)
        # a pyenv shim is one script for every name, so the name belongs to the key
        key += os.path.basename(path) if os.sep + "shims" + os.sep in path else ""
        if key in seen or os.path.abspath(path).startswith(own) or not os.access(path, os.X_OK):
            continue
        seen.add(key)
        chosen.append(path)
    return chosen


def examine(path: str, timeout_s: float = PROBE_TIMEOUT_S) -> Tuple[Optional[Facts], str]:
    """Run a Python to see what it is.

    Returns:
        Its facts and "", or None and the reason why it could not be asked.
    """
    command = [path, "-I", os.path.abspath(__file__), "facts"]
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, universal_newlines=True
        )
    except OSError as error:
        return None, "does not run ({})".format(error.strerror or error)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, "did not answer within {:.0f} s".format(timeout_s)
    try:
        return json.loads(output), ""
    except ValueError:
        lines = [line for line in (errors or output).splitlines() if line.strip()]
        if any("SyntaxError" in line for line in lines):
            return None, "is too old"
        return None, "does not run" + (" ({})".format(lines[0].strip()[:100]) if lines else "")


def choose(paths: Iterable[str]) -> Tuple[Optional[Facts], List[Tuple[str, str]]]:
    """The facts of the first Python that suits, and why those before it do not."""
    refused = []
    for path in paths:
        found, reason = examine(path)
        reason = reason if found is None else (python_problem(found) or "")
        if not reason:
            return found, refused
        refused.append((path, reason))
    return None, refused


def advice(refused: Iterable[Tuple[str, str]] = ()) -> str:
    """How to get a suitable Python on this system."""
    release = os_release()
    kinds = [release.get("ID", "")] + release.get("ID_LIKE", "").split()
    number = release.get("VERSION_ID", "")
    lines = []
    packaged = {"debian12": "3.11", "ubuntu24.04": "3.12"}.get(kinds[0] + number)
    for _, reason in refused:  # one that is nearly right tells which packages are missing
        near = re.search(r"3\.1[12]", reason) if "missing" in reason else None
        packaged = near.group() if near else packaged
    if ("debian" in kinds or "ubuntu" in kinds) and packaged:
        lines.append("sudo apt install python{0}-venv libpython{0}".format(packaged))
    elif "fedora" in kinds:
        lines.append("sudo dnf install python3.12")
    lines += [
        "uv python install 3.11                                   (uv: pip install uv)",
        "conda create -n workshop python=3.11 && conda activate workshop",
    ]
    return "\n".join("    " + line for line in lines)


def os_release(path: str = "/etc/os-release") -> Dict[str, str]:
    """The fields of the system's os-release file; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = [line.strip().split("=", 1) for line in file if "=" in line and not line.startswith("#")]
    except OSError:
        return {}
    return {name: value.strip("\"'") for name, value in pairs}


def refusal(refused: List[Tuple[str, str]]) -> str:
    """The message when no Python suits."""
    lines = ["Python: found none that suits, expected CPython 3.11 or 3.12 with its shared library."]
    lines += ["    {} {}".format(path, reason) for path, reason in refused]
    if os.environ.get(PYTHON_VARIABLE):
        lines.append("{0} names the only one that is tried; correct it or unset {0}.".format(PYTHON_VARIABLE))
    else:
        lines += ["Install one, for example with", advice(refused)]
        lines.append("then run this again. {}=/path/to/python3.11 names one directly.".format(PYTHON_VARIABLE))
    return "\n".join(lines)


def main(arguments: List[str]) -> int:
    if arguments == ["facts"]:
        print(json.dumps(facts()))
        return 0
    problem = system_problem(facts())
    if problem is None:
        found, refused = choose(candidates(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        if found is not None:
            print(found["executable"])
            return 0
        problem = refusal(refused)
    sys.stderr.write("workshop: {}\n".format(problem))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
