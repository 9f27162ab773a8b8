"""The bench's own arithmetic and its load generator; what it measures is not tested, it is measured."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from typer.testing import CliRunner

from tutorial_lib.bench import HOMES, backend, bench, peers
from tutorial_lib.bench.contestants import Contestant, Sample, check, json_base64, raw
from tutorial_lib.bench.digits import distorted_set, pictures
from tutorial_lib.bench.models import Artifacts, Settings
from tutorial_lib.bench.result import Result, Target, at_least, at_most, table
from tutorial_lib.bench.rounds import Rounds
from tutorial_lib.cli import app
from tutorial_lib.errors import LoadError, ServerError, WorkshopError
from tutorial_lib.repository.config import parse_config


class Handler(BaseHTTPRequestHandler):
    """Doubles the first number it is sent; every third answer is a 503 on /flaky, /chunked sends pieces."""

    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Handler.count += 1
        status = 503 if self.path == "/flaky" and Handler.count % 3 == 0 else 200
        answer = (2 * np.frombuffer(body, "f4")).tobytes() if self.path != "/flaky" else b"x"
        self.send_response(status)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (answer[:3], answer[3:]):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


NUMBERS = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
def test_the_generator_counts_whole_answers(address, path):
    contestant = raw("doubler", address, NUMBERS, path=path)
    check(raw("doubler", address, NUMBERS), 2 * NUMBERS)
    sample = contestant.measure(3, seconds=1.2, warm_up_s=0.1)
    assert sample.rps > 10 and sample.errors == 0
    assert 0 < sample.p50_ms <= sample.p95_ms
    assert sample.generator_us > 0


def test_refusals_are_no_answers(address):
    found = raw("flaky", address, NUMBERS, path="/flaky").measure(2, seconds=2, warm_up_s=0.0)
    assert found.errors > 0
    assert 1.4 < found.rps * 2 / found.errors < 2.6  # two of three


def test_a_wrong_answer_is_no_contestant(address):
    with pytest.raises(ServerError, match="found the scores"):
        check(raw("doubler", address, NUMBERS), 3 * NUMBERS)


def test_nobody_there():
    contestant = raw("nobody", "127.0.0.1:9", NUMBERS)
    with pytest.raises(LoadError, match="nothing listens|nobody|refused"):
        contestant.measure(1, seconds=0.1)


def test_a_request_in_json():
    contestant = json_base64("app", "host:1", NUMBERS, question=lambda text: {"data": text})
    assert json.loads(contestant.body).keys() == {"data"}
    assert contestant.headers == {"Content-Type": "application/json"}


def sample(rps: float, p95: float = 1.0) -> Sample:
    return Sample(rps=rps, p50_ms=1.0, p95_ms=p95, errors=0, generator_us=1.0)


def test_ratios_are_taken_round_by_round(monkeypatch):
    speeds = {"ours": iter([200, 100, 400]), "theirs": iter([100, 50, 100])}
    order = []

    def measured(self, concurrency, *, seconds):
        order.append(self.name)
        return sample(next(speeds[self.name]))

    monkeypatch.setattr(Contestant, "measure", measured)
    rounds = Rounds()
    cells = [(raw(name, "host:1", NUMBERS), 4) for name in ("ours", "theirs")]
    rounds.run(cells, repeats=3, seconds=1, say=lambda _: None, title="")
    assert rounds.ratios("ours", "theirs", 4) == [2, 2, 4]
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert rounds.median("ours", 4) == 200
    assert rounds.ratios("ours", "nobody", 4) == []
    assert "200 (1.0 / 1.0)" in "\n".join(rounds.lines())


def test_targets():
    met = at_least("speed", [7, 9, 8, 8, 10], 8)
    assert (met.value, met.met, met.interval) == (8, True, (7, 10))
    missed = at_most("memory", [1.5, 1.6, 1.4], 1.2, note="It is torch.")
    assert not missed.met and missed.missed_by == pytest.approx(0.25)
    unknown = at_least("peer", [], 2, note="no java")
    assert unknown.met is None
    result = Result([met, missed, unknown])
    assert not result.met and Result([met, unknown]).met
    text = table(result)
    assert "memory: misses 1.2 by 25%. It is torch." in text and "peer: no java" in text
    keys = list(met.as_dict())
    assert keys[:4] == ["name", "value", "target", "met"]
    assert not at_least("broken", [float("nan")], 1).met


def test_settings_are_valid_configurations():
    text = Settings(instances=2, threads=3, spinning=False, delay_us=1000).text()
    config = parse_config(f'backend: "onnxruntime" {text}')
    assert config.instance_group[0].count == 2
    assert config.dynamic_batching.max_queue_delay_microseconds == 1000
    assert config.parameters["session.intra_op.allow_spinning"].string_value == "0"
    assert not parse_config(f'backend: "x" {Settings(batching=False).text()}').HasField("dynamic_batching")


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_settings_fit_the_cores(cores):
    found = backend.variants(cores)
    titles = [title for title, _ in found.values()]
    assert len(set(titles)) == len(titles) and {*backend.PARTS["settings"]} == {"resnet", *found}
    for _, settings in found.values():
        assert parse_config(f'backend: "onnxruntime" {settings.text()}').max_batch_size in (8, 64)


def test_the_distorted_digits_are_the_same_each_time():
    images, labels = distorted_set()
    assert images.shape == (1000, 3, 64, 64) and images.dtype == np.float32
    again, same = distorted_set()
    assert np.array_equal(images, again) and np.array_equal(labels, same)
    flat = pictures(np.zeros((1, 8, 8)))
    assert flat.min() == flat.max() == -1


def test_a_framework_that_cannot_be_installed_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKSHOP_WORKSPACE", str(tmp_path))
    monkeypatch.setattr(peers.sys, "executable", "/bin/false")
    monkeypatch.setattr(peers.shutil, "which", lambda _: None)
    found = peers.against_peers(
        raw("ours", "host:1", NUMBERS), NUMBERS, NUMBERS, Artifacts(tmp_path), Rounds(),
        repeats=1, seconds=1, say=lambda _: None, factor=2.0,
    )  # fmt: skip
    assert len(found) == 2 * len(peers.PEERS) and all(target.met is None for target in found)
    reasons = {target.name: target.note for target in found}
    assert "found no java" in reasons["requests/s, times TorchServe, c=64"]
    assert "cannot be installed here" in reasons["requests/s, times LitServe, c=16"]


def test_each_framework_asks_in_a_way_its_app_understands():
    picture = np.ones((1, 3, 64, 64), np.float32)
    for peer in peers.PEERS:
        contestant = peer.contestant(peer.name, "host:1", picture)
        assert contestant.path.startswith("/") and len(contestant.body) >= picture.nbytes
        assert (peers.APPS / peer.app).is_file()


def test_benches_are_named_and_found(monkeypatch):
    assert {"backend", "lint"} <= HOMES.keys()
    for name in HOMES:
        assert callable(bench(name))
    with pytest.raises(WorkshopError, match="found 'nothing', expected one of backend, "):
        bench("nothing")
    monkeypatch.setitem(HOMES, "lint", ("tests.unit.test_bench:planted", ""))
    shown = CliRunner().invoke(app, ["bench", "lint", "--json", "--repeats", "2"])
    assert shown.exit_code == 1
    found = json.loads(shown.stdout, parse_constant=pytest.fail)  # JSON has no nan, though Python's reads it
    assert found["targets"][0] == {
        "name": "rounds", "value": 2, "target": 3, "met": False, "interval": None, "direction": "at least",
    }  # fmt: skip
    assert found["raw"] == {"here": [1, None, [None, 2.5]]}
    assert CliRunner().invoke(app, ["bench", "lint", "--peers"]).exit_code == 2


def planted(*, repeats, say) -> Result:
    say("measuring")
    return Result([Target("rounds", repeats, 3, False)], {"here": [1, float("nan"), (float("inf"), 2.5)]})
