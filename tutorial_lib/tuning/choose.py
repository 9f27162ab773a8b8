"""Reading measurements: the knee of a curve, the best setting under a limit."""

from __future__ import annotations

import pandas as pd

from tutorial_lib.errors import LoadError

TIE = 0.95  # throughputs this near to each other are equal on a small machine


def best_row(table: pd.DataFrame, *, p95_limit_ms: float) -> pd.Series:
    """The row with the highest throughput among those without a failed request whose p95 keeps the limit.

    Rows within 5 % of that throughput count as equal; of these the one with the lowest p95 is taken.

    Args:
        table: columns throughput_rps and p95_ms, and, where they are known, errors (how many requests failed) and
            error (words); rows without numbers or with failures are left out.
        p95_limit_ms: inclusive.

    Raises:
        LoadError: no row keeps the limit.
    """
    measured = table.dropna(subset=["throughput_rps", "p95_ms"])
    without = measured[~_failed(measured)]
    if measured.shape[0] and without.empty:
        raise LoadError(
            f"settings: found failed requests in all {len(measured)} rows, expected one without.",
            action="Lower the load, or look at what the server says of them.",
        )
    measured = without
    kept = measured[measured["p95_ms"].astype(float) <= p95_limit_ms]
    if kept.empty:
        lowest = f"{measured['p95_ms'].min():.1f} ms" if len(measured) else "nothing measured"
        raise LoadError(
            f"settings: found none with p95 ≤ {p95_limit_ms:g} ms; the lowest is {lowest}.",
            action="Lower the load, or raise the limit.",
        )
    near = kept[kept["throughput_rps"].astype(float) >= TIE * kept["throughput_rps"].astype(float).max()]
    return near.loc[near["p95_ms"].astype(float).idxmin()]


def _failed(table: pd.DataFrame) -> pd.Series:
    """Which rows have failed requests, or words on why they are no measurement."""
    failed = pd.Series(False, index=table.index)
    if "errors" in table:
        failed |= table["errors"].fillna(0).astype(float) > 0
    if "error" in table:
        failed |= table["error"].fillna("").astype(str) != ""
    return failed


def knee(table: pd.DataFrame) -> pd.Series:
    """The knee of a throughput–latency curve: where throughput per latency is highest.

    Below it, more load is answered almost as quickly; above it, requests mostly wait.

    Args:
        table: a row per load, columns throughput_rps and mean_ms; rows without numbers are left out.

    Raises:
        LoadError: no row has numbers.

    Source: L. Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
    communications", ICC 1979.
    """
    power = (table["throughput_rps"].astype(float) / table["mean_ms"].astype(float)).dropna()
    if power.empty:
        raise LoadError(
            f"curve: found no measurement in {len(table)} rows, expected throughput and mean latency in one or more.",
            action="Measure again; if no request is answered, send one by hand first.",
        )
    return table.loc[power.idxmax()]
