"""The install: the commands it builds, how it reads pip's failures, what it keeps and what it makes anew."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import sys
import threading
import time
import venv as standard_venv
from pathlib import Path

import pytest

from tutorial_lib import preflight
from tutorial_lib.environment import compile_all, disk, install, pip_run, torch_build
from tutorial_lib.environment.pip_run import Failure, Pip, Progress


@pytest.fixture
def lock():
    handle = os.open(os.devnull, os.O_RDONLY)
    yield handle
    os.close(handle)


def fake_python(venv: Path, body: str) -> Path:
    """An environment whose Python is a shell script."""
    (venv / "bin").mkdir(parents=True)
    program = venv / "bin" / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return venv


# Lines as pip 23 and 26 print them.
OUTPUTS = [
    (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "Disk full",
        "Free about",
    ),
    (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/pip/\n"
        "ERROR: Could not find a version that satisfies the requirement pip==26.3 (from versions: none)\n"
        "ERROR: No matching distribution found for pip==26.3",
        "cannot be reached",
        "needs the network",
    ),
    (
        "ERROR: Could not find a version that satisfies the requirement onnx==1.23.2 (from versions: none)\n"
        "ERROR: No matching distribution found for onnx==1.23.2",
        "lacks a pinned package",
        "PIP_NO_INDEX",
    ),
    (
        "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))",
        "certificate was refused",
        "PIP_CERT",
    ),
    ("ERROR: [Errno 13] Permission denied: '/repo/.venv/lib'", "cannot be written", "folder that you own"),
    ("ERROR: something new", "Failed while installing", "install.log"),
]


@pytest.mark.parametrize(("output", "problem", "action"), OUTPUTS)
def test_a_failure_names_cause_and_action(tmp_path, lock, output, problem, action):
    text = output.replace("'", "'\"'\"'")
    pip = Pip(fake_python(tmp_path / ".venv", f"printf '%s\\n' '{text}'; exit 1"), lock=lock)
    with pytest.raises(Failure) as caught:
        pip.install(["onnx==1.23.2"], "packages", "--no-deps")
    message = str(caught.value)
    assert problem in message
    assert action in message
    assert output.splitlines()[-1] in (tmp_path / ".venv" / "install.log").read_text()


def test_a_killed_pip_is_told_as_memory(tmp_path, lock):
    pip = Pip(fake_python(tmp_path / ".venv", "kill -9 $$"), lock=lock)
    with pytest.raises(Failure, match="Memory ran out"):
        pip.install(["torch==2.13.0"], "torch")


def test_settings_for_other_uses_of_pip_are_dropped(tmp_path, monkeypatch, lock):
    for name in pip_run.DROPPED:
        monkeypatch.setenv(name, "/etc/pip/constraint.txt")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    pip = Pip(fake_python(tmp_path / ".venv", 'env; echo arguments: "$@"'), lock=lock)
    pip.install(["networkx==3.7 ; python_full_version == '3.12.*'"], "packages", "--no-deps")
    log = (tmp_path / ".venv" / "install.log").read_text()
    seen = dict(line.split("=", 1) for line in log.splitlines() if "=" in line and not line.startswith("arguments"))
    assert not set(pip_run.DROPPED) & set(seen)
    assert seen["PIP_USER"] == "0"
    assert seen["PIP_INDEX_URL"] == "https://mirror.example/simple"
    assert seen["TMPDIR"] == str(tmp_path / ".venv" / "tmp")
    assert "-m pip install" in log
    assert "--no-deps networkx==3.7 ; python_full_version == '3.12.*'" in log


@pytest.fixture
def interruptible():
    """SIGINT as in a terminal: a shell's background job starts with it ignored, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_pip_and_lets_it_clean_up(tmp_path, monkeypatch, lock, interruptible):
    body = 'trap "touch cleaned; exit 130" INT; echo Collecting x; while :; do sleep 0.05; done'
    pip = Pip(fake_python(tmp_path / ".venv", body), lock=lock)

    def stop(progress, line):
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "read", stop)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pip.install(["x==1"], "packages")
    assert (tmp_path / ".venv" / "cleaned").exists()
    assert time.monotonic() - start < pip_run.END_TIMEOUT_S


def test_progress_counts_packages_and_megabytes(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = Progress("packages", 3)
    progress.read("Requirement already satisfied: numpy==1.26.4 in /x (1.26.4)\n")
    progress.read("Collecting torch==2.13.0\n")
    progress.read("Progress 95000000 of 191794682\n")
    shown = capsys.readouterr().err.split("\r")[-1]
    assert "packages 2/3  torch" in shown
    assert "95 of 192 MB" in shown


def test_the_lock_without_torch():
    everything, rest = torch_build.requirements(), torch_build.requirements(without_torch=True)
    assert set(everything) - set(rest) == {torch_build.torch_pin()} == {"torch==2.13.0"}


@pytest.mark.parametrize(
    ("torch", "variable", "gpu", "build"),
    [
        (None, "", False, "cpu"),
        (None, "", True, "cuda"),
        (None, "cpu", True, "cpu"),
        (None, "CUDA", False, "cuda"),
        ("2.6.0a0+x.nv25.1", "", True, "ngc"),
    ],
)
def test_which_torch(monkeypatch, torch, variable, gpu, build):
    monkeypatch.setenv(torch_build.BUILD_VARIABLE, variable)
    monkeypatch.setattr(torch_build, "has_nvidia_gpu", lambda: gpu)
    assert torch_build.torch_build({"torch": torch}) == build


def test_an_unknown_build_is_refused(monkeypatch):
    monkeypatch.setenv(torch_build.BUILD_VARIABLE, "rocm")
    with pytest.raises(Failure, match="found 'rocm', expected cpu or cuda"):
        torch_build.torch_build({"torch": None})


class Index(http.server.BaseHTTPRequestHandler):
    pages = {
        "/good/torch/": b'<a href="torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl">',
        "/old/torch/": b'<a href="torch-2.9.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl">',
    }

    def do_GET(self):
        page = self.pages.get(self.path)
        self.send_response(200 if page else 404)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *arguments):
        pass


def test_the_cpu_index_counts_only_when_it_has_the_pinned_torch(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        for address, answer in [(f"{base}/good", f"{base}/good"), (f"{base}/old", None), (f"{base}/none", None)]:
            monkeypatch.setenv(torch_build.CPU_INDEX_VARIABLE, address)
            assert torch_build.cpu_index() == answer
    finally:
        server.shutdown()
        server.server_close()
    monkeypatch.setenv(torch_build.CPU_INDEX_VARIABLE, f"{base}/good")  # nothing listens there now
    assert torch_build.cpu_index() is None
    monkeypatch.setenv(torch_build.CPU_INDEX_VARIABLE, "not an address")
    assert torch_build.cpu_index() is None


class Recorder:
    """Takes the place of pip and keeps what it was asked."""

    def __init__(self, url=""):
        self.calls, self.url = [], url

    def install(self, lines, step, *options):
        self.calls.append((list(lines), options))

    def url_of(self, line):
        return self.url


def test_torch_from_the_cpu_index(monkeypatch, tmp_path):
    monkeypatch.setattr(torch_build, "cpu_index", lambda: "https://index")
    pip = Recorder()
    torch_build.install_torch(pip, tmp_path, "cpu")
    assert pip.calls == [(["torch==2.13.0"], ("--no-deps", "--index-url", "https://index"))]


@pytest.mark.parametrize(
    ("url", "told"),
    [("file:///w/torch-2.13.0%2Bcpu-cp311.whl", False), ("https://files/torch-2.13.0-cp311.whl", True)],
)
def test_torch_without_the_cpu_index_tells_a_larger_download(monkeypatch, tmp_path, capsys, url, told):
    monkeypatch.setattr(torch_build, "cpu_index", lambda: None)
    monkeypatch.setattr(torch_build, "check_disk", lambda *arguments: None)
    pip = Recorder(url)
    torch_build.install_torch(pip, tmp_path, "cpu")
    assert (disk.megabytes(disk.DOWNLOAD_MB["cuda"]) in capsys.readouterr().err) is told
    [(lines, options)] = pip.calls
    assert lines == ["torch==2.13.0"]
    assert "--no-deps" not in options  # the CUDA build needs its parts, at our pins
    assert str(torch_build.CUDA_LOCK) in options


def test_torch_is_found_whatever_its_build(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    assert not torch_build.has_torch(tmp_path)
    (site / "torch-2.13.0.post1.dist-info").mkdir()
    assert not torch_build.has_torch(tmp_path)
    (site / "torch-2.13.0+cpu.dist-info").mkdir()
    assert torch_build.has_torch(tmp_path)


def test_a_small_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 0, 300 * 2**20))
    with pytest.raises(Failure, match=f"needs about {disk.DISK_MB['cpu']} MB more, found 300 MB free"):
        disk.check_disk(tmp_path / ".venv", "cpu")


def test_what_is_already_there_needs_no_more_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 0, 300 * 2**20))
    monkeypatch.setitem(disk.DISK_MB, "cpu", 301)
    (tmp_path / ".venv").mkdir()
    with pytest.raises(Failure):
        disk.check_disk(tmp_path / ".venv", "cpu")
    (tmp_path / ".venv" / "torch").write_bytes(b"x" * 2 * 2**20)
    disk.check_disk(tmp_path / ".venv", "cpu")


@pytest.fixture(scope="module")
def small_venv(tmp_path_factory):
    """A real environment; its pip is an empty module, because ensurepip takes seconds."""
    path = tmp_path_factory.mktemp("checkout") / ".venv"
    standard_venv.create(path, symlinks=True)
    config = path / "pyvenv.cfg"
    if " " + str(path) not in config.read_text():
        config.write_text(config.read_text() + f"command = {sys.executable} -m venv {path}\n")
    site = next(path.glob(install.SITE))
    site.joinpath("pip").mkdir()
    site.joinpath("pip", "__init__.py").write_text("")
    return path


def test_a_good_environment_is_completed_in_place(small_venv, monkeypatch):
    monkeypatch.delenv(preflight.PYTHON_VARIABLE, raising=False)
    assert install.reusable(small_venv, overlay=False, python="/other/python") == ""


def test_an_environment_is_made_anew_when_it_cannot_be_completed(small_venv, tmp_path, monkeypatch):
    monkeypatch.delenv(preflight.PYTHON_VARIABLE, raising=False)
    assert "pyvenv.cfg" in install.reusable(tmp_path / "none", overlay=False, python=sys.executable)
    assert "torch" in install.reusable(small_venv, overlay=True, python=sys.executable)
    moved = tmp_path / "moved" / ".venv"
    shutil.copytree(small_venv, moved, symlinks=True)
    assert "elsewhere" in install.reusable(moved, overlay=False, python=sys.executable)
    monkeypatch.setenv(preflight.PYTHON_VARIABLE, "/other/python")
    assert preflight.PYTHON_VARIABLE in install.reusable(small_venv, overlay=False, python="/other/python")


def test_an_environment_whose_python_is_gone_is_made_anew(tmp_path):
    venv = fake_python(tmp_path / ".venv", "exit 127")
    (venv / "pyvenv.cfg").write_text(f"include-system-site-packages = false\ncommand = python3.11 -m venv {venv}\n")
    assert "does not run" in install.reusable(venv, overlay=False, python=sys.executable)


def test_half_written_packages_are_removed(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("done-1.dist-info", "half-1.dist-info", "~alf"):
        (site / name).mkdir(parents=True)
    (site / "done-1.dist-info" / "RECORD").touch()
    install.sweep(tmp_path)
    assert [path.name for path in site.iterdir()] == ["done-1.dist-info"]


def test_a_second_install_waits_for_the_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(install, "CHECKOUT", tmp_path)
    order = []

    def second():
        with install.exclusive():
            order.append("second")

    with install.exclusive():
        thread = threading.Thread(target=second)
        thread.start()
        deadline = time.monotonic() + 5
        said = ""
        while "waiting for it" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().err
            threading.Event().wait(0.01)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_packages_are_compiled_but_for_what_is_hardly_imported(tmp_path):
    site = tmp_path / "tests" / "lib" / "python3.11" / "site-packages"  # a checkout may lie in a folder "tests"
    used = ["top.py", "numpy/__init__.py", "torch/nn/layer.py", "transformers/file.py", "contest/x.py"]
    unused = ["numpy/tests/test_x.py", "torch/_inductor/x.py", "transformers/models/bert/x.py"]
    for name in [*used, *unused, "numpy/broken.py"]:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("x = 1\n" if "broken" not in name else "print 'Python 2'\n")
    compile_all.compile_all(site, 2)
    compiled = {str(path.relative_to(site)) for path in site.rglob("*.pyc")}
    suffix = f".{sys.implementation.cache_tag}.pyc"
    expected = {str(Path(name).parent / "__pycache__" / (Path(name).stem + suffix)) for name in used}
    assert compiled == expected
