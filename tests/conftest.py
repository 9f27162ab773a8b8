"""What holds for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutorial_lib.course import progress
from tutorial_lib.paths import WORKSPACE_VARIABLE
from tutorial_lib.server import stop_all

# files that share something which takes long to make
TOGETHER = {
    **dict.fromkeys(("test_cases.py", "test_lint_agrees.py", "test_generated_configs.py"), "judged"),
    "browser": "browser",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays in one lane when the suite runs in several, with those that share a costly fixture."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.partition("::")[0]
            return next((TOGETHER[part] for part in path.split("/") if part in TOGETHER), path)

    return Lanes(config, log)


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
