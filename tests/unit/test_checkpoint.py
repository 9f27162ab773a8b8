from __future__ import annotations

import json
import pickle
import shutil

import pytest
import torch
from safetensors.torch import save

from tutorial_lib.checkpoint import load_checkpoint, metadata_path, save_checkpoint, verify_checkpoint
from tutorial_lib.errors import CheckpointError
from tutorial_lib.models.densenet import DenseNet


@pytest.fixture(scope="module")
def model() -> DenseNet:
    result = DenseNet(growth=4, blocks=(1, 2), stem=6)
    result.train()(torch.randn(4, 3, 32, 32))  # running statistics that are not the initial ones
    return result.eval()


@pytest.fixture
def saved(model, tmp_path):
    return save_checkpoint(model, tmp_path / "a" / "net.safetensors", metrics={"held_out_accuracy": 0.5}, seed=7)


def change(path, **entries):
    where = metadata_path(path)
    where.write_text(json.dumps(json.loads(where.read_text()) | entries))


def restamp(path, weights: bytes):
    """Other weights with metadata that vouches for them."""
    import hashlib

    path.write_bytes(weights)
    entry = {"file": path.name, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    change(path, weights=entry)


def test_reload_equals_exactly(model, saved):
    found = load_checkpoint(saved)
    assert list(found.model.state_dict()) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor)
    images = torch.randn(3, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(found.model(images), model(images))
    assert not found.model.training


def test_metadata_says_what_a_server_needs(saved):
    metadata = verify_checkpoint(saved)
    assert len(metadata["classes"]) == 10 and metadata["classes"][3] == "three"
    assert metadata["input"] == {"name": "data_0", "datatype": "FP32", "shape": ["batch", 3, 32, 32]}
    assert metadata["output"]["name"] == "fc6_1"
    assert metadata["metrics"] == {"held_out_accuracy": 0.5} and metadata["seed"] == 7
    assert metadata["versions"]["torch"] == torch.__version__
    assert metadata["preprocessing"]["size"] == [32, 32]


def test_saving_twice_writes_the_same_bytes(model, saved, tmp_path):
    other = save_checkpoint(model, tmp_path / "b" / "net.safetensors", metrics={"held_out_accuracy": 0.5}, seed=7)
    assert other.read_bytes() == saved.read_bytes()
    assert metadata_path(other).read_bytes() == metadata_path(saved).read_bytes()
    assert sorted(path.name for path in other.parent.iterdir()) == ["net.json", "net.safetensors"]


def test_missing_weights_and_missing_metadata(saved):
    metadata_path(saved).unlink()
    with pytest.raises(CheckpointError, match=r"net\.json.*No such file"):
        load_checkpoint(saved)
    with pytest.raises(CheckpointError, match="No such file"):
        load_checkpoint(saved.with_name("none.safetensors"))


def test_cut_and_changed_weights(saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match="cut"):
        load_checkpoint(saved)
    saved.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="SHA-256"):
        load_checkpoint(saved)


def test_metadata_of_another_checkpoint(saved, tmp_path):
    other = save_checkpoint(DenseNet(growth=4, blocks=(1, 2), stem=6), tmp_path / "c.safetensors", metrics={}, seed=0)
    shutil.copy(metadata_path(other), metadata_path(saved))
    with pytest.raises(CheckpointError, match="SHA-256"):
        load_checkpoint(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"format": "x"}', "[" * 100_000, "\x00"])
def test_metadata_that_is_no_metadata(saved, text):
    metadata_path(saved).write_text(text)
    with pytest.raises(CheckpointError):
        load_checkpoint(saved)


def test_metadata_that_is_not_text(saved):
    metadata_path(saved).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CheckpointError, match="not JSON"):
        load_checkpoint(saved)


def test_another_architecture(saved):
    change(saved, architecture={"name": "ResNet", "depth": 18})
    with pytest.raises(CheckpointError, match="ResNet"):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    "arguments",
    [
        {"growth": 10**9}, {"growth": "4"}, {"growth": True}, {"growth": -1}, {"blocks": [1] * 1000},
        {"blocks": [10**6]}, {"blocks": "33"}, {"blocks": None}, {"classes": None}, {"stem": 6.5},
    ],
)  # fmt: skip
def test_absurd_architecture_is_refused_before_it_is_built(saved, arguments):
    stated = {"name": "DenseNet", "growth": 4, "blocks": [1, 2], "stem": 6, "classes": 10}
    change(saved, architecture=stated | arguments)
    with pytest.raises(CheckpointError, match="architecture arguments"):
        load_checkpoint(saved)


def test_metadata_and_tensors_of_different_sizes(saved):
    change(saved, architecture={"name": "DenseNet", "growth": 5, "blocks": [1, 2], "stem": 6, "classes": 10})
    with pytest.raises(CheckpointError, match="do not fit"):
        load_checkpoint(saved)


def test_missing_extra_and_half_precision_tensors(model, saved):
    state = dict(model.state_dict())
    restamp(saved, save({name: value for name, value in state.items() if name != "classifier.bias"}))
    with pytest.raises(CheckpointError, match=r"missing classifier\.bias"):
        load_checkpoint(saved)
    restamp(saved, save(state | {"extra": torch.zeros(1)}))
    with pytest.raises(CheckpointError, match="unexpected extra"):
        load_checkpoint(saved)
    restamp(saved, save(state | {"classifier.bias": state["classifier.bias"].half()}))
    with pytest.raises(CheckpointError, match="found float16"):
        load_checkpoint(saved)


def test_a_pickle_is_never_run(saved, tmp_path):
    marker = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    restamp(saved, pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_checkpoint(saved)
    assert not marker.exists()


def test_oversized_files_are_not_read(saved, monkeypatch):
    monkeypatch.setattr("tutorial_lib.checkpoint.MAX_WEIGHTS_MIB", 0)
    with pytest.raises(CheckpointError, match="more than 0 MiB"):
        load_checkpoint(saved)


def test_refusals_while_saving(model, tmp_path):
    with pytest.raises(CheckpointError, match="not finite"):
        save_checkpoint(model, tmp_path / "n.safetensors", metrics={"loss": float("nan")}, seed=0)
    with pytest.raises(CheckpointError, match=r"\.safetensors"):
        save_checkpoint(model, tmp_path / "n.pt", metrics={}, seed=0)
    assert not list(tmp_path.iterdir())
