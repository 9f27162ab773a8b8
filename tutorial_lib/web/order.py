"""What a child process is told to serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

IDENTITY_HEADER = "x-workshop-server"  # in every answer, so that a stranger on the port is not taken for the child
ORDER_VARIABLE = "WORKSHOP_APP_ORDER"  # how uvicorn's workers hear of it


def order(factory: str, settings: Mapping[str, Any], *, port: int, workers: int, identity: str) -> str:
    """The order as JSON."""
    told = {"factory": factory, "settings": dict(settings), "port": port, "workers": workers, "identity": identity}
    return json.dumps(told)
