"""Applications start side by side, the same one only once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tutorial_lib.web import server

PATIENCE_S = 30  # reached only by a test that fails


@pytest.fixture
def starts(monkeypatch):
    """Starts that last until `meet` lets them go on."""
    played = SimpleNamespace(names=[], meet=lambda: None)

    def start(name, *_):
        played.names.append(name)
        played.meet()
        return SimpleNamespace(name=name, running=True)

    monkeypatch.setattr(server, "_start", start)
    monkeypatch.setattr(server, "_servers", {})
    return played


def start(name):
    return server.start_app(name, "a:b", settings={}, health="/")


def test_different_ones_start_at_the_same_time(starts):
    both = threading.Barrier(2, timeout=PATIENCE_S)
    starts.meet = both.wait
    with ThreadPoolExecutor(2) as pool:
        assert [app.name for app in pool.map(start, ["one", "two"])] == ["one", "two"]


def test_the_same_one_starts_once(starts):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(start, ["one"] * 8))
    assert starts.names == ["one"] and all(app is found[0] for app in found)
