"""Real models out of PyPI packages: configured, served, and answering as ONNX Runtime does.

The packages are no dependencies of this project: `real_models.py` says how to get the models, and a model that
is not there is skipped with that as the reason.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as triton_grpc

from tests.server.asking import ask, assert_same, wire
from tests.server.real_models import FOLDER_VARIABLE, MODELS, inputs_for
from tutorial_lib.repository import add_model, read_config
from tutorial_lib.repository.probe import sample_inputs
from tutorial_lib.server import serve

FOUND = {model.name: path for model in MODELS if (path := model.find())}


@pytest.fixture(scope="module")
def real_server(tmp_path_factory):
    repository = tmp_path_factory.mktemp("real") / "models"
    for name, path in FOUND.items():
        add_model(path, repository, name=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a model that is not loaded would warn
        with serve(repository, disable_auto_complete_config=True) as server:
            yield server


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_answers_as_onnx_runtime(model, request):
    if model.name not in FOUND:
        pytest.skip(f"{model.package} is not here: see tests/server/real_models.py, then set {FOLDER_VARIABLE}")
    server = request.getfixturevalue("real_server")
    config = read_config(server.repositories[0] / model.name)
    assert (config.max_batch_size > 0) == model.batched
    example = {name: np.array(value) for name, value in model.fixed.items()}
    example |= {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    kinds = {
        name: (array.dtype.name, list(array.shape))
        for name, array in sample_inputs(FOUND[model.name], rows=2, example=example).items()
    }
    session = onnxruntime.InferenceSession(FOUND[model.name], providers=["CPUExecutionProvider"])
    names = [entry.name for entry in config.output]
    with triton_grpc.InferenceServerClient(server.grpc_address) as client:
        for seed in range(3):
            feeds = inputs_for(model, kinds, seed)
            answer = ask(client, model.name, config, feeds)
            expected = dict(zip(names, session.run(names, feeds), strict=True))
            for entry in config.output:
                found = wire(expected[entry.name], entry, model.batched)
                assert np.isfinite(found).all()
                assert_same(answer[entry.name], found, f"{model.name}: {entry.name}", rtol=1e-3)
