"""Arrivals → queue → batches → instances of a real or simulated run, from Triton's trace or the simulator."""

from tutorial_lib.timeline.timeline import Batch, Timeline

__all__ = ["Batch", "Timeline"]
