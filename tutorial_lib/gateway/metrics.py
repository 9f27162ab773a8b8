"""What Prometheus reads from a gateway."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The counters of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "gateway_requests", "Requests by model, status and reason.", ["model", "status", "code"],
            registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "gateway_request_seconds", "From the first byte to the answer.", ["model"], buckets=_BUCKETS_S,
            registry=self.registry,
        )  # fmt: skip
        self.triton_seconds = Histogram(
            "gateway_triton_seconds", "Waiting for Triton's answer.", ["model"], buckets=_BUCKETS_S,
            registry=self.registry,
        )  # fmt: skip
        self.in_flight = Gauge("gateway_in_flight", "Requests under way.", registry=self.registry)
        self.buffered = Gauge("gateway_buffered_bytes", "Bytes of bodies under way.", registry=self.registry)

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)
