"""Checkpoint to Triton: the helper library behind the workshop's notebooks.

The names below are what a notebook needs first; they are imported when they are used, so that the
command line starts quickly. Everything else is in the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.course.catch_up import catch_up
    from tutorial_lib.course.record import record, skip
    from tutorial_lib.paths import workspace
    from tutorial_lib.server import serve
    from tutorial_lib.versions import capability_line

_HOMES = {
    "capability_line": "tutorial_lib.versions",
    "catch_up": "tutorial_lib.course.catch_up",
    "record": "tutorial_lib.course.record",
    "serve": "tutorial_lib.server",
    "skip": "tutorial_lib.course.record",
    "workspace": "tutorial_lib.paths",
}

__all__ = ["capability_line", "catch_up", "record", "serve", "skip", "workspace"]


__getattr__ = lazy_names(__name__, _HOMES)
