"""What holds for all tests."""

from __future__ import annotations

import pytest

from tutorial_lib.course import progress


@pytest.fixture(autouse=True)
def own_progress(tmp_path_factory, monkeypatch):
    """No test counts as an attempt of whoever runs the tests."""
    path = tmp_path_factory.getbasetemp() / "progress" / "progress.json"
    path.unlink(missing_ok=True)
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(path))
    monkeypatch.setattr(progress, "_remembered", {})
    monkeypatch.setattr(progress, "_said", set())
    return path
