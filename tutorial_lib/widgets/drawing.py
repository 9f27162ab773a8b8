"""Eight by eight cells to draw a digit in, made of ipywidgets alone."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import numpy as np

from tutorial_lib.datasets import RAW_MAX, RAW_SIDE
from tutorial_lib.widgets import markup

CELL_PX = 26


class Drawing:
    """A page of cells; a click turns paper into ink and ink into paper.

    Args:
        changed: called after every click.

    Attributes:
        picture: float32 (8, 8), ink from 0 (paper) to 16.
        box: the widget.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.picture = np.zeros((RAW_SIDE, RAW_SIDE), np.float32)
        self._styles: dict[str, ipywidgets.ButtonStyle] = {}  # cells of one shade share one: fewer messages
        cell = ipywidgets.Layout(
            width=f"{CELL_PX}px", height=f"{CELL_PX}px", margin="0", padding="0", border="1px solid #c8c8c8"
        )
        self.cells = [
            ipywidgets.Button(tooltip=f"row {row + 1}, column {column + 1}", layout=cell, style=self._style(0.0))
            for row in range(RAW_SIDE)
            for column in range(RAW_SIDE)
        ]
        for place, button in enumerate(self.cells):
            button.on_click(lambda _, place=place: self.click(*divmod(place, RAW_SIDE)))
        grid = ipywidgets.Layout(grid_template_columns=f"repeat({RAW_SIDE}, {CELL_PX}px)", grid_gap="0")
        self.box = ipywidgets.GridBox(self.cells, layout=grid)
        self.box.add_class("workshop-drawing")

    def click(self, row: int, column: int) -> None:
        """Turn one cell over."""
        self.picture[row, column] = 0 if self.picture[row, column] >= RAW_MAX / 2 else RAW_MAX
        self._colour(row * RAW_SIDE + column)
        self._changed()

    def set(self, picture: np.ndarray) -> None:
        """Show another picture.

        Args:
            picture: (8, 8), ink from 0 to 16.
        """
        self.picture = np.array(picture, np.float32)
        for place in range(len(self.cells)):
            self._colour(place)

    def _colour(self, place: int) -> None:
        style = self._style(float(self.picture.flat[place]))
        if self.cells[place].style is not style:
            self.cells[place].style = style

    def _style(self, ink: float) -> ipywidgets.ButtonStyle:
        colour = markup.shade(ink, RAW_MAX)
        if colour not in self._styles:
            self._styles[colour] = ipywidgets.ButtonStyle(button_color=colour)
        return self._styles[colour]
