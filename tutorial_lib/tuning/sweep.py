"""A sweep: every combination of settings, loaded, measured and remembered; an interrupted one goes on."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from tqdm.auto import tqdm
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import LoadError, ModelLoadError
from tutorial_lib.paths import atomic_write, workspace
from tutorial_lib.repository.config import format_config
from tutorial_lib.server import Server
from tutorial_lib.tuning.settings import Value, as_json, with_settings

if TYPE_CHECKING:
    from tutorial_lib.load.target import Target

WARM_UP = 0.25  # of a run, left out of its numbers
Measure = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What came out.

    Attributes:
        table: a row per combination: the settings, what was measured, and `error` where it did not load.
        settings: the names of the columns that are settings.
        complete: whether all combinations have been measured.
        label: where.
    """

    table: pd.DataFrame
    settings: tuple[str, ...]
    complete: bool
    label: str

    def setting(self, row: Mapping[str, Any]) -> dict[str, Value]:
        """The settings of one row, as `with_settings` takes them."""
        return {name: row[name] for name in self.settings if row[name] is not None}


def combinations(grid: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """The cartesian product of a grid, without those that say one thing twice.

    Without dynamic batching a queue delay and preferred sizes mean nothing: such combinations become one.

    Args:
        grid: setting → values to try.

    Raises:
        LoadError: the grid, or a list in it, is empty.
    """
    if not grid or not all(len(values) for values in grid.values()):
        raise LoadError("sweep: found an empty grid, or a setting without values, expected values for each setting.")
    found: list[dict[str, Value]] = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        if point.get("dynamic") is False:
            point = {name: value for name, value in point.items() if name not in ("queue_delay_us", "preferred")}
        if point not in found:
            found.append(point)
    return found


def run_sweep(
    server: Server,
    config: ModelConfig,
    grid: Mapping[str, Sequence[Value]],
    measure: Measure,
    *,
    about: str,
    most: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Load and measure every combination of a grid.

    Each result is written to the workspace as soon as it is there. Called again with the same arguments, the
    sweep measures only what is missing; so after an interrupt (the ■ of Jupyter, which goes through this
    function) run the cell again. The server goes back to `config` in any case, and no file of the model
    repository is touched.

    Args:
        server: a server in explicit mode.
        config: the configuration to vary; its name is the model's.
        grid: setting → values; see `with_settings`.
        measure: called once a combination is loaded, returns name → number.
        about: what is measured, such as "16 callers, 1 s"; other words are another sweep.
        most: measure so many combinations at most this time.
        progress: show a bar.

    Raises:
        LoadError: the grid is empty, or everything in it failed to load.
        RepositoryError: a setting is none.
    """
    points = combinations(grid)
    configs = [with_settings(config, **point) for point in points]
    path = state_path(config, server.label, about)
    known = _read(path)
    keys = [_key(changed) for changed in configs]
    missing = [number for number, key in enumerate(keys) if key not in known][:most]
    if missing:
        with (
            loaded_back(server, config),
            tqdm(total=len(points), desc="sweep", unit="setting", disable=not progress) as bar,
        ):
            bar.update(len(points) - len([key for key in keys if key not in known]))
            for number in missing:
                bar.set_postfix_str(", ".join(f"{name}={value}" for name, value in points[number].items()))
                known[keys[number]] = _measured(server, configs[number], measure)
                _write(path, known)
                bar.update()
    rows = [dict.fromkeys(grid) | point | known[key] for point, key in zip(points, keys, strict=True) if key in known]
    if rows and all(row.get("error") for row in rows):
        raise LoadError("sweep: no combination loaded.", details=str(rows[0]["error"]))
    table = pd.DataFrame(rows, columns=None if rows else list(grid))
    for name in grid:  # as they were given: pandas would make 1000.0 of a delay that is None elsewhere
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return Sweep(table, tuple(grid), len(rows) == len(points), server.label)


def load_config(server: Server, config: ModelConfig) -> None:
    """Load a model with this configuration, without touching its config.pbtxt.

    It is unloaded first: a changed instance count alone would keep the old instances, with their threads.

    Raises:
        ModelLoadError: the server refuses it; the model is unloaded then.
    """
    server.unload(config.name)
    server.load(config.name, config=as_json(config))


@contextmanager
def loaded_back(server: Server, config: ModelConfig) -> Iterator[None]:
    """Whatever the block loads, `config` is loaded at its end."""
    try:
        yield
    finally:
        load_config(server, config)


def measure_load(server: Server, model: str, target: Target, **plan: Any) -> dict[str, float]:
    """One load run in numbers: throughput, latencies, mean batch by Triton's statistics, errors.

    Args:
        server: the server.
        model: whose statistics tell the mean batch.
        target: as `run_load`.
        **plan: as `run_load`; a quarter of the duration is warm-up unless it says otherwise.

    Raises:
        KeyboardInterrupt: the run was interrupted; half a run is no result.
        LoadError: as `run_load`.
    """
    from tutorial_lib.load import run_load

    # the first runs after a load are slow, and a short run has no time to find out by itself
    plan = {"progress": False, "warm_up_s": WARM_UP * plan.get("duration_s", 10.0)} | plan
    before = server.statistics(model)
    result = run_load(target, **plan)
    if result.interrupted:
        raise KeyboardInterrupt
    after = server.statistics(model)
    runs = after["execution_count"] - before["execution_count"]
    return {
        "throughput_rps": round(result.throughput_rps, 1),
        "mean_ms": round(result.mean_ms, 3),
        "p50_ms": round(result.p50_ms, 3),
        "p95_ms": round(result.p95_ms, 3),
        "mean_batch": round((after["inference_count"] - before["inference_count"]) / runs, 2) if runs else 0.0,
        "errors": result.errors + result.timeouts + result.lost,
    }


def state_path(config: ModelConfig, label: str, about: str) -> Path:
    """Where a sweep's results are kept: other configurations, servers or measurements have other files."""
    text = "\n".join((format_config(config), label, about))
    return workspace().cache / "sweeps" / f"{config.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def forget(config: ModelConfig, label: str, about: str) -> None:
    """Measure everything anew next time."""
    state_path(config, label, about).unlink(missing_ok=True)


def _measured(server: Server, config: ModelConfig, measure: Measure) -> dict[str, Any]:
    try:
        load_config(server, config)
    except ModelLoadError as error:
        return {"error": str(error)}
    return {name: value.item() if hasattr(value, "item") else value for name, value in measure().items()}


def _key(config: ModelConfig) -> str:
    return hashlib.sha256(config.SerializeToString(deterministic=True)).hexdigest()[:16]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}  # none yet, or not ours: measured anew
    return known if isinstance(known, dict) else {}


def _write(path: Path, known: Mapping[str, Any]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(known))
