"""Reading measurements: the knee of a curve, the best setting under a limit."""

from __future__ import annotations

import pandas as pd

from tutorial_lib.errors import LoadError

TIE = 0.95  # throughputs this near to each other are equal on a small machine


def best_row(table: pd.DataFrame, *, p95_limit_ms: float) -> pd.Series:
    """The row with the highest throughput among those whose p95 keeps the limit.

    Rows within 5 % of that throughput count as equal; of these the one with the lowest p95 is taken.

    Args:
        table: columns throughput_rps and p95_ms; rows without numbers are left out.
        p95_limit_ms: inclusive.

    Raises:
        LoadError: no row keeps the limit.
    """
    measured = table.dropna(subset=["throughput_rps", "p95_ms"])
    kept = measured[measured["p95_ms"].astype(float) <= p95_limit_ms]
    if kept.empty:
        lowest = f"{measured['p95_ms'].min():.1f} ms" if len(measured) else "nothing measured"
        raise LoadError(
            f"settings: found none with p95 ≤ {p95_limit_ms:g} ms; the lowest is {lowest}.",
            action="Lower the load, or raise the limit.",
        )
    near = kept[kept["throughput_rps"].astype(float) >= TIE * kept["throughput_rps"].astype(float).max()]
    return near.loc[near["p95_ms"].astype(float).idxmin()]


def knee(table: pd.DataFrame) -> pd.Series:
    """The knee of a throughput–latency curve: where throughput per latency is highest.

    Below it, more load is answered almost as quickly; above it, requests mostly wait.

    Args:
        table: a row per load, columns throughput_rps and mean_ms.

    Raises:
        LoadError: the table is empty.

    Source: L. Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
    communications", ICC 1979.
    """
    if table.empty:
        raise LoadError("curve: found no measurement, expected one or more.")
    power = table["throughput_rps"].astype(float) / table["mean_ms"].astype(float)
    return table.loc[power.idxmax()]
