"""Load plans, targets, seeds and shapes that are none: refused before anything is sent."""

from __future__ import annotations

import math

import pytest

from tests.unit.load_runs import load, scratch  # noqa: F401 - a fixture
from tutorial_lib.errors import LoadError
from tutorial_lib.load import EndpointTarget, Every, GrpcTarget, HttpTarget, Poisson, run_load
from tutorial_lib.load.made_up import made_up_inputs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "found 0 of arrivals, users and concurrency"),
        ({"concurrency": 1, "arrivals": Poisson(1)}, "found 2 of"),
        ({"concurrency": 0}, "concurrency: found 0"),
        ({"concurrency": 1.5}, "concurrency: found 1.5"),
        ({"users": 300}, "found 300, expected a pattern"),
        ({"arrivals": 50}, "found 50, expected a pattern"),
        ({"concurrency": 1, "duration_s": 0}, "duration_s: found 0"),
        ({"concurrency": 1, "duration_s": 1e9}, "duration_s: found"),
        ({"concurrency": 1, "duration_s": math.nan}, "duration_s: found nan"),
        ({"concurrency": 1, "timeout_s": -1}, "timeout_s: found -1"),
        ({"concurrency": 1, "warm_up_s": 10}, "warm_up_s: found 10"),
        ({"concurrency": 1, "limit": 0}, "limit: found 0"),
        ({"concurrency": 1, "give_up_s": 0}, "give_up_s: found 0"),
        ({"arrivals": Poisson(0.001), "duration_s": 1}, "no request in 1 s"),
    ],
)
def test_plans_that_are_none_are_refused(options, said):
    with pytest.raises(LoadError, match=said):
        run_load(EndpointTarget("http://127.0.0.1:1/"), progress=False, **options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EndpointTarget("ftp://x/"), "expected http://HOST:PORT"),
        (lambda: EndpointTarget("https://x/"), "expected http://HOST:PORT"),
        (lambda: EndpointTarget("http://x:y/"), "expected http://HOST:PORT"),
        (lambda: EndpointTarget("http://x/", json={}, bodies=[b""]), "found json and bodies"),
        (lambda: EndpointTarget("http://x/", headers={"A": "b\r\nC: d"}), "line end"),
        (lambda: EndpointTarget("http://x/", method="POST /"), "method"),
        (lambda: EndpointTarget("http://x/", connections=0), "connections: found 0"),
        (lambda: EndpointTarget("http://x/", content_type="a/b\r\nX-Evil: 1"), "header 'Content-Type': .*line end"),
        (lambda: EndpointTarget("http://x/", content_type="a\x00"), "control character"),
        (lambda: EndpointTarget("http://x/", headers={"A": "…"}), "header 'A': found '…', expected Latin-1"),
        (lambda: EndpointTarget("http://x/", headers={"Ä": "1"}), "header 'Ä': found a name that is none"),
        (lambda: EndpointTarget("http://x/", headers={"A b": "1"}), "header 'A b': found a name that is none"),
        (lambda: EndpointTarget("http://x/", headers={"A:": "1"}), "header 'A:': found a name that is none"),
        (lambda: EndpointTarget("http://x/", headers={"": "1"}), "header '': found a name that is none"),
        (lambda: EndpointTarget("http://x/", headers={b"A": "1"}), "found a name that is none"),
        (lambda: EndpointTarget("http://x/", headers={"content-length": "1"}), "follows from the address and the body"),
        (lambda: EndpointTarget("http://x/", headers=[("A", "1")]), "headers: found .*expected a dict"),
        (lambda: EndpointTarget("http://x/", headers=None), "headers: found None"),
        (lambda: EndpointTarget("http://x/", method="LÖSCH"), "method: found 'LÖSCH'"),
        (lambda: EndpointTarget("http://x/", method=None), "method: found None"),
        (lambda: EndpointTarget("http://x/a b"), "url: found .*Percent-encode"),
        (lambda: EndpointTarget("http://x/a?b=c d"), "url: found .*Percent-encode"),
        (lambda: EndpointTarget("http://x/a\r\nX: 1"), "url: found .*Percent-encode"),
        (lambda: EndpointTarget("http://x/Ω"), "url: found .*ASCII"),
        (lambda: EndpointTarget(b"http://x/"), "url: found b'http://x/'"),
        (lambda: EndpointTarget(None), "url: found None"),
        (lambda: EndpointTarget("http://x/", bodies=b"xyz"), "bodies: found bytes, expected a list of bytes"),
        (lambda: EndpointTarget("http://x/", bodies="xyz"), "bodies: found str, expected a list of bytes"),
        (lambda: EndpointTarget("http://x/", bodies=[b"", "x"]), r"bodies\[1\]: found str, expected bytes. Encode"),
        (lambda: EndpointTarget("http://x/", bodies=[1]), r"bodies\[0\]: found int, expected bytes"),
        (lambda: EndpointTarget("http://x/", bodies=None), "bodies: found NoneType"),
        (lambda: EndpointTarget("http://x/", json={1, 2}).prepare(), "json: found set, expected what JSON has"),
        (lambda: HttpTarget("http://x/a b", "m", {"x": [1.0]}), "url: found .*Percent-encode"),
        (lambda: HttpTarget("http://x", "m", {"x": [1.0]}, version=1), "version: found 1, expected a text"),
        (lambda: GrpcTarget("x:1", "", {"x": [1.0]}), "model: found ''"),
        (lambda: GrpcTarget("x:1", None, {"x": [1.0]}), "model: found None"),
        (lambda: GrpcTarget("x:1", "m", {"x": [1.0]}, version=1), "version: found 1, expected a text"),
        (lambda: GrpcTarget("ä:1", "m", {"x": [1.0]}), "expected HOST:PORT"),
        (lambda: GrpcTarget("x y:1", "m", {"x": [1.0]}), "expected HOST:PORT"),
        (lambda: GrpcTarget("x:1", "m", None).prepare(), "inputs: found NoneType"),
        (lambda: GrpcTarget("x:1", "m", {1: [1.0]}).prepare(), "expected a dict of input name"),
        (lambda: GrpcTarget("x:1", "m", {"x": [[1.0], [1.0, 2.0]]}).prepare(), "input 'x': found no array"),
        (lambda: GrpcTarget("http://x:1", "m", {}), "expected HOST:PORT"),
        (lambda: GrpcTarget("x", "m", {}), "expected HOST:PORT"),
        (lambda: GrpcTarget("x:1", "m", {}).prepare(), "expected a dict of input name"),
        (lambda: GrpcTarget("x:1", "m", []).prepare(), "inputs: found none"),
        (lambda: HttpTarget("http://x:1", "m", {"a": [1 + 2j]}).prepare(), "no type for numpy's complex128"),
    ],
)
def test_targets_that_are_none_are_refused(make, said):
    with pytest.raises(LoadError, match=said):
        make()


@pytest.mark.parametrize("plan", [{"concurrency": 1}, {"arrivals": Poisson(5)}, {"arrivals": Every(1)}])
@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, None, "1"])
def test_a_seed_that_is_none_is_refused(plan, seed):
    with pytest.raises(LoadError, match="seed: found .* expected a whole number from 0 to 4294967295"):
        run_load(EndpointTarget("http://127.0.0.1:1/"), progress=False, seed=seed, **plan)
    with pytest.raises(LoadError, match="seed: found"):
        Poisson(5).times(1.0, seed=seed)


@pytest.mark.parametrize("shape", [3, "1,3", (1, 2.5), None])
def test_shapes_that_are_none_are_refused(shape):
    metadata = {"inputs": [{"name": "x", "shape": [1, -1], "datatype": "FP32"}]}
    with pytest.raises(LoadError, match="shapes: found .* for 'x', expected whole numbers"):
        made_up_inputs(metadata, {}, shapes={"x": shape})
    with pytest.raises(LoadError, match="seed: found -1"):
        made_up_inputs(metadata, {}, shapes={"x": (1, 3)}, seed=-1)


def test_a_request_says_what_it_was_made_of():
    target = EndpointTarget(
        "http://[::1]:8000/a%20b?c=%C3%A4", bodies=[b"x", bytearray(b"yz")], headers={"content-type": "a/b", "X-Y": "ä"}
    )
    first, second = target.prepare().bodies
    head, _, body = second.partition(b"\r\n\r\n")
    assert head.decode("latin-1").split("\r\n") == [
        *("POST /a%20b?c=%C3%A4 HTTP/1.1", "Host: [::1]:8000", "Content-Length: 2", "content-type: a/b", "X-Y: ä"),
    ]
    assert body == b"yz" and first.endswith(b"\r\n\r\nx")
    plain = EndpointTarget("http://x/", json={"ä": [1]}).prepare().bodies[0]
    assert b"Content-Type: application/json\r\n" in plain and plain.endswith(b'{"\\u00e4": [1]}')
    assert (
        HttpTarget("http://x/base/?q=1", "m", {"x": [1.0]}).prepare().bodies[0].startswith(b"POST /base/v2/models/m/")
    )
