"""The simulator's panel: static where nobody can turn knobs, and what the knobs do."""

from __future__ import annotations

import re

import pytest

from tutorial_lib.errors import LoadError
from tutorial_lib.simulate import Batching, Service
from tutorial_lib.widgets import simulator_panel


@pytest.fixture
def panel():
    made = simulator_panel(Service(5, 0.2), Batching(16), rate_hz=250)
    yield made
    made.close()


def told(html, name):
    return float(re.search(rf"{name} ([\d.]+)", html)[1])


def test_where_nobody_can_click_it_is_a_picture_with_numbers(panel):
    bundle = panel._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    page = bundle["text/html"]
    assert "data:image/png;base64," in page and "250 requests/s" in page
    assert told(page, "mean batch") > 1 and told(page, "p95") > 5


def test_a_turned_slider_changes_the_picture(panel):
    assert panel.widget is panel.widget
    panel.refresh()
    before = panel._shown.value
    panel.sliders["delay_ms"].value = 10
    assert panel.join()
    after = panel._shown.value
    assert "delay 10 ms" in after and told(after, "p50") > told(before, "p50")
    panel.sliders["instances"].value = 3
    assert panel.join() and "3 instances" in panel._shown.value and panel.message == ""


def test_more_than_can_be_served_is_said(panel):
    assert "the queue grows" not in panel.html()
    panel.choose(rate_hz=5000)
    assert "the queue grows" in panel.html()


@pytest.mark.parametrize("rate", [0, -1, 1e6, float("nan"), "100", None])
def test_a_rate_that_cannot_be(rate, panel):
    with pytest.raises(LoadError, match="rate_hz: found"):
        simulator_panel(Service(5), rate_hz=rate)
    if rate is not None:  # which leaves it as it is
        with pytest.raises(LoadError, match="rate_hz: found"):
            panel.choose(rate_hz=rate)


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "7"])
def test_a_seed_that_cannot_be(seed):
    with pytest.raises(LoadError, match="seed: found"):
        simulator_panel(Service(5), seed=seed)
