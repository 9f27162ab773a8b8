"""`./workshop load`: send requests to a model by a plan, and print what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from tutorial_lib.load.arrivals import Arrivals, Users
    from tutorial_lib.server import Server


def load(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name, such as `densenet_onnx`.")],
    url: Annotated[str, typer.Option(help="HTTP address of a running Triton; otherwise one is started here.")] = "",
    repository: Annotated[
        Path | None, typer.Option(help="Model repository to serve; by default the workspace's.", show_default=False)
    ] = None,
    protocol: Annotated[Literal["grpc", "stream", "http"], typer.Option(help="How to call it.")] = "grpc",
    concurrency: Annotated[int | None, typer.Option(help="Closed loop: so many users who never pause.")] = None,
    users: Annotated[int | None, typer.Option(help="Closed loop: users who pause.")] = None,
    think_s: Annotated[float, typer.Option(help="`--users`: the pause after an answer.")] = 1.0,
    join: Annotated[
        float | None, typer.Option(metavar="PER_S", help="`--users`: how many join per second; all at once by default.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="HZ", help="Open loop: Poisson arrivals per second.")] = None,
    every_ms: Annotated[float | None, typer.Option(help="Open loop: one request every so many ms.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="Open loop: one of the four patterns, 1–4 or `one_at_a_time`, `bursts` ….")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Open loop: replay the arrival times of a CSV file.")] = None,
    saturate: Annotated[
        bool, typer.Option("--saturate", help="Raise concurrency until answers per second stop rising.")
    ] = False,
    p95_limit_ms: Annotated[float | None, typer.Option(help="`--saturate`: stop when p95 passes this.")] = None,
    duration_s: Annotated[float | None, typer.Option(help="How long to send; 10, or the whole trace.")] = None,
    warm_up_s: Annotated[float | None, typer.Option(help="What to leave out; found by itself.")] = None,
    timeout_s: Annotated[float, typer.Option(help="How long to wait for an answer.")] = 10.0,
    batch: Annotated[int, typer.Option(help="Made-up inputs: the size of the batch axis.")] = 1,
    shape: Annotated[
        list[str] | None, typer.Option(metavar="INPUT:1,2,3", help="Made-up inputs: a whole shape; may be repeated.")
    ] = None,
    inputs: Annotated[Path | None, typer.Option(help="A .npz with an array for each input, batch included.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every request there.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the whole result there.")] = None,
    with_perf_analyzer: Annotated[
        bool, typer.Option("--perf-analyzer", help="Then the same with NVIDIA's perf_analyzer, if it can be had.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of arrival times and made-up inputs.")] = 0,
) -> None:
    """Load a model: open loop by an arrival pattern, or closed loop by users. Ctrl-C keeps what was measured.

    Exit 0 when every request of the run, warm-up included, was answered, 1 otherwise. With --saturate: 0 when a load
    was found that the server bears, 1 when there is none, or when the search broke off.
    """
    from tutorial_lib.errors import LoadError
    from tutorial_lib.load import find_saturation, run_load, triton_target
    from tutorial_lib.repository.probe import read_example

    plan = _plan(concurrency, users, think_s, join, rate, every_ms, pattern, trace, saturate=saturate)
    if saturate and (csv or json or with_perf_analyzer):
        raise LoadError("--saturate: it goes with none of --csv, --json, --perf-analyzer.", action="Leave them out.")
    if with_perf_analyzer and users is not None:
        raise LoadError("--perf-analyzer: it has no users who think.", action="Give --concurrency or a pattern.")
    if p95_limit_ms is not None and not saturate:
        raise LoadError("--p95-limit-ms: it belongs to --saturate.", action="Add --saturate.")
    progress = sys.stderr.isatty()
    made_up = {"shapes": _shapes(shape or []), "batch": batch, "seed": seed}
    with _server(url, repository, model) as server:
        given = read_example(inputs) if inputs else None
        target = triton_target(server, model, given, protocol=protocol, **made_up)
        if saturate:
            options = {"step_s": duration_s} if duration_s is not None else {}
            found = find_saturation(
                target, p95_limit_ms=p95_limit_ms, timeout_s=timeout_s, progress=progress, **options
            )
            columns = ["concurrency", "good", "throughput_rps", "p50_ms", "p95_ms", "p99_ms", "mean_batch"]
            print(f"{found.frame()[columns].round(2).to_string(index=False)}\n{found}")
            raise typer.Exit(0 if any(found.good) and not found.ended_early else 1)
        times = {"duration_s": duration_s, "warm_up_s": warm_up_s, "timeout_s": timeout_s, "seed": seed}
        result = run_load(target, **plan, **times, progress=progress)
        print(result)
        for write, path in ((result.to_csv, csv), (result.to_json, json)):
            if path:
                print(f"wrote {write(path)}")
        if with_perf_analyzer:
            from tutorial_lib.load import fetch_perf_analyzer, run_perf_analyzer

            fetch_perf_analyzer()
            print(run_perf_analyzer(target, **plan, duration_s=result.duration_s, seed=seed))
    raise typer.Exit(0 if result.complete else 1)


def _server(url: str, repository: Path | None, model: str) -> Server:
    from tutorial_lib.server import serve

    if url:
        return serve(url=url)
    if repository is None:
        from tutorial_lib.course.catch_up import LAST_STEP, catch_up

        catch_up(LAST_STEP)  # git holds no weights: make what is missing
    return serve(repository, models=[model])


def _plan(
    concurrency: int | None,
    users: int | None,
    think_s: float,
    join: float | None,
    rate: float | None,
    every_ms: float | None,
    pattern: str | None,
    trace: Path | None,
    *,
    saturate: bool,
) -> dict[str, Arrivals | Users | int]:
    """The one plan that was asked for, as arguments of `run_load`; 16 users if none was."""
    from tutorial_lib.errors import LoadError
    from tutorial_lib.load import Every, Poisson, Replay, Users
    from tutorial_lib.load import pattern as named

    given = {
        "--concurrency": concurrency,
        "--users": users,
        "--rate": rate,
        "--every-ms": every_ms,
        "--pattern": pattern,
        "--trace": trace,
        "--saturate": saturate or None,
    }
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise LoadError(f"load plan: found {' and '.join(chosen)}, expected one of them.", action="Leave one out.")
    if users is None and join is not None:
        raise LoadError("--join: it belongs to --users.", action="Add --users.")
    if users is not None:
        return {"users": Users(users, think_s=think_s, per_s=join)}
    if rate is not None:
        return {"arrivals": Poisson(rate)}
    if every_ms is not None:
        return {"arrivals": Every(every_ms / 1000)}
    if pattern is not None:
        return {"arrivals": named(int(pattern) if pattern.isdecimal() else pattern)}
    if trace is not None:
        return {"arrivals": Replay(trace)}
    return {"concurrency": 16 if concurrency is None else concurrency}


def _shapes(given: list[str]) -> dict[str, tuple[int, ...]]:
    from tutorial_lib.errors import LoadError

    shapes = {}
    for text in given:
        name, _, sizes = text.rpartition(":")
        parts = sizes.split(",")
        if not name or not all(part.strip().isdecimal() for part in parts):
            raise LoadError(f"--shape: found {text!r}, expected INPUT:1,2,3.", action="Write such as data_0:1,3,32,32.")
        shapes[name] = tuple(map(int, parts))
    return shapes
