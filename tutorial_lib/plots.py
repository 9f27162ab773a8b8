"""The course's plots: axes with units, and titles that say on what hardware and which server.

Every function returns matplotlib `Axes`, so that a notebook can add to them. Backgrounds are white on
purpose: the pictures read the same on light and dark pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tutorial_lib.models.names import CLASSES
from tutorial_lib.pipeline import pipeline

__all__ = [
    "axes",
    "curve_style",
    "plot_callers",
    "plot_confusion",
    "plot_digits",
    "plot_history",
    "plot_latency",
    "plot_prediction",
    "pipeline",
]

COLORS = ("#d95f02", "#1b7f5f", "#5b54a4", "#c2185b", "#666666")

LINES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))  # of the first five curves, of the next five, …


def curve_style(number: int) -> dict[str, str]:
    """Colour, line and marker of curve `number`, from 0 on; when the colours are used up, the line is another."""
    line, marker = LINES[number // len(COLORS) % len(LINES)]
    return {"color": COLORS[number % len(COLORS)], "linestyle": line, "marker": marker}


def where() -> str:
    """The server and hardware of this kernel, for titles: "Triton 2.51.0 embedded · CPU ×2"."""
    from tutorial_lib.server import label  # here, because most plots need no server package

    return label()


def axes(
    title: str,
    *,
    x: str,
    y: str,
    size: tuple[float, float] = (7.2, 3.8),
    tier: str | None = None,
    into: Axes | None = None,
) -> Axes:
    """Empty axes in the course's style.

    Args:
        title: what the plot shows; the tier is added below it.
        x, y: labels with units, such as "latency (ms)".
        tier: where the numbers come from; `where()` by default.
        into: existing axes to style instead of a new figure.
    """
    result = into if into is not None else plt.subplots(figsize=size, layout="constrained", facecolor="white")[1]
    result.set_title(f"{title}\n{tier or where()}", fontsize=11, loc="left")
    result.set_xlabel(x)
    result.set_ylabel(y)
    result.grid(alpha=0.25)
    result.spines[["top", "right"]].set_visible(False)
    return result


def plot_digits(images: np.ndarray, labels: Sequence[object], *, title: str = "", columns: int = 10) -> np.ndarray:
    """Small pictures in a grid with a text above each.

    Args:
        images: (n, height, width), or prepared (n, 3, 32, 32), of which one channel is shown.
        labels: what to write above each.

    Returns:
        The array of axes.
    """
    pictures = images[:, 0] if images.ndim == 4 else images
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(0.95 * columns, 1.2 * rows + 0.3 * bool(title)), squeeze=False,
        layout="constrained", facecolor="white",
    )  # fmt: skip
    for place in grid.flat:
        place.axis("off")
    for place, picture, label in zip(grid.flat, pictures, labels, strict=False):
        place.imshow(picture, cmap="gray_r")
        place.set_title(str(label), fontsize=10)
    if title:
        figure.suptitle(title, fontsize=11)
    return grid


def plot_history(loss: Sequence[float], accuracy: Sequence[float], *, goal: float = 0.98) -> Axes:
    """Training loss and held-out accuracy by epoch, side by side; returns the accuracy's axes.

    Args:
        accuracy: shares, 0 to 1.
        goal: share to mark with a line.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained", facecolor="white")
    epochs = np.arange(1, len(loss) + 1)
    axes("Training loss", x="epoch", y="cross-entropy (nats)", into=left)
    left.plot(epochs, loss, "o-", color=COLORS[0])
    left.set_ylim(bottom=0)
    axes("Right on held-out digits", x="epoch", y="accuracy (%)", into=right)
    right.plot(epochs, 100 * np.asarray(accuracy), "o-", color=COLORS[1])
    right.axhline(100 * goal, color="#888888", linestyle="--", linewidth=1)
    right.annotate(f"goal {goal:.0%}", (1, 100 * goal), xytext=(0, -12), textcoords="offset points", fontsize=9)
    return right


def plot_confusion(confusion: np.ndarray, *, classes: Sequence[str] = CLASSES) -> Axes:
    """How often each true class (row) was called what (column); mistakes stand out in colour.

    Args:
        confusion: int (classes, classes).
    """
    result = axes("What held-out digits were taken for", x="predicted digit", y="true digit", size=(5.6, 5.2))
    result.grid(visible=False)
    mistakes = confusion * (1 - np.eye(len(confusion), dtype=int))
    shade = np.where(np.eye(len(confusion), dtype=bool), 0.18, mistakes / max(mistakes.max(), 3))
    result.imshow(shade, cmap="Oranges", vmin=0, vmax=1.3)
    for row, column in zip(*np.nonzero(confusion), strict=True):
        wrong = row != column
        result.text(
            column, row, confusion[row, column], ha="center", va="center", fontsize=10,
            weight="bold" if wrong else "normal", color="black",
        )  # fmt: skip
    result.set_xticks(range(len(classes)), classes)
    result.set_yticks(range(len(classes)), classes)
    return result


def plot_callers(latencies_ms: Mapping[str, np.ndarray], *, title: str) -> Axes:
    """Latency distributions of several situations, one row each: every call a dot, the median a bar.

    Args:
        latencies_ms: what the row stands for → latencies in milliseconds.
    """
    result = axes(title, x="latency one caller sees (ms)", y="", size=(8.0, 1.0 + 0.95 * len(latencies_ms)))
    chance = np.random.default_rng(0)
    for row, values in enumerate(latencies_ms.values()):
        height = row + chance.uniform(-0.22, 0.22, len(values))
        result.plot(values, height, ".", color=COLORS[row % len(COLORS)], alpha=0.35, markersize=5)
        median = float(np.median(values))
        result.plot([median, median], [row - 0.36, row + 0.36], color="black", linewidth=2)
        result.annotate(
            f"median {median:.3g} ms", (median, row + 0.36), xytext=(4, -2), textcoords="offset points", fontsize=9
        )
    result.set_yticks(range(len(latencies_ms)), list(latencies_ms))
    result.set_ylim(-0.55, len(latencies_ms) - 0.35)
    result.set_xlim(left=0)
    return result


def plot_latency(table: pd.DataFrame, *, title: str = "Time per call") -> Axes:
    """Median latency by batch size, one line per engine, both axes doubling.

    Args:
        table: columns engine, batch, median_ms and p95_ms, as `export.latency_table` returns.
    """
    result = axes(title, x="batch size (images per call)", y="median latency (ms)")
    for number, (engine, rows) in enumerate(table.groupby("engine", sort=False)):
        style = curve_style(number)
        color = style["color"]
        result.plot(rows["batch"], rows["median_ms"], label=engine, **style)
        result.fill_between(rows["batch"], rows["median_ms"], rows["p95_ms"], color=color, alpha=0.15, linewidth=0)
    first = table.sort_values(["batch", "median_ms"]).iloc[0]
    batches = [first["batch"], table["batch"].max()]
    times = [first["median_ms"] * batch / first["batch"] for batch in batches]
    result.plot(batches, times, ":", color="gray", label="twice the images, twice the time")
    result.set_xscale("log", base=2)
    result.set_yscale("log", base=2)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    result.set_ylim(table["median_ms"].min() / 1.5, table["median_ms"].max() * 4)  # one hiccup must not set the scale
    result.yaxis.set_major_locator(LogLocator(base=2, numticks=20))
    for axis in (result.xaxis, result.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(NullLocator())
    result.set_xticks(sorted(table["batch"].unique()))
    result.legend(title="shading: up to p95", frameon=False)
    return result


def plot_prediction(
    question: str, *, guess: float | None, measured: float, unit: str = "", example: bool = False
) -> Axes:
    """A guess and what was measured, one bar each; the axis is logarithmic when they are far apart.

    Args:
        guess: None if there was none.
        example: whether the guess is the notebook's example and nobody's own.
    """
    values = {"the example's guess" if example else "your guess": guess, "measured": measured}
    bars = {name: value for name, value in values.items() if value is not None}
    counted = len(unit) > 3 and unit.isalpha() and all(float(value).is_integer() for value in bars.values())
    label = f"number of {unit}" if counted else f"{_quantity(unit)} ({unit})" if unit else "value"
    result = axes(textwrap.fill(question, 70), x=label, y="", size=(7.2, 1.3 + 0.45 * len(bars)))
    positive = min(bars.values()) > 0
    wide = positive and max(bars.values()) > 20 * min(bars.values())
    for row, (name, value) in enumerate(bars.items()):
        result.barh(row, value, color=COLORS[name == "measured"], height=0.6)
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        shown = shown if counted else f"{shown}{unit}" if unit == "×" else f"{shown} {unit}"
        result.annotate(shown, (value, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=10)
    if wide:
        result.set_xscale("log")
        result.set_xlim(min(bars.values()) / 5, max(bars.values()) * 15)
        result.set_xlabel(f"{label}, each step ten times the one before")
    else:
        low, high = min(0, *bars.values()), max(0, *bars.values())
        result.set_xlim(low * 1.2, (high or 1) * 1.2)
        if counted:
            result.xaxis.set_major_locator(MaxNLocator(integer=True))
    result.set_yticks(range(len(bars)), list(bars))
    result.set_axisbelow(True)
    result.invert_yaxis()
    return result


def _quantity(unit: str) -> str:
    """What is measured in a unit, for an axis."""
    if unit in ("ns", "µs", "us", "ms", "s", "min", "h"):
        return "time"
    if unit.endswith("/s"):
        return "rate"
    return {"×": "factor", "%": "share", "KiB": "size", "MiB": "size", "GiB": "size"}.get(unit, "value")
