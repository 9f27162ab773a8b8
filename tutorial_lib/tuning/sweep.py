"""A sweep: every combination of settings, loaded, measured and remembered; an interrupted one goes on."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
Measure = Callable[[], Mapping[str, float | str]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What came out.

    Attributes:
        table: a row per combination: the settings, what was measured, and `error` where it did not load or nothing
            could be measured.
        settings: the names of the columns that are settings.
        complete: whether all combinations have a row.
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
    function) run the cell again. Missing is also what failed: a combination that did not load, whose requests
    failed, or that answered none is in this call's table, but it is not kept. So is everything once the model's
    version folders hold other files; those of an attached server are not here to be seen: `forget` after a change.
    The server goes back to `config` in any case, and no file of the model repository is touched.

    Args:
        server: a server in explicit mode.
        config: the configuration to vary; its name is the model's.
        grid: setting → values; see `with_settings`.
        measure: called once a combination is loaded, returns name → number, and `error` with words where that is
            no measurement; see `measure_load`.
        about: what is measured, such as "16 callers, 1 s"; other words are another sweep.
        most: measure so many combinations at most this time; those that fail do not count.
        progress: show a bar.

    Raises:
        LoadError: the grid is empty, nothing in it could be measured, or the model's files cannot be read.
        RepositoryError: a setting is none.
    """
    points = combinations(grid)
    configs = [with_settings(config, **point) for point in points]
    path = state_path(config, server.label, about)
    known = {key: row for key, row in _read(path).items() if _kept(row)}
    contents = contents_of(server.repositories, config)
    keys = [_key(changed, contents) for changed in configs]
    missing = [number for number, key in enumerate(keys) if key not in known]
    failed: dict[str, dict[str, Any]] = {}
    left = len(missing) if most is None else most
    if missing and left > 0:
        with (
            loaded_back(server, config),
            tqdm(total=len(points), desc="sweep", unit="setting", disable=not progress) as bar,
        ):
            bar.update(len(points) - len(missing))
            for number in missing:
                if left <= 0:
                    break
                bar.set_postfix_str(", ".join(f"{name}={value}" for name, value in points[number].items()))
                row = _measured(server, configs[number], measure)
                if _kept(row):
                    known[keys[number]] = row
                    _write(path, known)
                    left -= 1
                else:
                    failed[keys[number]] = row
                bar.update()
    found = known | failed
    rows = [dict.fromkeys(grid) | point | found[key] for point, key in zip(points, keys, strict=True) if key in found]
    if rows and all(row.get("error") for row in rows):
        raise LoadError("sweep: no combination loaded and was measured.", details=str(rows[0]["error"]))
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


def measure_load(server: Server, model: str, target: Target, **plan: Any) -> dict[str, float | str]:
    """One load run in numbers: throughput, latencies, mean batch by Triton's statistics, errors.

    `errors` are the requests of the whole run, warm-up included, that failed. Where the run is no measurement, since
    nothing was answered in the measured window or the server went away, `error` says so.

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
    why = result.ended_early
    if not why and not result.answered:
        why = f"{model}: nothing was answered in the measured window; {next(iter(result.error_messages), 'no reason')}"
    return ({"error": why} if why else {}) | {
        "throughput_rps": round(result.throughput_rps, 1),
        "mean_ms": round(result.mean_ms, 3),
        "p50_ms": round(result.p50_ms, 3),
        "p95_ms": round(result.p95_ms, 3),
        "mean_batch": round((after["inference_count"] - before["inference_count"]) / runs, 2) if runs else 0.0,
        "errors": result.failed,
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


def _kept(row: object) -> bool:
    """Whether a row is a measurement: loaded, answered, and without a failed request."""
    if not isinstance(row, Mapping) or row.get("error") or row.get("errors") or row.get("throughput_rps") == 0:
        return False
    return not any(isinstance(value, float) and math.isnan(value) for value in row.values())


def contents_of(repositories: Iterable[Path], config: ModelConfig) -> str:
    """A fingerprint of the files in a model's version folders, and in those of an ensemble's steps.

    Args:
        repositories: where the server has its models from.
        config: whose name, and whose steps, are looked up there.

    Raises:
        LoadError: a file cannot be read.
    """
    names = [config.name, *sorted({step.model_name for step in config.ensemble_scheduling.step} - {config.name})]
    digest = hashlib.sha256()
    for folder in [repository / name for repository in repositories for name in names]:
        for version in sorted(path for path in folder.glob("[1-9]*") if path.is_dir()):
            # Python writes its caches while the model runs
            for path in sorted(path for path in version.rglob("*") if "__pycache__" not in path.parts):
                if path.is_file():
                    digest.update(f"{folder.name}/{path.relative_to(folder)}\n{_sha256(path)}\n".encode())
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LoadError(
            f"sweep: {path} cannot be read: {error.strerror}.", action="ls -l shows whose it is."
        ) from error


def _key(config: ModelConfig, contents: str) -> str:
    return hashlib.sha256(config.SerializeToString(deterministic=True) + contents.encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}  # none yet, or not ours: measured anew
    return known if isinstance(known, dict) else {}


def _write(path: Path, known: Mapping[str, Any]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(known))
