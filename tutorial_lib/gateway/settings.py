"""What a gateway is told, and the bounds of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tutorial_lib.errors import GatewayError

SCALINGS = ("INCEPTION", "IMAGENET", "NONE")
BUFFERED_MIB = 64.0
_BOUNDS = {
    "max_body_mib": (0.001, 256),
    "max_buffered_mib": (0.001, 4096),
    "max_pixels": (1, 178_000_000),  # Pillow itself refuses more
    "max_in_flight": (1, 100_000),
    "body_timeout_s": (0.01, 600),
    "default_timeout_s": (0.001, 600),
    "max_timeout_s": (0.001, 600),
    "health_timeout_s": (0.01, 60),
    "health_age_s": (0, 60),
}


@dataclass(frozen=True)
class Settings:
    """A gateway's settings.

    Attributes:
        triton: host and port of Triton's gRPC endpoint.
        models: the models served here; the first one answers `POST /predict`.
        scaling: how pixels become numbers unless a request says otherwise: "INCEPTION" (−1 to 1),
            "IMAGENET" (by channel, with the means and deviations of ImageNet) or "NONE" (0 to 255).
        max_body_mib: the largest request body.
        max_buffered_mib: what all bodies under way may take together; at least one of the largest.
        max_pixels: the largest picture, before it is decoded.
        max_in_flight: requests under way; one more gets 429.
        body_timeout_s: how long a client may take to send its body.
        default_timeout_s: a request's deadline, unless it brings its own.
        max_timeout_s: the longest deadline a request may bring.
        health_timeout_s: how long a model may take to answer the question that health asks.
        health_age_s: how old that answer may be; load balancers ask often.
    """

    triton: str
    models: tuple[str, ...]
    scaling: str = "INCEPTION"
    max_body_mib: float = 4.0
    max_buffered_mib: float = BUFFERED_MIB
    max_pixels: int = 16_000_000
    max_in_flight: int = 512
    body_timeout_s: float = 10.0
    default_timeout_s: float = 5.0
    max_timeout_s: float = 60.0
    health_timeout_s: float = 2.0
    health_age_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            GatewayError: a setting is out of its bounds.
        """
        object.__setattr__(self, "models", tuple(self.models))
        written = re.fullmatch(r"(?:[^\s/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", self.triton)
        if not written or not 1 <= int(written[1]) <= 65535:
            raise GatewayError(
                f"gateway: found triton '{self.triton}', expected the gRPC address as HOST:PORT.",
                action="Triton's default gRPC port is 8001; give no scheme.",
            )
        if not self.models or not all(isinstance(name, str) and name for name in self.models):
            raise GatewayError("gateway: found no model, expected the names of one or more.")
        if self.scaling not in SCALINGS:
            raise GatewayError(f"gateway: found scaling '{self.scaling}', expected one of {', '.join(SCALINGS)}.")
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise GatewayError(f"gateway: found {name} {value!r}, expected a number from {low:,} to {high:,}.")
        if self.max_body_mib > self.max_buffered_mib:  # such a body would be told to come back for ever
            raise GatewayError(
                f"gateway: found max_body_mib {self.max_body_mib:g}, expected at most max_buffered_mib, which is "
                f"{self.max_buffered_mib:g}: one body must fit into what all bodies may take together.",
                action=f"Raise max_buffered_mib to {self.max_body_mib:g} or more, or lower max_body_mib.",
            )
