"""Timelines as pictures: requests, the queue and the instances above one clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tutorial_lib import plots
from tutorial_lib.timeline.timeline import Timeline

WAITING = "#9a9a9a"
MOST = 60  # requests of a picture: more cannot be told apart
COLORS = (*plots.COLORS[:4], "#2f7fb8", "#a06a2c")


def plot_timeline(*timelines: Timeline, titles: tuple[str, ...] = (), most: int = MOST) -> np.ndarray:
    """Arrivals → queue → batches → instances, one column per timeline.

    Above, a line per request: grey while it waits, in its batch's colour while that runs. In the middle, how
    many wait. Below, a row per instance with a box per batch and the number of requests in it.

    Args:
        timelines: one or more, such as a measured and a simulated one.
        titles: what stands above each; its label by default.
        most: the first requests only.

    Returns:
        The axes, (3, columns).
    """
    shown = [_first(timeline, most) for timeline in timelines]
    lanes = max(timeline.instances for timeline in shown)
    _, grid = plt.subplots(
        3, len(shown), sharex=True, sharey="row", squeeze=False, layout="constrained", facecolor="white",
        figsize=(4.9 * len(shown) + 1.2, 4.6 + 0.3 * lanes), height_ratios=(5, 2, 0.9 + 0.75 * lanes),
    )  # fmt: skip
    for column, timeline in enumerate(shown):
        title = titles[column] if column < len(titles) else timeline.label
        _requests(grid[0, column], timeline, title)
        _queue(grid[1, column], timeline)
        _instances(grid[2, column], timeline, lanes)
    for name, place in zip(("request", "waiting", "instance"), grid[:, 0], strict=True):
        place.set_ylabel(name)
    grid[0, 0].invert_yaxis()
    grid[2, 0].invert_yaxis()
    grid[0, 0].set_xlim(left=0)
    for place in grid[:2].flat:
        place.tick_params(labelbottom=False)
    return grid


def _first(timeline: Timeline, most: int) -> Timeline:
    if len(timeline.arrival_s) <= most:
        return timeline
    first = timeline.between(0, float(timeline.arrival_s[most]))
    return replace(first, label=f"{timeline.label} · first {len(first.arrival_s)} requests")


def _style(axes: Axes) -> None:
    axes.grid(alpha=0.25, axis="x")
    axes.spines[["top", "right"]].set_visible(False)


def _requests(axes: Axes, timeline: Timeline, title: str) -> None:
    _style(axes)
    axes.set_title(
        f"{title}\nmean batch {timeline.mean_batch:.1f} · p95 {timeline.p95_ms:.1f} ms", fontsize=10, loc="left"
    )
    rows = np.arange(1, len(timeline.arrival_s) + 1)
    colors = [COLORS[number % len(COLORS)] for number in timeline.batch]
    wide = 3 if len(rows) > 40 else 4
    axes.hlines(rows, 1000 * timeline.arrival_s, 1000 * timeline.start_s, color=WAITING, linewidth=1.2)
    axes.hlines(rows, 1000 * timeline.start_s, 1000 * timeline.end_s, color=colors, linewidth=wide)
    axes.plot(1000 * timeline.arrival_s, rows, ".", color="black", markersize=4)


def _queue(axes: Axes, timeline: Timeline) -> None:
    _style(axes)
    at = np.unique(np.concatenate([timeline.arrival_s, timeline.start_s, [timeline.end_s.max()]]))
    axes.fill_between(1000 * at, timeline.queued(at), step="post", color=WAITING, alpha=0.6, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.get_major_locator().set_params(integer=True)


def _instances(axes: Axes, timeline: Timeline, lanes: int) -> None:
    _style(axes)
    end_ms = 1000 * float(timeline.end_s.max())
    for number, batch in enumerate(timeline.batches):
        start, width = 1000 * batch.start_s, 1000 * (batch.end_s - batch.start_s)
        color = COLORS[number % len(COLORS)]
        axes.barh(batch.instance + 1, width, left=start, height=0.7, color=color, edgecolor="white", linewidth=0.5)
        if width > 0.022 * end_ms:
            axes.text(
                start + width / 2, batch.instance + 1, batch.size, ha="center", va="center", color="white", fontsize=8
            )
    axes.set_yticks(range(1, lanes + 1))
    axes.set_ylim(0.5, lanes + 0.5)
    axes.set_xlabel("time (ms)")
