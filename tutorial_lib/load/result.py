"""What a load run found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load import estimate
from tutorial_lib.load.checks import number
from tutorial_lib.load.samples import CUT, ERROR, LOST, OK, TIMEOUT, UNSENT, Samples
from tutorial_lib.load.shares import GeneratorShare, ServerShare

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = {"p50_ms": 0.50, "p90_ms": 0.90, "p95_ms": 0.95, "p99_ms": 0.99}


@dataclass(frozen=True, eq=False)
class LoadResult:
    """One load run.

    Rates and latencies, `requests` and `answered` are of the measured window, to which requests belong by their
    intended time. What failed is counted over the whole run: users who wait for an answer in vain send nothing more,
    so that a server that never answers leaves no failure, and no request, in the window.

    Attributes:
        target, plan: what was loaded, and how.
        label: where it ran: "Triton 2.51.0 embedded · CPU ×2".
        started_at: ISO time.
        duration_s: how long requests were sent.
        window_s: begin and end of the measured window, in seconds from the start; the warm-up lies before it.
        steady: whether latency neither rises nor falls in it; `steady_note` says what is wrong.
        interrupted: whether somebody stopped the run early.
        ended_early: why the run ended by itself before its time; "" if it did not.
        error_messages: text → how often, the most frequent first.
        server: what Triton counted; None if there was nobody to ask.
        generator: how the generator did.
        samples: every request, warm-up included.
        usage: rows (t_s, name, cpu_percent, rss_mib) of the processes that were watched.
    """

    target: str
    plan: str
    label: str
    started_at: str
    duration_s: float
    window_s: tuple[float, float]
    steady: bool
    steady_note: str
    generator: GeneratorShare
    samples: Samples = field(repr=False)
    server: ServerShare | None = None
    error_messages: Mapping[str, int] = field(default_factory=dict)
    interrupted: bool = False
    ended_early: str = ""
    usage: tuple[tuple[float, str, float, float], ...] = field(default=(), repr=False)

    @cached_property
    def measured(self) -> Samples:
        """The requests of the window."""
        return self.samples.between(*self.window_s)

    @cached_property
    def latencies_ms(self) -> np.ndarray:
        """float64 (answered,): of the window's answered requests, in the order of their intended times."""
        return self.measured.latency_ms[self.measured.status == OK]

    @property
    def requests(self) -> int:
        """Requests of the window."""
        return len(self.measured)

    @property
    def answered(self) -> int:
        """Answered requests of the window; 0 means that nothing was measured."""
        return len(self.latencies_ms)

    @property
    def errors(self) -> int:
        """Requests of the whole run, warm-up included, that were refused or broke off."""
        return self.samples.count(ERROR)

    @property
    def timeouts(self) -> int:
        """Requests of the whole run, warm-up included, that nobody answered in time."""
        return self.samples.count(TIMEOUT)

    @property
    def lost(self) -> int:
        """Requests of the whole run that were sent and neither answered nor reported as failed."""
        return self.samples.count(LOST)

    @property
    def failed(self) -> int:
        """Errors, time-outs and lost requests of the whole run."""
        return self.errors + self.timeouts + self.lost

    @property
    def complete(self) -> bool:
        """Whether every request of the whole run was answered, some of them in the measured window."""
        return self.answered > 0 and self.samples.count(OK) == len(self.samples)

    @property
    def unsent(self) -> int:
        """Requests of the whole run that the generator did not get to."""
        return self.samples.count(UNSENT)

    @property
    def cut(self) -> int:
        """Requests of the whole run that were under way when it was interrupted."""
        return self.samples.count(CUT)

    @cached_property
    def _answer_times(self) -> np.ndarray:
        begin, end = self.window_s
        times = self.samples.answered_s[self.samples.status == OK]
        return times[(times >= begin) & (times < end)]

    @property
    def throughput_rps(self) -> float:
        """Answers per second that came within the window."""
        begin, end = self.window_s
        return len(self._answer_times) / (end - begin) if end > begin else math.nan

    @property
    def mean_ms(self) -> float:
        return float(self.latencies_ms.mean()) if self.answered else math.nan

    @property
    def p50_ms(self) -> float:
        return self.percentile(0.50)

    @property
    def p90_ms(self) -> float:
        return self.percentile(0.90)

    @property
    def p95_ms(self) -> float:
        return self.percentile(0.95)

    @property
    def p99_ms(self) -> float:
        return self.percentile(0.99)

    @property
    def max_ms(self) -> float:
        return float(self.latencies_ms.max()) if self.answered else math.nan

    def percentile(self, share: float) -> float:
        """The latency in ms that a `share` (0 to 1) of the answered requests did not exceed."""
        number("share", share, high=1, open_low=False)
        return float(np.quantile(self.latencies_ms, share)) if self.answered else math.nan

    def interval(self, name: str, *, level: float = 0.95) -> tuple[float, float]:
        """Where the true value is with the probability `level`; nan where there are too few requests.

        Args:
            name: "throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p95_ms" or "p99_ms".

        Raises:
            LoadError: there is no interval of that name.
        """
        number("level", level, high=0.9999)
        if name == "throughput_rps":
            return estimate.rate_interval(self._answer_times, *self.window_s, level)
        if name == "mean_ms":
            return estimate.mean_interval(self.latencies_ms, level)
        if name in QUANTILES:
            return estimate.quantile_interval(self.latencies_ms, QUANTILES[name], level)
        raise LoadError(f"interval: found {name!r}, expected throughput_rps, mean_ms or one of {', '.join(QUANTILES)}.")

    def frame(self) -> pd.DataFrame:
        """One row per request: intended_s, sent_s, answered_s, status, user, latency_ms, measured.

        What is not a column is in its `attrs`, so that `from_frame` gives the result back.
        """
        from tutorial_lib.load.result_file import head

        frame = self.samples.frame(*self.window_s)
        frame.attrs["load_result"] = head(self)
        return frame

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> LoadResult:
        """The result that `frame` gave."""
        from tutorial_lib.load.result_file import from_frame

        return from_frame(frame)

    def timeline(self, *, bin_s: float = 1.0) -> pd.DataFrame:
        """One row per slice of time; see `Samples.timeline`."""
        return self.samples.timeline(self.duration_s, number("bin_s", bin_s))

    def resources(self) -> pd.DataFrame:
        """CPU (100 = one core) and memory of the watched processes: t_s, name, cpu_percent, rss_mib."""
        import pandas as pd

        return pd.DataFrame(list(self.usage), columns=["t_s", "name", "cpu_percent", "rss_mib"])

    def summary(self) -> dict[str, Any]:
        """The row of a table: the numbers, what was loaded, and on what.

        `answered` is of the window; `errors`, `timeouts`, `lost` and `unsent` are of the whole run.
        """
        server = self.server
        row: dict[str, Any] = {"target": self.target, "plan": self.plan, "throughput_rps": self.throughput_rps}
        row |= {name: getattr(self, name) for name in ("mean_ms", *QUANTILES, "max_ms")}
        row |= {name: getattr(self, name) for name in ("answered", "errors", "timeouts", "lost", "unsent")}
        row |= {
            "mean_batch": server.mean_batch if server else math.nan,
            "queue_ms": server.queue_ms if server else math.nan,
            "infer_ms": server.compute_infer_ms if server else math.nan,
            "steady": self.steady,
            "generator_limited": self.generator.limited,
            "label": self.label,
        }
        return row

    @property
    def notes(self) -> list[str]:
        """What a reader must know before trusting the numbers."""
        first = next(iter(self.error_messages), "")
        notes = [self.ended_early, self.generator.note, f"not steady: {self.steady_note}" if not self.steady else ""]
        notes.append("interrupted: these are the requests until then" if self.interrupted else "")
        notes.append(f"most frequent failure: {first}" if first else "")
        return [note for note in notes if note]

    def lines(self) -> list[str]:
        """The result in a few lines of text."""
        begin, end = self.window_s
        low, high = self.interval("p95_ms")
        range_ = f" ({low:.1f}–{high:.1f})" if math.isfinite(low + high) else ""
        numbers = f"{self.throughput_rps:.1f} answers/s · p50 {self.p50_ms:.1f} · p95 {self.p95_ms:.1f}{range_}"
        counts = f"{self.errors} errors, {self.timeouts} time-outs, {self.lost} lost"
        lines = [
            f"{self.target}, {self.plan} · {self.label}",
            f"{numbers} · p99 {self.p99_ms:.1f} ms" if self.answered else "no answers",
            f"{self.answered} answered, measured from {begin:.1f} to {end:.1f} s · in the whole run {counts}",
        ]
        if self.server:
            share = self.server
            lines.append(
                f"in Triton: queue {share.queue_ms:.2f} ms, model {share.compute_infer_ms:.2f} ms per request, "
            )
            lines[-1] += f"mean batch {share.mean_batch:.2f}"
        return lines + [f"! {note}" for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        head, *rest = (escape(line) for line in self.lines())
        return f"<div><b>{head}</b><br>{'<br>'.join(rest)}</div>"

    def to_json(self, path: Path | str) -> Path:
        """Write everything, samples included; `from_json` reads it back."""
        from tutorial_lib.load.result_file import write_json

        return write_json(self, Path(path))

    @classmethod
    def from_json(cls, path: Path | str) -> LoadResult:
        """Read what `to_json` wrote."""
        from tutorial_lib.load.result_file import read_json

        return read_json(Path(path))

    def to_csv(self, path: Path | str) -> Path:
        """Write one line per request, the rest in a comment line above; `from_csv` reads it back."""
        from tutorial_lib.load.result_file import write_csv

        return write_csv(self, Path(path))

    @classmethod
    def from_csv(cls, path: Path | str) -> LoadResult:
        """Read what `to_csv` wrote."""
        from tutorial_lib.load.result_file import read_csv

        return read_csv(Path(path))


def results_table(results: Iterable[LoadResult]) -> pd.DataFrame:
    """One row per result; see `LoadResult.summary`."""
    import pandas as pd

    return pd.DataFrame([result.summary() for result in results])
