"""The simulator panel: turn the batcher's knobs, and see at once what they would do."""

from __future__ import annotations

import base64
import io

import ipywidgets
import numpy as np

from tutorial_lib.load.checks import number, seeded
from tutorial_lib.simulate import Batching, Service, simulate
from tutorial_lib.timeline.timeline import Timeline
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.panel import Panel

REQUESTS = 4000  # enough for a p95
SHOWN = 40  # of them are drawn
STRETCH = 1.15  # latencies that still grow by as much from the first half to the second have no steady state


class SimulatorPanel(Panel):
    """Queue delay, instances and arrival rate, and the timeline that the simulator makes of them.

    Args:
        service: how long a batch takes.
        batching: what to begin with.
        rate_hz: requests per second to begin with, arriving at random (Poisson).
        seed: of the arrivals.
    """

    title = "What would the batcher do?"

    def __init__(self, service: Service, batching: Batching, *, rate_hz: float, seed: int = 0) -> None:
        super().__init__()
        self.service, self.batching = service, batching
        self.rate_hz = _rate(rate_hz)
        self._gaps = seeded(seed).exponential(1.0, REQUESTS)
        self._picture = ""

    def choose(
        self, *, delay_ms: float | None = None, instances: int | None = None, rate_hz: float | None = None
    ) -> None:
        """Turn knobs; None leaves one as it is."""
        before = self.batching
        self.batching = Batching(
            before.max_batch_size,
            before.dynamic,
            before.queue_delay_us if delay_ms is None else round(1000 * delay_ms),
            before.preferred,
            before.instances if instances is None else instances,
        )
        self.rate_hz = self.rate_hz if rate_hz is None else _rate(rate_hz)

    def timeline(self) -> Timeline:
        """The simulated run."""
        return simulate(self.batching, self.service, arrivals_s=np.cumsum(self._gaps) / self.rate_hz)

    def _look(self) -> None:
        self._picture = self._static()
        self._say("")
        self._show()

    def _show(self) -> None:
        if self._widget is not None:
            self._shown.value = self._picture

    def _static(self) -> str:
        timeline = self.timeline()
        knobs = (
            f"{self.rate_hz:g} requests/s · delay {self.batching.queue_delay_us / 1000:g} ms · "
            f"{self.batching.instances} instance{'s' if self.batching.instances > 1 else ''} · "
            f"a batch takes {self.service}"
        )
        numbers = (
            f"mean batch {timeline.mean_batch:.1f} · p50 {timeline.p50_ms:.1f} ms · p95 {timeline.p95_ms:.1f} ms · "
            f"instances busy {timeline.busy:.0%}"
        )
        parts = [markup.note(knobs, colour=markup.GREY), markup.note(numbers)]
        if overloaded(timeline):
            parts.append(markup.problem("More comes in than is served: the queue grows for as long as this goes on."))
        return "".join(parts) + picture(timeline)

    def _build(self) -> ipywidgets.Widget:
        self._shown = ipywidgets.HTML()
        self._shown.add_class("workshop-simulation")
        wide = {"layout": ipywidgets.Layout(width="330px"), "style": {"description_width": "90px"}}
        delay = ipywidgets.FloatSlider(
            value=self.batching.queue_delay_us / 1000, min=0, max=20, step=0.5, description="delay (ms)", **wide
        )
        instances = ipywidgets.IntSlider(value=self.batching.instances, min=1, max=4, description="instances", **wide)
        most = max(100, 4 * self.rate_hz)
        rate = ipywidgets.FloatSlider(
            value=self.rate_hz, min=10, max=most, step=10, readout_format=".0f", description="requests/s", **wide
        )
        for slider, name in ((delay, "delay_ms"), (instances, "instances"), (rate, "rate_hz")):
            slider.observe(lambda change, name=name: self._turned(name, change["new"]), "value")
        self.sliders = {"delay_ms": delay, "instances": instances, "rate_hz": rate}
        knobs = ipywidgets.HBox([delay, instances, rate])
        knobs.layout.flex_flow = "row wrap"
        box = ipywidgets.VBox([knobs, self._message, self._shown])
        box.layout = ipywidgets.Layout(border="1px solid #76b900", padding="6px 10px", max_width="1000px")
        box.add_class("workshop-simulator-panel")
        return box

    def _turned(self, name: str, value: float) -> None:
        self.choose(**{name: value})
        self._later(self._look, instead=True)


def simulator_panel(
    service: Service, batching: Batching | None = None, *, rate_hz: float = 100, seed: int = 0
) -> SimulatorPanel:
    """A panel with the batcher's knobs and the timeline that the simulator makes of them.

    Args:
        service: how long a batch takes, such as `service_of()` finds it.
        batching: what to begin with.
        rate_hz: requests per second to begin with.
        seed: of the arrivals.

    Raises:
        LoadError: the rate or the seed is out of range.
    """
    return SimulatorPanel(service, batching or Batching(), rate_hz=rate_hz, seed=seed)


def _rate(rate_hz: float) -> float:
    return number("rate_hz", rate_hz, low=1, high=5000, open_low=False)


def overloaded(timeline: Timeline) -> bool:
    """Whether requests of the second half waited clearly longer than those of the first: no steady state."""
    first, second = np.array_split(timeline.latencies_ms, 2)
    return timeline.busy > 0.97 and second.mean() > STRETCH * first.mean()


def picture(timeline: Timeline) -> str:
    """The beginning of a timeline as an image inside the page."""
    from matplotlib import pyplot as plt

    from tutorial_lib.timeline.plot import plot_timeline

    with plt.ioff():  # a callback's figure must not appear below the cell a second time
        figure = plot_timeline(timeline, most=SHOWN)[0, 0].figure
        file = io.BytesIO()
        figure.savefig(file, dpi=90)
        plt.close(figure)
    encoded = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="timeline" style="max-width:100%" src="data:image/png;base64,{encoded}">'
