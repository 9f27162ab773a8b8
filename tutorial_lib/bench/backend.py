"""The embedded server against what one would pick instead, and its own settings against each other."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tutorial_lib.bench import accuracy, in_process, memory
from tutorial_lib.bench.contestants import Contestant, DrivenByPerfAnalyzer, check, json_base64, raw, triton, uvicorn
from tutorial_lib.bench.models import FEATURES, OUTPUT_NAME, Artifacts, Settings, lay_out, make
from tutorial_lib.bench.result import TIE, Result, Target, at_least, at_most
from tutorial_lib.bench.rounds import Rounds
from tutorial_lib.errors import WorkshopError
from tutorial_lib.export import open_session
from tutorial_lib.load import GrpcTarget, HttpTarget, find_perf_analyzer
from tutorial_lib.models.names import INPUT_NAME
from tutorial_lib.server import Server, serve
from tutorial_lib.server.heal import instances
from tutorial_lib.versions import cpu_count, int8_dot_products

# part → the models it asks
PARTS = {
    "speed": ("resnet", "low_latency", "resnet_int8", "resnet_torch", "resnet_nothing"),
    "settings": ("resnet", "low_latency", "one_spinning", "one_quiet", "all_threads_each", "delay_1ms", "batches_64",
                 "no_batching"),
    "lone": ("linear", "linear_nothing"),
    "memory": ("resnet",),
    "accuracy": (),
    "driver": ("resnet",),
}  # fmt: skip
LEVELS = (1, 16, 64)
SECONDS = 1.2
PAIRS = 6
RECOMMENDED, LOW_LATENCY, INT8 = "recommended", "low latency", "INT8"
NO_BATCHING = "recommended, no dynamic batching"
NAIVE, RAW = "naive FastAPI + torch", "FastAPI + ONNX Runtime, 2 workers, raw bytes"
TORCH, NOTHING = "TorchScript in Triton", "Triton, computing nothing"
FAR = 2.0  # "far ahead" of another serving framework


def variants(cores: int) -> dict[str, tuple[str, Settings]]:
    """The settings that are compared, in the words of the course: model → title and instances × threads, spinning,
    queue delay. (Spinning with one thread each is the recommended setting: there is no second thread to spin.)"""
    return {
        "low_latency": (LOW_LATENCY, Settings(instances=1, threads=cores, spinning=True, batching=False)),
        "one_spinning": (f"1 instance × {cores} threads, spinning", Settings(1, cores, spinning=True)),
        "one_quiet": (f"1 instance × {cores} threads, not spinning", Settings(1, cores, spinning=False)),
        "all_threads_each": (f"2 instances × {cores} threads", Settings(2, cores, spinning=False)),
        "delay_1ms": ("recommended, queue delay 1 ms", Settings(2, delay_us=1000)),
        "batches_64": ("recommended, batches up to 64", Settings(2, max_batch_size=64)),
        "no_batching": (NO_BATCHING, Settings(2, batching=False)),
    }


def run(
    *, repeats: int, say: Callable[[str], None], peers: bool = False, parts: Sequence[str] = tuple(PARTS),
    seconds: float = SECONDS,
) -> Result:  # fmt: skip
    """Measure everything, or some parts of it.

    Args:
        repeats: rounds; 5 or more for an interval worth the name.
        peers: also install and measure LitServe, MLServer, BentoML, Ray Serve and TorchServe.
        parts: of PARTS.
        seconds: how long each contestant is under load in each round.

    Raises:
        WorkshopError: a part that does not exist.
        ServerError: a contestant does not start, or answers something else than ONNX Runtime does.
    """
    if unknown := sorted({*parts} - {*PARTS}):
        raise WorkshopError(f"part: found {', '.join(unknown)}, expected some of {', '.join(PARTS)}.")
    made = make(say)
    bench = _Bench(made, repeats, seconds, say)
    names = dict.fromkeys(name for part in parts for name in PARTS[part]) | ({"resnet": None} if peers else {})
    with contextlib.ExitStack() as stack:
        where = f"no server · CPU ×{bench.cores}"
        if names:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            lay_out(place, made, names, {name: settings for name, (_, settings) in variants(bench.cores).items()})
            bench.server = stack.enter_context(serve(place))
            where = bench.server.label
        say(where)
        for part in parts:
            getattr(bench, part)()
        if peers:
            from tutorial_lib.bench.peers import against_peers

            bench.targets += against_peers(
                bench.embedded(RECOMMENDED, "resnet"), bench.picture, bench.scores, made, bench.rounds,
                repeats=repeats, seconds=seconds, say=say, factor=FAR,
            )  # fmt: skip
    bench.notes.insert(0, f"Measured on: {where}.")
    notes = ["\n".join(bench.rounds.lines()), *bench.notes] if bench.rounds.samples else bench.notes
    return Result(bench.targets, bench.raw | {"rounds": bench.rounds.raw()}, notes)


class _Bench:
    """What the parts share: the server, one picture, and the samples."""

    server: Server

    def __init__(self, made: Artifacts, repeats: int, seconds: float, say: Callable[[str], None]) -> None:
        self.made, self.repeats, self.seconds, self.say = made, repeats, seconds, say
        self.cores, self.perf_analyzer = cpu_count(), find_perf_analyzer()
        self.rounds, self.targets, self.notes, self.raw = Rounds(), [], [], {}
        self.picture = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
        self.scores = open_session(made.onnx).run(None, {INPUT_NAME: self.picture})[0][0]

    def embedded(self, name: str, model: str, array: np.ndarray | None = None) -> Contestant:
        """A model of our server."""
        array = self.picture if array is None else array
        return triton(name, self.server.http_address, model, array, input_name=INPUT_NAME, output_name=OUTPUT_NAME)

    def among_ours(self, name: str, model: str, array: np.ndarray | None = None) -> Contestant | DrivenByPerfAnalyzer:
        """A model that is held against others of our server only: perf_analyzer drives, where there is one."""
        if self.perf_analyzer is None:
            return self.embedded(name, model, array)
        inputs = {INPUT_NAME: self.picture if array is None else array}
        return DrivenByPerfAnalyzer(name, HttpTarget(self.server.http_url, model, inputs))

    def speed(self) -> None:
        """Against the apps one would write instead, and against no server at all."""
        naive_app = uvicorn("naive", "naive", workers=1, environment={"BENCH_WEIGHTS": str(self.made.weights)})
        with naive_app, uvicorn("raw", "raw_onnx", workers=2, environment={"BENCH_ONNX": str(self.made.onnx)}) as app:
            naive = json_base64(NAIVE, naive_app.address, self.picture, question=lambda text: {"data": text})
            rival = raw(RAW, app.address, self.picture)
            naive_app.wait(naive, self.scores)
            app.wait(rival, self.scores)
            ours = self.embedded(RECOMMENDED, "resnet")
            fast, small = self.embedded(LOW_LATENCY, "low_latency"), self.embedded(INT8, "resnet_int8")
            torch, nothing = self.embedded(TORCH, "resnet_torch"), self.embedded(NOTHING, "resnet_nothing")
            for contestant in (ours, fast, torch):
                check(contestant, self.scores)
            cells = [(ours, 1), (fast, 1), (rival, 1), (nothing, 1), (ours, 16), (naive, 16), (rival, 16), (torch, 16),
                     (ours, 64), (naive, 64), (rival, 64), (small, 64), (nothing, 64)]  # fmt: skip
            bare = self.raw.setdefault("in_process_images_per_s", [])
            small_bare = self.raw.setdefault("in_process_int8_images_per_s", [])
            for number in range(self.repeats):
                self.rounds.run(cells if number % 2 == 0 else cells[::-1], repeats=1, seconds=self.seconds,
                                say=lambda _: None, title="")  # fmt: skip
                for path, rates in ((self.made.onnx, bare), (self.made.int8, small_bare)):
                    rates.append(in_process.images_per_s(path, seconds=self.seconds / 3, cores=self.cores))
                self.say(f"speed: round {number + 1} of {self.repeats}")
        self._speed_targets(bare, small_bare)

    def _speed_targets(self, bare: list[dict[str, float]], small_bare: list[dict[str, float]]) -> None:
        ratios, where = self.rounds.ratios, self._where_the_time_goes(bare)
        ahead, level = 1 + TIE, 1 - TIE
        gains = [max(small.values()) / max(rates.values()) for small, rates in zip(small_bare, bare, strict=True)]
        helped = "has" if int8_dot_products() else "lacks"
        int8 = (
            f"Without a server the INT8 model runs {np.median(gains):.1f} times as many images/s as the FP32 one "
            f"({min(gains):.1f} … {max(gains):.1f}); this CPU {helped} instructions for 8-bit dot products."
        )
        best = np.median([max(rates.values()) for rates in bare])
        bounds = (f"{best / self.rounds.median(NAIVE, level):.1f} at c={level}" for level in (16, 64))
        bound = f"Without any server ONNX Runtime does {' and '.join(bounds)} times what the naive app does. {where}"
        lone = max((RECOMMENDED, LOW_LATENCY), key=lambda name: self.rounds.median(name, 1))
        self.targets += [
            at_least("requests/s, times naive, c=16", ratios(RECOMMENDED, NAIVE, 16), 8, note=bound),
            at_least("requests/s, times naive, c=64", ratios(RECOMMENDED, NAIVE, 64), 9, note=bound),
            at_least("INT8 requests/s, times naive, c=64", ratios(INT8, NAIVE, 64), 14, note=int8),
        ]
        for concurrency, name, floor in ((1, lone, level), (16, RECOMMENDED, ahead), (64, RECOMMENDED, ahead)):
            p95 = [1 / ratio for ratio in ratios(name, RAW, concurrency, "p95_ms")]
            shown = "" if name == RECOMMENDED else f" ({name})"
            self.targets += [
                at_least(f"requests/s, times FastAPI + ONNX Runtime, c={concurrency}{shown}",
                         ratios(name, RAW, concurrency), floor, note=where),
                at_least(f"p95 of FastAPI + ONNX Runtime over ours, c={concurrency}{shown}", p95, floor, note=where),
            ]  # fmt: skip
        served = [sample.rps for sample in self.rounds.samples[RECOMMENDED, 64]]
        shares = [rps / max(rates.values()) for rps, rates in zip(served, bare, strict=True)]
        self.targets.append(at_least("share of in-process ONNX Runtime, c=64", shares, 0.72, note=where))
        torch = ratios(RECOMMENDED, TORCH, 16)
        self.notes += [
            f"In the same server ONNX Runtime answers {np.median(torch):.1f} times as many requests as TorchScript "
            f"(c=16; {min(torch):.1f} … {max(torch):.1f}).",
            int8,
            bound,
        ]

    def _where_the_time_goes(self, bare: list[dict[str, float]]) -> str:
        """Core time of a request, split: the model's own, the server and both ends of HTTP, the generator."""
        cores, best = self.cores, np.median([max(rates.values()) for rates in bare])
        whole, model = cores / self.rounds.median(RECOMMENDED, 64) * 1e3, cores / best * 1e3
        empty = cores / self.rounds.median(NOTHING, 64) * 1e3
        mine = self.rounds.median(RECOMMENDED, 64, "generator_us") / 1e3
        return (
            f"Core time of a request at c=64: {whole:.2f} ms, of which the model {model:.2f} (in process, no server), "
            f"the server and HTTP around a model that computes nothing {empty:.2f} (the load generator's {mine:.2f} "
            f"among it), and {max(0.0, whole - model - empty):.2f} what computing and serving cost each other."
        )

    def settings(self) -> None:
        """Which settings win at which concurrency; the recommended ones have to be among the best."""
        others = [self.among_ours(title, name) for name, (title, _) in variants(self.cores).items()]
        contestants = [self.among_ours(RECOMMENDED, "resnet"), *others]
        cells = [(contestant, level) for level in LEVELS for contestant in contestants]
        rounds = Rounds()
        rounds.run(cells, repeats=self.repeats, seconds=self.seconds * 0.75, say=self.say, title="settings")
        names = [contestant.name for contestant in contestants]
        for level in LEVELS:
            best = max(names, key=lambda name: rounds.median(name, level))
            setting = RECOMMENDED if level > 1 else max((RECOMMENDED, LOW_LATENCY), key=lambda n: rounds.median(n, 1))
            note = f"At c={level} '{best}' is the fastest."
            name, shares = f"share of the best setting, c={level} ({setting})", rounds.ratios(setting, best, level)
            self.targets.append(at_least(name, shares, 1 - TIE, note=note))
            self.notes.append(f"{note} '{RECOMMENDED}' has {np.median(rounds.ratios(RECOMMENDED, best, level)):.0%}.")
        self._batching_note(rounds)
        self.raw["settings"] = rounds.raw()
        self.notes.append("\n".join(rounds.lines()))

    def _batching_note(self, rounds: Rounds) -> None:
        """Whether batching pays for this model on these cores."""
        gains = {level: float(np.median(rounds.ratios(RECOMMENDED, NO_BATCHING, level))) - 1 for level in LEVELS}
        pays = [level for level, gain in gains.items() if gain > TIE]
        shown = ", ".join(f"{gain:+.0%} at c={level}" for level, gain in gains.items())
        self.notes.append(
            f"Dynamic batching against none: {shown}. "
            + (f"It pays at c={', '.join(map(str, pays))}." if pays else "It does not pay here.")
        )

    def lone(self) -> None:
        """One client, a model so small that only the server's own time is left."""
        array = np.ones((1, FEATURES), np.float32)
        ours = self.among_ours("linear", "linear", array)
        nothing = self.among_ours("linear, computing nothing", "linear_nothing", array)
        ratios, times = [], []
        for number in range(self.repeats):
            pairs = []
            for turn in range(PAIRS):  # short turns: the machine is the same for both halves of a pair
                order = (ours, nothing) if turn % 2 else (nothing, ours)
                found = {who.name: who.measure(1, seconds=0.2, warm_up_s=0.05).p50_ms * 1e3 for who in order}
                pairs.append((found[ours.name], found[nothing.name]))
            ratios.append(float(np.median([mine / empty for mine, empty in pairs])))
            times.append(np.median(pairs, axis=0))
            self.say(f"lone: round {number + 1} of {self.repeats}")
        mine, empty = np.median(times, axis=0)
        note = f"p50 of a lone request: {mine:.0f} µs, {empty:.0f} µs when nothing is computed."
        self.targets.append(at_most("lone request, times a backend that computes nothing", ratios, 1.25, note=note))
        self.raw["lone_us"] = {"columns": ["linear", "nothing"], "rounds": np.round(times, 1).tolist()}
        self.notes.append(note)

    def memory(self) -> None:
        """Each instance's resident memory."""
        contestant = self.embedded(RECOMMENDED, "resnet")
        for level in (1, 64):
            contestant.measure(level, seconds=0.5)
        # a session keeps the memory of its largest batch: the bare one runs the largest that the server put together
        batches = sorted(entry["batch_size"] for entry in self.server.statistics("resnet")["batch_stats"])
        bare = [memory.session_mib(self.made.onnx, batches=(1, batches[-1])) for _ in range(3)]
        found = [memory.resident_mib(process.pid) for process in instances(self.server, "resnet")]
        middle = float(np.median(bare))
        note = f"{', '.join(f'{mib:.0f}' for mib in found)} MiB an instance, {middle:.0f} the bare session."
        ratios = [mib / middle for mib in found]
        self.targets.append(at_most("memory of an instance, times the session's own", ratios, 1.3, note=note))
        self.raw["memory_mib"] = {"instances": found, "session": bare}
        self.notes.append(note)

    def accuracy(self) -> None:
        """What INT8 costs in right answers."""
        found = accuracy.accuracies({"fp32": self.made.onnx, "int8": self.made.int8})
        for name, shares in found.items():
            lost = round(abs(shares["fp32"] - shares["int8"]), 6)
            note = f"FP32 {shares['fp32']:.4f}, INT8 {shares['int8']:.4f}."
            self.targets.append(Target(f"INT8 accuracy apart, {name}", lost, 0.001, lost <= 0.001, None, True, note))
            self.notes.append(f"Right answers on {name}: {note}")
        self.raw["accuracy"] = found

    def driver(self) -> None:
        """Our server alone once more: does perf_analyzer see what the library's generator sees?"""
        if self.perf_analyzer is None:
            self.notes.append("perf_analyzer: none here (tutorial_lib.load.fetch_perf_analyzer gets one).")
            return
        inputs = {INPUT_NAME: self.picture}
        grpc = GrpcTarget(self.server.grpc_address, "resnet", inputs, http_url=self.server.http_url)
        columns = [
            self.embedded("own, HTTP", "resnet"),
            self.among_ours("perf_analyzer, HTTP", "resnet"),
            DrivenByPerfAnalyzer("perf_analyzer, gRPC", grpc),
        ]
        rates = []
        for number in range(self.repeats):
            rates.append([column.measure(16, seconds=2 * self.seconds).rps for column in columns])
            self.say(f"driver: round {number + 1} of {self.repeats}")
        http, over_grpc = (float(np.median([row[column] / row[0] for row in rates])) for column in (1, 2))
        self.raw["driver_rps"] = {"columns": [column.name for column in columns], "rounds": rates}
        self.notes.append(
            f"perf_analyzer {self.perf_analyzer.version} at c=16 drives {http:.0%} of our generator's requests/s over "
            f"HTTP, and {over_grpc:.0%} over gRPC. Where our server is held against itself, perf_analyzer has driven."
        )
