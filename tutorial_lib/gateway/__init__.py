"""An HTTP gateway in front of Triton: pictures in, class names out, with limits, deadlines and back-pressure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.gateway.app import create_app
    from tutorial_lib.gateway.settings import Settings
    from tutorial_lib.gateway.start import start_gateway

__all__ = ["Settings", "create_app", "start_gateway"]

__getattr__ = lazy_names(
    __name__,
    {
        "Settings": "tutorial_lib.gateway.settings",
        "create_app": "tutorial_lib.gateway.app",
        "start_gateway": "tutorial_lib.gateway.start",
    },
)
