"""A load run's books, laid beside those of the server: the generator alone cannot notice what it miscounts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tutorial_lib.errors import NotebookError
from tutorial_lib.load import LoadResult
from tutorial_lib.load.samples import ERROR, OK, TIMEOUT

_COUNTER = "gateway_requests_total"


def gateway_counts(url: str) -> Counter[int]:
    """Answers that a gateway has given so far, by HTTP status.

    Args:
        url: of the gateway, "http://127.0.0.1:PORT".

    Raises:
        httpx.HTTPError: it does not answer.
    """
    return counts_in(httpx.get(f"{url}/metrics", trust_env=False).raise_for_status().text)


def counts_in(metrics: str) -> Counter[int]:
    """The same from the text of its `/metrics`."""
    counts: Counter[int] = Counter()
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == _COUNTER:
                counts[int(sample.labels["status"])] += int(sample.value)
    return counts


def resources_used(result: LoadResult) -> dict[str, float]:
    """ "CPU %" (100 is one core) and "memory MiB" of the watched processes together, each on average.

    nan where none was watched: nobody counted, which is not the same as nothing used.
    """
    rows = result.resources()
    if rows.empty:
        return {"CPU %": math.nan, "memory MiB": math.nan}
    used = rows.groupby("name")[["cpu_percent", "rss_mib"]].mean().sum()
    return {"CPU %": round(used["cpu_percent"]), "memory MiB": round(used["rss_mib"])}


def account(result: LoadResult, counted: Mapping[int, int] | None) -> dict[str, Any]:
    """What became of all requests of a run, its warm-up included.

    Args:
        result: what the generator says.
        counted: by HTTP status, what the server counted meanwhile; None if it does not count.

    Returns:
        "sent", "answered", "errors", "time-outs", "lost" by the generator, and "answered, says the server".

    Raises:
        NotebookError: the two differ by more than what the generator did not wait for or could not read.
    """
    samples = result.samples
    answered, errors, timeouts = (samples.count(status) for status in (OK, ERROR, TIMEOUT))
    books = {"sent": len(samples) - result.unsent, "answered": answered, "errors": errors, "time-outs": timeouts}
    books |= {"lost": result.lost, "answered, says the server": None if counted is None else counted.get(200, 0)}
    if result.lost:
        raise NotebookError(f"{result.target}: found {result.lost} requests that nobody accounts for, expected none.")
    unread = errors + timeouts + result.cut  # the server may have answered some of these
    if counted is not None and not answered <= counted.get(200, 0) <= answered + unread:
        more = f" to {answered + unread}" if unread else ""
        raise NotebookError(
            f"{result.target}: found {counted.get(200, 0)} answers that the server counted, expected {answered}{more}, "
            "as the generator did.",
            action="Does somebody else send requests to the same server? Else one of the two miscounts.",
        )
    return books
