"""`./workshop clean`: what it removes, and what it leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tutorial_lib.course.catch_up import locked
from tutorial_lib.errors import SetupError
from tutorial_lib.paths import Workspace
from tutorial_lib.runner import folders
from tutorial_lib.runner.clean import _size_mib, carry_out, plan
from tutorial_lib.server.plain_path import plain_path


def test_clean_takes_leftovers_and_leaves_what_people_made(tmp_path):
    home = Workspace(tmp_path)
    for name in ("logs", "records", "cache", "model_repository", "checkpoints", "my-own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    with folders.new_folder(home.runs) as running:
        old = home.runs / "20200101-000000-000"
        old.mkdir()
        carry_out(plan(home), home)
        assert running.exists() and not old.exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "model_repository", "my-own", "runs"]
    carry_out(plan(home, everything=True), home)
    assert [path.name for path in tmp_path.iterdir()] == ["my-own"]


@pytest.mark.parametrize("everything", [False, True])
def test_clean_leaves_what_a_server_uses_through_links(tmp_path, monkeypatch, everything):
    """With a space in its path a server gets links: only they are on its command line."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = Workspace(tmp_path / "my workspace")
    backends, beside = home.cache / "backends" / "1f", home.root / "exports"
    for folder in (backends, home.model_repository, home.logs, beside):
        folder.mkdir(parents=True)
    code = "import sys; sys.stdin.read()"
    flags = [f"--backend-directory={plain_path(backends)}", f"--model-repository={plain_path(home.model_repository)}"]
    with subprocess.Popen([sys.executable, "-c", code, *flags], stdin=subprocess.PIPE) as server:
        wanted = plan(home, everything=everything)
    kept = [path for path, reason in wanted.keep if reason == f"in use by process {server.pid}"]
    assert kept == [home.cache] + [home.model_repository] * everything
    assert [path for path, _ in wanted.remove] == [home.logs] + [beside] * everything


def test_clean_leaves_a_catch_up_alone(tmp_path):
    home = Workspace(tmp_path)
    with locked(home):
        assert plan(home).keep == [(home.cache, "a catch_up works there")] and not plan(home).remove
    assert [path for path, _ in plan(home).remove] == [home.cache]


def test_clean_leaves_what_a_process_uses(tmp_path):
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "a.log"
    log.touch()
    with subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL) as process:
        try:
            wanted = plan(Workspace(tmp_path))
        finally:
            process.kill()
    assert wanted.remove == []
    assert wanted.keep == [(tmp_path / "logs", f"in use by process {process.pid}")]
    assert os.path.exists(log)


def test_a_file_that_goes_while_sizes_are_added_up_counts_nothing(tmp_path, monkeypatch):
    (tmp_path / "stays").write_bytes(bytes(2**20))
    (tmp_path / "goes").touch()
    walk = os.walk

    def meanwhile(folder):
        for found in walk(folder):
            (tmp_path / "goes").unlink()
            yield found

    monkeypatch.setattr(os, "walk", meanwhile)
    assert _size_mib(tmp_path) == 1


def test_a_folder_that_others_empty_is_removed_and_one_that_cannot_be_is_named(tmp_path, monkeypatch):
    home = Workspace(tmp_path)
    (tmp_path / "cache").mkdir()
    remove, tries = shutil.rmtree, []

    def meanwhile(path):
        tries.append(path)
        if len(tries) < 3:
            raise FileNotFoundError(2, "No such file or directory")
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    carry_out(plan(home), home)
    assert len(tries) == 3 and not (tmp_path / "cache").exists()
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(FileNotFoundError(2, "No such file")))
    with pytest.raises(SetupError, match="logs: could not be removed: No such file"):
        carry_out(plan(home), home)
