"""The load lab: send requests by a plan, and read what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.load.arrivals import PATTERNS, USER_TESTS, Bursts, Every, Poisson, Replay, Users, pattern
    from tutorial_lib.load.ceiling import generator_ceiling
    from tutorial_lib.load.known_server import KnownServer
    from tutorial_lib.load.perf_analyzer import PerfAnalyzer, PerfReport, find_perf_analyzer, run_perf_analyzer
    from tutorial_lib.load.perf_analyzer_fetch import fetch_perf_analyzer
    from tutorial_lib.load.result import LoadResult, results_table
    from tutorial_lib.load.run import run_load
    from tutorial_lib.load.samples import Samples
    from tutorial_lib.load.search import Saturation, find_saturation
    from tutorial_lib.load.shares import GeneratorShare, ServerShare
    from tutorial_lib.load.target import EndpointTarget, GrpcTarget, HttpTarget, triton_target

_HOMES = {
    **dict.fromkeys(
        ("PATTERNS", "USER_TESTS", "Bursts", "Every", "Poisson", "Replay", "Users", "pattern"),
        "tutorial_lib.load.arrivals",
    ),
    **dict.fromkeys(("LoadResult", "results_table"), "tutorial_lib.load.result"),
    **dict.fromkeys(("GeneratorShare", "ServerShare"), "tutorial_lib.load.shares"),
    "KnownServer": "tutorial_lib.load.known_server",
    **dict.fromkeys(("Saturation", "find_saturation"), "tutorial_lib.load.search"),
    "generator_ceiling": "tutorial_lib.load.ceiling",
    "run_load": "tutorial_lib.load.run",
    **dict.fromkeys(
        ("PerfAnalyzer", "PerfReport", "find_perf_analyzer", "run_perf_analyzer"), "tutorial_lib.load.perf_analyzer"
    ),
    "fetch_perf_analyzer": "tutorial_lib.load.perf_analyzer_fetch",
    "Samples": "tutorial_lib.load.samples",
    **dict.fromkeys(("EndpointTarget", "GrpcTarget", "HttpTarget", "triton_target"), "tutorial_lib.load.target"),
}

__all__ = [
    "PATTERNS",
    "USER_TESTS",
    "Bursts",
    "EndpointTarget",
    "Every",
    "GeneratorShare",
    "GrpcTarget",
    "HttpTarget",
    "KnownServer",
    "LoadResult",
    "PerfAnalyzer",
    "PerfReport",
    "Poisson",
    "Replay",
    "Samples",
    "Saturation",
    "ServerShare",
    "Users",
    "fetch_perf_analyzer",
    "find_perf_analyzer",
    "find_saturation",
    "generator_ceiling",
    "pattern",
    "results_table",
    "run_load",
    "run_perf_analyzer",
    "triton_target",
]

__getattr__ = lazy_names(__name__, _HOMES)
