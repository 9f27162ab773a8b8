"""Generated configurations load on a real Triton, and what it answers is what ONNX Runtime answers."""

from __future__ import annotations

import importlib.util
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.grpc as triton_grpc
from onnx import TensorProto, helper

from tests.server.asking import ask, assert_same, wire
from tests.server.conftest import save_onnx
from tests.server.random_graphs import TYPES, random_array, some_recipes, write_graph
from tutorial_lib.repository import Step, add_ensemble, add_model, check_against_onnx, read_config
from tutorial_lib.repository.lint import lint_repository
from tutorial_lib.server import serve

COUNT = 32  # graphs, each with a Python stub of its own
RECIPES = some_recipes(COUNT)
FREE = {"n": 2, "batch": 2, "k": 3, "m": 1, None: 2}  # what open axes get where they are no batch
FIRST = 3


def name_of(number: int) -> str:
    return f"random_{number:02}"


@pytest.fixture(scope="module")
def random_models(tmp_path_factory):
    """All graphs, with their generated configurations, on one server that completes nothing."""
    repository, files = tmp_path_factory.mktemp("random") / "models", {}
    for number, recipe in enumerate(RECIPES):
        source = write_graph(recipe, tmp_path_factory.mktemp("source") / "graph.onnx")
        files[number] = add_model(source, repository, name=name_of(number)) / "1" / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that does not load is judged below, with its reason
        server = serve(repository, disable_auto_complete_config=True)
    with server, triton_grpc.InferenceServerClient(server.grpc_address) as client:
        yield server, client, files


def test_the_graphs_are_of_all_kinds(random_models):
    _, _, files = random_models
    configs = [read_config(path.parent.parent) for path in files.values()]
    assert len(RECIPES) == COUNT
    batched = sum(config.max_batch_size > 0 for config in configs)
    assert COUNT / 4 < batched < COUNT
    assert any(entry.HasField("reshape") for config in configs for entry in config.output)
    assert {recipe.kind for recipe in RECIPES} >= set(TYPES) - {"float16"}
    assert any("softmax of the first axis" in recipe.outputs for recipe in RECIPES)


def test_the_linter_finds_nothing_wrong_with_them(random_models):
    server, _, _ = random_models
    findings = lint_repository(server.repositories[0])
    assert [str(one) for one in findings if one.severity != "info"] == []


@pytest.mark.parametrize("number", range(COUNT), ids=lambda number: f"{number:02}-{RECIPES[number].kind}")
def test_loads_and_answers_as_onnx_runtime(random_models, number):
    server, client, files = random_models
    recipe, model = RECIPES[number], name_of(number)
    index = server.models().set_index("name")
    assert index.loc[model, "state"] == "READY", f"{recipe}: {index.loc[model, 'reason']}"
    config = read_config(files[number].parent.parent)
    check_against_onnx(config, files[number])
    session = onnxruntime.InferenceSession(files[number], providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(number)
    batched = config.max_batch_size > 0
    requests = []
    for rows in (1, 3, config.max_batch_size, 1, 2, 1) if batched else (FIRST, FIRST):
        feeds = {}
        for tensor in session.get_inputs():
            shape = [axis if isinstance(axis, int) else FREE.get(axis, 2) for axis in tensor.shape]
            if batched:
                shape[0] = rows
            feeds[tensor.name] = random_array(recipe.kind, shape, generator)
        requests.append(feeds)
    with ThreadPoolExecutor(len(requests)) as pool:  # at once, so that some go into one batch
        answers = list(pool.map(lambda feeds: ask(client, model, config, feeds), requests))
    names = [entry.name for entry in config.output]
    for feeds, answer in zip(requests, answers, strict=True):
        expected = dict(zip(names, session.run(names, feeds), strict=True))
        for entry in config.output:
            assert_same(answer[entry.name], wire(expected[entry.name], entry, batched), f"{recipe}: {entry.name}")


def test_a_generated_ensemble_answers_as_its_steps_one_after_the_other(tmp_path):
    repository = tmp_path / "models"
    weights = {"w": np.arange(6, dtype=np.float32).reshape(3, 2)}
    shapes = [("batch", 3)], [("batch", 2)]
    first = save_onnx(
        tmp_path / "first.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT, *shapes[0])],
        [("y", TensorProto.FLOAT, *shapes[1])],
        weights,
    )
    second = save_onnx(
        tmp_path / "second.onnx",
        [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)],
        [("x", TensorProto.FLOAT, *shapes[1])],
        [("y", TensorProto.FLOAT, ["batch"])],
    )
    add_model(first, repository, max_batch_size=4)
    add_model(second, repository)
    add_ensemble("both", "first", Step("second", outputs={"y": "best"}), repository=repository)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with serve(repository) as server, triton_grpc.InferenceServerClient(server.grpc_address) as client:
            answer = ask(client, "both", read_config(repository / "both"), {"x": x})["best"]
    np.testing.assert_allclose(answer, (x @ weights["w"]).max(axis=1, keepdims=True), rtol=1e-5)


def test_external_data_is_found_by_the_server(tmp_path):
    weights = {"w": np.arange(6, dtype=np.float32).reshape(3, 2)}
    path = save_onnx(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT, ("batch", 3))],
        [("y", TensorProto.FLOAT, ("batch", 2))],
        weights,
    )
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    folder = add_model(path, tmp_path / "models")
    with serve(tmp_path / "models") as server, triton_grpc.InferenceServerClient(server.grpc_address) as client:
        x = np.ones((2, 3), np.float32)
        answer = ask(client, "m", read_config(folder), {"x": x})["y"]
    np.testing.assert_allclose(answer, x @ weights["w"])


UPPER = [helper.make_node("StringUpper", ["x"], ["y"], domain="ai.onnx.contrib")]


def custom_model(path):
    """x, texts [n, 2] → y in capitals, by an operator of the onnxruntime-extensions package."""
    shapes = [("x", TensorProto.STRING, ["n", 2])], [("y", TensorProto.STRING, ["n", 2])]
    model = onnx.load(save_onnx(path, UPPER, *shapes))
    model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    onnx.save(model, path)
    return path


def test_custom_operators_come_with_their_library(tmp_path):
    found = importlib.util.find_spec("onnxruntime_extensions")
    if found is None:
        pytest.skip("the package onnxruntime-extensions, whose library this needs, is not installed")
    library = next(Path(found.origin).parent.glob("*.so"))
    folder = add_model(custom_model(tmp_path / "upper.onnx"), tmp_path / "models", op_library=library)
    with serve(tmp_path / "models") as server, triton_grpc.InferenceServerClient(server.grpc_address) as client:
        answer = ask(client, "upper", read_config(folder), {"x": np.array([["ab", "c"]], object)})
    assert answer["y"].tolist() == [[b"AB", b"C"]]


def test_a_library_that_is_not_there_is_why_a_model_does_not_load(tmp_path):
    path = custom_model(tmp_path / "models" / "upper" / "1" / "model.onnx")
    text = 'backend: "onnxruntime" model_operations { op_library_filename: [ "/no/such/library.so" ] }'
    (path.parent.parent / "config.pbtxt").write_text(text)
    with pytest.warns(UserWarning, match="/no/such/library.so"), serve(tmp_path / "models") as server:
        assert not server.ready("upper")
