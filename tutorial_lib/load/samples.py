"""Every request of a load run: when it should have been sent, was sent, was answered, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

OK, ERROR, TIMEOUT, UNSENT, LOST, CUT = range(6)
WORDS = ("ok", "error", "time-out", "unsent", "lost", "cut")


@dataclass(frozen=True, eq=False)
class Samples:
    """Arrays of equal length, in the order of the intended times.

    Attributes:
        intended_s: float64, seconds from the start of the run; a closed-loop user intends to send as soon as
            the pause after the last answer is over.
        sent_s: float64; nan for what was not sent.
        answered_s: float64, when the answer, the error or the time-out was there; nan without any.
        status: int8: 0 ok, 1 error, 2 time-out, 3 unsent (the generator did not get to it), 4 lost (sent, and
            neither answered nor reported as failed), 5 cut (under way when the run was interrupted).
        user: int32, the closed-loop user; -1 in an open loop.
    """

    intended_s: np.ndarray
    sent_s: np.ndarray
    answered_s: np.ndarray
    status: np.ndarray
    user: np.ndarray

    def __len__(self) -> int:
        return len(self.status)

    @property
    def latency_ms(self) -> np.ndarray:
        """float64 (n,): from the intended time to the end of the request, whatever the end was."""
        return (self.answered_s - self.intended_s) * 1000

    def count(self, status: int) -> int:
        return int(np.count_nonzero(self.status == status))

    def between(self, begin_s: float, end_s: float) -> Samples:
        """Those that should have been sent from `begin_s` to before `end_s`."""
        chosen = (self.intended_s >= begin_s) & (self.intended_s < end_s)
        return Samples(*(getattr(self, entry.name)[chosen] for entry in fields(self)))

    def frame(self, begin_s: float, end_s: float) -> pd.DataFrame:
        """One row per request; `measured` says whether its intended time is in the window."""
        import pandas as pd

        words = np.array(WORDS)[self.status]
        measured = (self.intended_s >= begin_s) & (self.intended_s < end_s)
        columns = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        columns |= {"status": words, "latency_ms": self.latency_ms, "measured": measured}
        return pd.DataFrame(columns)

    def timeline(self, duration_s: float, bin_s: float) -> pd.DataFrame:
        """One row per slice of time: t_s (its begin), sent_rps, answered_rps, p50_ms and p95_ms (of requests
        intended in it), errors, timeouts, in_flight and users (at its end)."""
        import pandas as pd

        count = max(1, int(np.ceil(duration_s / bin_s - 1e-9)))
        edges = np.arange(count + 1) * bin_s
        ok, latency = self.status == OK, self.latency_ms
        where = np.digitize(self.intended_s, edges) - 1
        sent, ended = np.sort(self.sent_s), np.sort(self.answered_s)
        first = np.sort(self.sent_s[np.unique(self.user, return_index=True)[1]]) if np.any(self.user >= 0) else sent[:0]
        rows = []
        for index, begin in enumerate(edges[:-1]):
            end = begin + bin_s
            mine = latency[(where == index) & ok]
            p50, p95 = np.quantile(mine, (0.5, 0.95)) if len(mine) else (np.nan, np.nan)
            inside = (self.answered_s >= begin) & (self.answered_s < end)
            rows.append(
                {
                    "t_s": begin,
                    "sent_rps": np.count_nonzero((self.sent_s >= begin) & (self.sent_s < end)) / bin_s,
                    "answered_rps": np.count_nonzero(inside & ok) / bin_s,
                    "p50_ms": p50,
                    "p95_ms": p95,
                    "errors": np.count_nonzero(inside & (self.status == ERROR)),
                    "timeouts": np.count_nonzero(inside & (self.status == TIMEOUT)),
                    "in_flight": int(np.searchsorted(sent, end) - np.searchsorted(ended, end)),
                    "users": int(np.searchsorted(first, end)),
                }
            )
        return pd.DataFrame(rows)
