"""A small discrete-event simulator of Triton's dynamic batcher: what to expect, before it is measured."""

from tutorial_lib.simulate.batcher import Batching
from tutorial_lib.simulate.run import simulate
from tutorial_lib.simulate.service import Service, service_of

__all__ = ["Batching", "Service", "service_of", "simulate"]
