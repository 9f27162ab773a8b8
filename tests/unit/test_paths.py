"""What a person may write as a path, and where the workspace may be."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from tutorial_lib.checkpoint import load_checkpoint
from tutorial_lib.doctor import machine
from tutorial_lib.doctor.report import Status
from tutorial_lib.errors import RepositoryError, SetupError, WorkshopError
from tutorial_lib.export.onnx_file import read_onnx
from tutorial_lib.paths import WORKSPACE_VARIABLE, atomic_write, real_path, workspace
from tutorial_lib.repository import find_repository, read_config
from tutorial_lib.server import serve


@pytest.fixture
def circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    return tmp_path / "a"


@pytest.mark.parametrize("given", ["~nobody_of_this_name/models", "a\0b", "n" * 300, 5, None, b"/tmp", ["/tmp"]])
def test_what_is_no_path_says_so(given):
    with pytest.raises(SetupError, match="thing .*: not a path to use: ") as caught:
        real_path(given, "thing")
    assert len(str(caught.value)) < 250 and ".." not in str(caught.value)
    if given is not None:
        with pytest.raises(RepositoryError, match="not a path to use"):
            find_repository(given)


@pytest.mark.parametrize("given", [5, b"/tmp", [5], [b"/tmp"], ["~nobody_of_this_name"], {"/tmp": 1, 5: 2}])
def test_serve_is_given_no_path(given, tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    with pytest.raises(RepositoryError):
        serve(given)


def test_links_in_a_circle(circle, monkeypatch):
    with pytest.raises(RepositoryError, match="not a path to use"):
        find_repository(circle)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(circle))
    with pytest.raises(SetupError, match="not a path to use"):
        workspace()


@pytest.mark.parametrize("given", ["a\0b", "n" * 300])
@pytest.mark.parametrize("read", [read_config, load_checkpoint, read_onnx])
def test_no_path_at_all_where_a_file_is_read(read, given):
    with pytest.raises(WorkshopError, match="null byte|too long"):
        read(given)


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_workspace_that_is_a_file(tmp_path, monkeypatch, below):
    (tmp_path / "file").touch()
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "file" / below))
    with pytest.raises(SetupError, match=f"{tmp_path / 'file'} is a file; expected a folder"):
        workspace()
    checked = machine.workspace_folder()
    assert checked.status is Status.FAIL and "is a file" in checked.found and "Name another folder" in checked.fix
    assert "could not be checked" not in machine.disk().found


def test_a_workspace_that_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, "/proc/workspace")
    with pytest.raises(SetupError, match=r"workspace /proc/workspace: cannot be made"):
        workspace()


def test_the_doctor_makes_no_workspace(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "later"))
    assert machine.workspace_folder().status is Status.OK and not (tmp_path / "later").exists()


def test_a_full_disk_names_what_could_not_be_written(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError) as caught, atomic_write(tmp_path / "copy") as temporary:
        shutil.copyfile("source", temporary)
    assert caught.value.filename == str(tmp_path / "copy") and caught.value.filename2 is None
    assert list(tmp_path.iterdir()) == []
