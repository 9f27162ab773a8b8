"""One server with the models of all rows: which load, what they are completed to, what they answer."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.server.conformance.channels import CHANNELS, ask, said
from tests.server.conformance.row import Ask, Row
from tests.server.conformance.rows import BY_NAME, ROWS
from tutorial_lib.server import Server, serve
from tutorial_lib.server.explain import explain_log


@pytest.fixture(scope="module")
def repository(request, tmp_path_factory) -> Path:
    """The models of the rows that are to be tested."""
    items = (item for item in request.session.items if hasattr(item, "callspec"))
    rows = [item.callspec.params["row"] for item in items if item.module is request.module]
    root = tmp_path_factory.mktemp("conformance")
    for row in {row.name: row for row in rows}.values():
        row.write(root)
    return root


@pytest.fixture(scope="module")
def server(repository) -> Server:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # many rows are not to load
        server = serve(repository, startup_timeout_s=900)
    with server:
        yield server


@pytest.fixture(scope="module")
def index(server) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for item in server.control.index():
        found.setdefault(item["name"], []).append(item)
    return found


@pytest.fixture(scope="module")
def log(server) -> str:
    return server.process.log_text()


def test_names_are_used_once():
    assert len(BY_NAME) == len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_verdict_and_completion(row: Row, server, index, log):
    versions = index.get(row.name, [])
    reasons = " ".join(item.get("reason", "") for item in versions)
    loaded = any(item.get("state") == "READY" for item in versions)
    if row.refused:
        polled = "\n".join(line for line in log.splitlines() if row.name in line)
        assert not loaded
        assert row.refused in (reasons if "UNAVAILABLE" in str(versions) else polled), reasons or polled
        return
    assert loaded, reasons
    config = server.config(row.name)
    for key, expected in row.completed.items():
        found = config.get(key)
        if key in ("input", "output"):
            found = [tensor_entry(item) for item in found]
        if expected is ...:
            assert found is not None, f"{key}: missing"
        elif isinstance(expected, dict):
            assert {name: found[name] for name in expected} == expected
        else:
            assert found == expected, key
    assert row.logged in log


@pytest.mark.parametrize("row", [row for row in ROWS if row.refused], ids=lambda row: row.name)
def test_refusals_are_put_into_words(row: Row, log):
    (item,) = (item for item in explain_log(log) if item.model == row.name)
    assert item.known and item.cause and item.fix, item.line


def tensor_entry(entry: dict) -> tuple:
    """(name, type, dims), and the shape of a reshape if there is one."""
    reshape = [list(map(int, entry["reshape"]["shape"]))] if "reshape" in entry else []
    return (entry["name"], entry["data_type"], list(map(int, entry["dims"])), *reshape)


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.asks], ids=lambda row: row.name)
def test_answers(row: Row, channel: str, repository, server):
    questions = [question for question in row.asks if question.json or channel != "json"]
    if not questions:
        pytest.skip("JSON has no such values: NaN, or bytes that are no UTF-8")
    for question in questions:
        expected = {} if question.error else row.answers(question, repository)
        outputs, call = question.outputs or tuple(expected), {"channel": channel, "version": question.version}
        words = question.error or json_refusal(question) * (channel == "json")
        if words:
            assert words in said(lambda: ask(server, row.name, question.feeds, outputs, **call))  # noqa: B023
            continue
        found = ask(server, row.name, question.feeds, outputs, **call)
        for name, array in expected.items():
            assert_same(found[name], array, f"{row.name} {name} {channel}")


def json_refusal(question: Ask) -> str:
    """What Triton says of a type that JSON does not carry (case 62 of tests/cases)."""
    half = any(array.dtype == np.float16 for array in question.feeds.values())
    return "receiving FP16 data via JSON is not supported. Please use the binary data format" if half else ""


def assert_same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Exactly the same: same type, shape and bits; BYTES compare as bytes."""
    if expected.dtype == object:
        expected = np.vectorize(lambda item: item.encode() if isinstance(item, str) else item, otypes=[object])(
            expected
        )
    assert found.shape == expected.shape, what
    if expected.dtype == object:
        assert found.tolist() == expected.tolist(), what
        return
    assert found.dtype == expected.dtype, what
    assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), what
