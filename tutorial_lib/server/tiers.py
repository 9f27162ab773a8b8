"""Which of the four tiers this machine has."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tutorial_lib.errors import SetupError
from tutorial_lib.server.container import require_docker
from tutorial_lib.server.locate import IMAGE_ROOT, find_installation


def available_tiers() -> pd.DataFrame:
    """One row per tier: whether it is here, which server it is, and why not otherwise."""
    rows = [
        ("embedded", *_asked(_embedded), "the tritonserver of the PyPI wheel, on this CPU"),
        ("installed", *_asked(_installed), "the tritonserver of the NGC image this runs in"),
        ("container", *_asked(require_docker), "the NGC image, through Docker"),
        ("attached", True, "", "any server that runs already: serve(url=…)"),
    ]
    return pd.DataFrame(rows, columns=["tier", "here", "why not", "which server"]).set_index("tier")


def _asked(require: Callable[[], None]) -> tuple[bool, str]:
    try:
        require()
    except SetupError as error:
        return False, error.problem
    return True, ""


def _embedded() -> None:
    found = find_installation()
    if found.tier != "embedded":
        raise SetupError(f"the server found here is {found.binary}.")


def _installed() -> None:
    if not (IMAGE_ROOT / "bin" / "tritonserver").is_file():
        raise SetupError(f"there is no {IMAGE_ROOT}; this is not an NGC Triton image.")
