"""Pictures of tuning: throughput–latency curves with their knees, and a sweep with its best setting."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from tutorial_lib import plots
from tutorial_lib.tuning.choose import knee
from tutorial_lib.tuning.sweep import Sweep


def plot_curves(curves: Mapping[str, pd.DataFrame], *, title: str, load: str = "callers") -> Axes:
    """Throughput against p95, one curve per setting, its points named by the load and its knee ringed.

    Args:
        curves: setting → a row per load, columns `load`, throughput_rps, mean_ms and p95_ms.
        load: the column with the load.
    """
    axes = plots.axes(title, x="throughput (requests/s)", y="p95 latency (ms)", size=(7.6, 4.4))
    for number, (name, table) in enumerate(curves.items()):
        style = plots.curve_style(number)
        color = style["color"]
        axes.plot(table["throughput_rps"], table["p95_ms"], label=name, markersize=4, **style)
        for row in table.itertuples():
            place = (row.throughput_rps, row.p95_ms)
            axes.annotate(getattr(row, load), place, xytext=(4, 4), textcoords="offset points", fontsize=8, color=color)
        bend = knee(table)
        axes.plot(
            bend["throughput_rps"],
            bend["p95_ms"],
            "o",
            markersize=13,
            markerfacecolor="none",
            color=color,
            clip_on=False,
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, title=f"numbers: {load} · ring: the knee")
    return axes


def plot_sweep(result: Sweep, *, p95_limit_ms: float, best: pd.Series, title: str) -> Axes:
    """Every setting as a point, the limit as a line, the best one ringed.

    Args:
        result: with columns throughput_rps and p95_ms.
        best: the row to ring.
    """
    table = result.table.dropna(subset=["throughput_rps", "p95_ms"])
    axes = plots.axes(title, x="p95 latency (ms)", y="", size=(8.4, 1.3 + 0.34 * len(table)), tier=result.label)
    order = table.sort_values("throughput_rps").reset_index(drop=True)
    names = [short_name(result.setting(row)) for row in order.to_dict("records")]
    kept = order["p95_ms"].astype(float) <= p95_limit_ms
    colors = [plots.COLORS[1] if keeps else "#b0b0b0" for keeps in kept]
    axes.barh(names, order["p95_ms"].astype(float), color=colors, height=0.65)
    axes.axvline(p95_limit_ms, color="black", linestyle="--", linewidth=1)
    axes.annotate(f"limit {p95_limit_ms:g} ms", (p95_limit_ms, len(order) - 0.4), xytext=(3, 0),
                  textcoords="offset points", fontsize=9, annotation_clip=False)  # fmt: skip
    chosen = short_name(result.setting(best.to_dict()))
    for row, (name, rps, p95) in enumerate(zip(names, order["throughput_rps"], order["p95_ms"], strict=True)):
        text = f"{rps:,.0f} requests/s" + (" ← best" if name == chosen else "")
        weight = "bold" if name == chosen else "normal"
        axes.annotate(
            text, (float(p95), row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9, weight=weight
        )
    axes.set_xlim(0, 1.35 * max(float(order["p95_ms"].max()), p95_limit_ms))
    return axes


def short_name(setting: Mapping[str, object]) -> str:
    """A setting in a few words: "2 × 1 thread, batching, 1 ms"."""
    words = []
    if "instances" in setting:
        words.append(f"{setting['instances']} inst.")
    if "threads" in setting:
        words.append(f"{setting['threads']} thr.")
    if "dynamic" in setting:
        words.append("batching" if setting["dynamic"] else "no batching")
    if setting.get("queue_delay_us") is not None:
        words.append(f"delay {setting['queue_delay_us'] / 1000:g} ms")
    words += [f"{name}={value}" for name, value in setting.items()
              if name not in ("instances", "threads", "dynamic", "queue_delay_us")]  # fmt: skip
    return ", ".join(words)
