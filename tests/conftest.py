"""What holds for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutorial_lib.course import progress
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE
from tutorial_lib.server import stop_all

# files that share something which takes long to make
TOGETHER = {
    **dict.fromkeys(("test_cases.py", "test_lint_agrees.py", "test_generated_configs.py"), "judged"),
    "browser": "browser",
}


@pytest.hookimpl(wrapper=True)  # before xdist's own, which reads the marker
def pytest_collection_modifyitems(items):
    """What has to stay in one lane when the suite runs in several: a file, and what it shares a costly fixture with."""
    for item in items:
        parts = item.path.relative_to(CHECKOUT).parts
        lane = next((TOGETHER[part] for part in parts if part in TOGETHER), str(item.path))
        item.add_marker(pytest.mark.xdist_group(lane))
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def scratch_workspace(tmp_path_factory):
    """Tests never write into the learner's workspace, and each lane has one of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(tmp_path_factory.mktemp("workspace")))
        yield Path(os.environ[WORKSPACE_VARIABLE])
        stop_all()


@pytest.fixture(autouse=True)
def own_progress(tmp_path_factory, monkeypatch):
    """No test counts as an attempt of whoever runs the tests."""
    path = tmp_path_factory.getbasetemp() / "progress" / "progress.json"
    path.unlink(missing_ok=True)
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(path))
    monkeypatch.setattr(progress, "_remembered", {})
    monkeypatch.setattr(progress, "_said", set())
    return path
