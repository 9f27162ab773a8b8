from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("agg")

from matplotlib import pyplot as plt

from tutorial_lib import plots
from tutorial_lib.pipeline import STEPS, pipeline


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_titles_carry_the_tier_and_axes_their_units(monkeypatch):
    monkeypatch.setattr(plots, "where", lambda: "Triton 9.9 attached · CPU ×3")
    table = pd.DataFrame({"engine": ["a", "a"], "batch": [1, 2], "median_ms": [1.0, 1.5], "p95_ms": [2.0, 2.0]})
    drawn = [
        plots.plot_latency(table),
        plots.plot_callers({"1 caller": np.array([1.0, 2.0])}, title="Wait"),
        plots.plot_history([2.0, 1.0], [0.5, 0.99]),
    ]
    for axes in drawn:
        assert "Triton 9.9 attached · CPU ×3" in axes.get_title(loc="left")
    assert "(ms)" in drawn[0].get_ylabel() and "(images per call)" in drawn[0].get_xlabel()
    assert "(ms)" in drawn[1].get_xlabel() and "(%)" in drawn[2].get_ylabel()


def test_every_engine_is_drawn():
    table = pd.DataFrame([{"engine": f"e{n}", "batch": 1, "median_ms": 1.0, "p95_ms": 2.0} for n in range(7)])
    lines = plots.plot_latency(table).get_lines()[:-1]  # the last one is the guide
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 7


def test_a_dotted_line_shows_a_batch_that_gains_nothing():
    table = pd.DataFrame({"engine": ["a", "a"], "batch": [1, 4], "median_ms": [3.0, 5.0], "p95_ms": [4.0, 6.0]})
    (dotted,) = (line for line in plots.plot_latency(table).lines if line.get_linestyle() == ":")
    assert list(dotted.get_xdata()) == [1, 4] and list(dotted.get_ydata()) == [3.0, 12.0]


def test_where_is_the_label_of_the_server_package():
    from tutorial_lib.server import label

    assert plots.where() == label()


def test_confusion_writes_every_count_that_is_not_zero():
    confusion = np.diag(np.arange(1, 11))
    confusion[8, 3] = 77
    texts = {(text.get_position(), text.get_text()) for text in plots.plot_confusion(confusion).texts}
    assert len(texts) == 11 and ((3, 8), "77") in texts  # x is the predicted digit


def test_digits_grid_takes_raw_and_prepared_pictures():
    for images in (np.zeros((7, 8, 8)), np.zeros((7, 3, 32, 32))):
        grid = plots.plot_digits(images, range(7), columns=5)
        assert grid.shape == (2, 5) and sum(bool(place.images) for place in grid.flat) == 7


def test_pipeline_marks_one_step():
    picture = pipeline("02")
    assert "[02 export]" in repr(picture)
    svg = picture._repr_html_()
    assert svg.count("#ffffff") == 2 and svg.count("✓") == 1
    assert all(number in svg and verb in svg for number, verb, _ in STEPS)
    assert "✓" not in pipeline()._repr_html_()


def test_pipeline_is_well_formed_xml():
    from xml.etree import ElementTree

    assert ElementTree.fromstring(pipeline("12")._repr_html_()).tag.endswith("svg")


def test_pipeline_knows_its_steps():
    with pytest.raises(ValueError, match="'1'"):
        pipeline("1")
