"""The picture at the top of every notebook: the whole way, with the present step marked."""

from __future__ import annotations

import html
from dataclasses import dataclass

from tutorial_lib.paths import NOTEBOOKS

# number, what one does there, what it leaves
STEPS = (
    ("01", "train", "checkpoint"),
    ("02", "export", "model.onnx"),
    ("03", "build", "TensorRT engine"),
    ("04", "describe", "config.pbtxt"),
    ("05", "launch", "Triton, ready"),
    ("06", "call", "answers"),
    ("07", "scale up", "batches, instances"),
    ("08", "chain", "CLIP ensemble"),
    ("09", "vary", "text of any length"),
    ("10", "replace", "the naive app"),
    ("11", "operate", "metrics, versions"),
    ("12", "scale out", "replicas"),
)
_PER_ROW = 6
_WIDTH, _HEIGHT, _GAP = 128, 50, 22
_ROW_NAMES = ("one model, from training to answers", "the same server under load and in production")
_GREEN = "#4c9a2a"


@dataclass(frozen=True)
class Pipeline:
    """Shows itself as a drawing that fits light and dark pages, or as a line of text.

    Attributes:
        current: the number of the present step; "00" marks none.
    """

    current: str

    def __repr__(self) -> str:
        return " → ".join(f"[{number} {verb}]" if number == self.current else verb for number, verb, _ in STEPS)

    def _repr_html_(self) -> str:
        parts = [_row_name(row) for row in range(len(_ROW_NAMES))]
        parts += [self._box(index) for index in range(len(STEPS))]
        width = _PER_ROW * (_WIDTH + _GAP) - _GAP + 4
        # text takes the page's own colour; fills are translucent
        return (
            f'<svg role="img" aria-label="{html.escape(repr(self))}" viewBox="0 0 {width} 196" '
            f'style="width:100%;max-width:{width}px;color:var(--jp-ui-font-color1,currentColor);'
            'font-family:system-ui,sans-serif" xmlns="http://www.w3.org/2000/svg">'
            f"{''.join(parts)}</svg>"
        )

    def _box(self, index: int) -> str:
        number, verb, leaves = STEPS[index]
        here, written = number == self.current, any(NOTEBOOKS.glob(f"{number}_*.ipynb"))
        done = written and number < self.current
        x = 2 + index % _PER_ROW * (_WIDTH + _GAP)
        y = 22 + index // _PER_ROW * 102
        fill = f'fill="{_GREEN}"' if here else 'fill="#888888" fill-opacity="0.12"'
        edge = f'stroke="{_GREEN}" stroke-width="2"' if here or done else 'stroke="#888888" stroke-opacity="0.55"'
        if not written:  # a step of the plan whose notebook is still to come
            edge += ' stroke-dasharray="4 4"'
        color = "#ffffff" if here else "currentColor"
        middle, mark = x + _WIDTH / 2, "✓ " if done else ""
        arrow = ""
        if index % _PER_ROW < _PER_ROW - 1:
            start, end, level = x + _WIDTH + 3, x + _WIDTH + _GAP - 4, y + _HEIGHT / 2
            arrow = (
                f'<path d="M{start} {level}H{end}m-6 -4l6 4l-6 4" fill="none" stroke="currentColor" '
                'stroke-opacity="0.6" stroke-width="1.5"/>'
            )
        return (
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" {fill} {edge}/>'
            f'<text x="{middle}" y="{y + 20}" text-anchor="middle" font-size="11" fill="{color}" '
            f'fill-opacity="0.8">{mark}{number}</text>'
            f'<text x="{middle}" y="{y + 38}" text-anchor="middle" font-size="15" font-weight="600" '
            f'fill="{color}">{html.escape(verb)}</text>'
            f'<text x="{middle}" y="{y + _HEIGHT + 15}" text-anchor="middle" font-size="11" '
            f'fill="currentColor" fill-opacity="0.75">{html.escape(leaves)}</text>{arrow}'
        )


def pipeline(current: str = "00") -> Pipeline:
    """The steps of the course with one marked; earlier ones carry a tick, those to come are dashed.

    Args:
        current: a notebook's number, such as "01"; "00" marks none.

    Raises:
        ValueError: there is no such step.
    """
    known = ("00", *(number for number, _, _ in STEPS))
    if current not in known:
        raise ValueError(f"pipeline: found step {current!r}, expected one of {', '.join(known)}.")
    return Pipeline(current)


def _row_name(row: int) -> str:
    return (
        f'<text x="2" y="{13 + row * 102}" font-size="11" fill="currentColor" fill-opacity="0.75" '
        f'letter-spacing="0.4">{_ROW_NAMES[row]}</text>'
    )
