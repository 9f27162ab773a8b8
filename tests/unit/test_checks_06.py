"""The batching exercise of notebook 06 without a server: a limit that only who asks for it can know."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest

from tutorial_lib.course import checks_06
from tutorial_lib.course.checks_06 import WRONG, check_classify
from tutorial_lib.errors import ExerciseError, ModelLoadError
from tutorial_lib.paths import NOTEBOOKS

IMAGES = np.random.default_rng(0).random((120, 3, 4, 4), dtype=np.float32)


class Server:
    """Gives the means of rows as scores, and refuses what is over the limit that is loaded."""

    running = True

    def __init__(self, tier: str = "embedded") -> None:
        self.tier, self.loaded, self.refuses = tier, [32], False
        self.batches: list[int] = []

    def config(self, model):
        return {"max_batch_size": self.loaded[-1], "dynamic_batching": {"preferred_batch_size": [32]}}

    def load(self, model, *, config=None):
        if config and self.refuses:
            raise ModelLoadError("model 'densenet_onnx': refused.")
        changed = json.loads(config) if config else {}
        assert not changed.get("dynamic_batching"), "a preferred size over the limit does not load"
        self.loaded.append(changed.get("max_batch_size", 32))

    def unload(self, model):
        self.loaded.append(0)

    def infer(self, model, inputs):
        (images,) = inputs
        self.batches.append(len(images))
        if len(images) > self.loaded[-1]:
            raise RuntimeError(f"inference request batch-size must be <= {self.loaded[-1]} for '{model}'")
        return SimpleNamespace(as_numpy=lambda name: images.mean(axis=3).reshape(len(images), -1))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(checks_06, "_scores", lambda _, images: images.mean(axis=3).reshape(len(images), -1))
    return Server()


def answer(source: str, server: Server):
    names = {"np": np, "server": server, "client": server, "given": {"name": "fc6_1"}, "triton_http": None}
    names["as_input"] = lambda module, images: images
    exec(source, names)
    return names["classify"]


def solution() -> str:
    cells = nbformat.read(NOTEBOOKS / "06_call_the_server.ipynb", as_version=4).cells
    text = next(cell.source for cell in cells if cell.id == "classify-solution")
    return re.search(r"```python\n(.*?)```", text, re.S)[1]


def test_the_solution_passes_and_the_limit_comes_back(server, capsys):
    check_classify(answer(solution(), server), server, IMAGES)
    assert "✓ Right" in capsys.readouterr().out
    assert server.loaded == [32, 5, 0, 32] and max(server.batches[-3:]) == 5


def test_a_limit_written_down_is_refused_and_the_limit_comes_back(server):
    code, told = WRONG["check_classify"][-1]
    with pytest.raises(ExerciseError, match=told):
        check_classify(answer(code, server), server, IMAGES)
    assert server.loaded == [32, 5, 0, 32]


def test_a_server_of_others_keeps_its_model(server, capsys):
    server.tier = "attached"
    check_classify(answer(solution(), server), server, IMAGES)
    assert "✓ Right" in capsys.readouterr().out and server.loaded == [32]


def test_a_model_that_does_not_take_the_lower_limit_comes_back(server):
    server.refuses = True
    with pytest.raises(ModelLoadError):
        check_classify(answer(solution(), server), server, IMAGES)
    assert server.loaded == [32, 0, 32]
