"""Arrivals → queue → batches → instances of a real or simulated run, from Triton's trace or the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names
from tutorial_lib.timeline.timeline import Batch, Timeline

if TYPE_CHECKING:
    from tutorial_lib.timeline.plot import plot_timeline
    from tutorial_lib.timeline.trace import Trace, timeline_of, trace_arguments, traced

_HOMES = {
    "plot_timeline": "tutorial_lib.timeline.plot",
    **dict.fromkeys(("Trace", "timeline_of", "trace_arguments", "traced"), "tutorial_lib.timeline.trace"),
}

__all__ = ["Batch", "Timeline", "Trace", "plot_timeline", "timeline_of", "trace_arguments", "traced"]

__getattr__ = lazy_names(__name__, _HOMES)
