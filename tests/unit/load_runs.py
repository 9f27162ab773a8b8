"""Load runs for the tests, each in a workspace of its own."""

from __future__ import annotations

import pytest

from tutorial_lib.load import EndpointTarget, LoadResult, run_load
from tutorial_lib.paths import WORKSPACE_VARIABLE


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """For every test of a module that imports it."""
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))


def load(url: str, **options) -> LoadResult:
    """A run against an endpoint, its body one byte."""
    return run_load(
        EndpointTarget(url, bodies=[b"x"], connections=options.pop("connections", 64)), progress=False, **options
    )
