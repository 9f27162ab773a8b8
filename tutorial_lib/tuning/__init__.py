"""Edit, reload, measure: settings in Triton's protobuf, a sweep that can be interrupted, and the best of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutorial_lib.lazy import lazy_names

if TYPE_CHECKING:
    from tutorial_lib.tuning.choose import best_row, knee
    from tutorial_lib.tuning.plot import plot_curves, plot_sweep
    from tutorial_lib.tuning.settings import config_diff, with_settings, write_config
    from tutorial_lib.tuning.sweep import Sweep, forget, load_config, loaded_back, measure_load, run_sweep

_HOMES = {
    **dict.fromkeys(("best_row", "knee"), "tutorial_lib.tuning.choose"),
    **dict.fromkeys(("plot_curves", "plot_sweep"), "tutorial_lib.tuning.plot"),
    **dict.fromkeys(("config_diff", "with_settings", "write_config"), "tutorial_lib.tuning.settings"),
    **dict.fromkeys(
        ("Sweep", "forget", "load_config", "loaded_back", "measure_load", "run_sweep"), "tutorial_lib.tuning.sweep"
    ),
}

__all__ = [
    "Sweep",
    "best_row",
    "config_diff",
    "forget",
    "knee",
    "load_config",
    "loaded_back",
    "measure_load",
    "plot_curves",
    "plot_sweep",
    "run_sweep",
    "with_settings",
    "write_config",
]

__getattr__ = lazy_names(__name__, _HOMES)
