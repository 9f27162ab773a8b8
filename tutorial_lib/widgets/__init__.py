"""Panels for notebooks: live where somebody can click, static HTML where nobody can.

A panel is an ordinary object. Where it is shown decides: in JupyterLab as widgets, in `./workshop run` and in
exported pages as plain HTML. Widget state is never saved into a notebook.
"""

from tutorial_lib.widgets.panel import Panel
from tutorial_lib.widgets.prediction_view import PredictionPanel, prediction_panel
from tutorial_lib.widgets.progress_view import ProgressPanel, progress_panel
from tutorial_lib.widgets.server_view import ServerPanel, server_panel
from tutorial_lib.widgets.simulator_view import SimulatorPanel, simulator_panel

__all__ = [
    "Panel",
    "PredictionPanel",
    "ProgressPanel",
    "ServerPanel",
    "SimulatorPanel",
    "prediction_panel",
    "progress_panel",
    "server_panel",
    "simulator_panel",
]
