"""Health on the real Triton: a model that is there answers, whatever its types, protocol or opinion of zeros."""

from __future__ import annotations

import psutil
import pytest

from tests.server.conftest import ECHO_CONFIG, ECHO_MODEL, write_echo
from tutorial_lib.errors import ServerError
from tutorial_lib.server import serve

RESPONSE = 'pb_utils.InferenceResponse([pb_utils.Tensor("RETURNED", sent)])'
SENDS = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sent = pb_utils.get_input_tensor_by_name(request, "SENT").as_numpy()
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("RETURNED", sent)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
DECOUPLED = ECHO_CONFIG + "model_transaction_policy { decoupled: true }\n"
PIPELINE = (
    ECHO_CONFIG.replace('backend: "python"', 'platform: "ensemble"')
    + """
ensemble_scheduling { step [ { model_name: "many" model_version: -1
  input_map { key: "SENT" value: "SENT" } output_map { key: "RETURNED" value: "RETURNED" } } ] }
"""
)
# name: model.py, config.pbtxt
MODELS = {
    "raises": (ECHO_MODEL.replace("answers = []", "raise ValueError('zeros are not digits')"), ECHO_CONFIG),
    "refuses": (
        ECHO_MODEL.replace(RESPONSE, "pb_utils.InferenceResponse(error=pb_utils.TritonError('zeros are not digits'))"),
        ECHO_CONFIG,
    ),
    "dies": (ECHO_MODEL.replace("answers = []", "import os; os._exit(1)"), ECHO_CONFIG),
    "sequence": (ECHO_MODEL, ECHO_CONFIG + "sequence_batching { }\n"),
    "many": (SENDS, DECOUPLED),
    "none": (SENDS.replace(f"sender.send({RESPONSE})", ""), DECOUPLED),
    "pipeline_of_many": (ECHO_MODEL, PIPELINE),
    "many_raises": (SENDS.replace("sender = ", "raise ValueError('zeros are not digits')  # "), DECOUPLED),
    "many_silent": (SENDS.replace("sender = ", "import threading; threading.Event().wait(30)  # "), DECOUPLED),
} | {
    kind.lower(): (ECHO_MODEL, ECHO_CONFIG.replace("TYPE_FP32", f"TYPE_{kind}"))
    for kind in ("FP16", "FP64", "BOOL", "INT8", "UINT16", "INT64", "STRING")
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = tmp_path_factory.mktemp("asked")
    for name, (code, config) in MODELS.items():
        write_echo(repository, name)
        (repository / name / "1" / "model.py").write_text(code)
        (repository / name / "config.pbtxt").write_text(config)
    with serve(repository) as started:
        yield started


@pytest.mark.parametrize(
    "name", [n for n in MODELS if n not in ("raises", "refuses", "dies", "many_raises", "many_silent")]
)
def test_every_type_and_kind_of_model_answers(server, name):
    health = server.health(name)
    assert health and health.detail == ""


@pytest.mark.parametrize("name", ["raises", "refuses", "many_raises"])
def test_a_model_that_refuses_zeros_is_there(server, name):
    health = server.health(name)
    assert health and "zeros are not digits" in health.detail and "Traceback" not in health.detail


def test_a_model_that_dies_of_the_probe_is_not_healthy(server):
    health = server.health("dies", timeout_s=15)
    assert health.ready and not health.answers and "is not healthy" in health.detail


def test_a_decoupled_model_that_keeps_silent_or_whose_process_is_gone(server):
    silent = server.health("many_silent", timeout_s=1)
    assert silent.ready and not silent and "no answer within 1 s" in silent.detail
    children = psutil.process_iter(["ppid", "cmdline"])
    (stub,) = [
        child
        for child in children
        if child.info["ppid"] == server.process.pid and "/many/" in " ".join(child.info["cmdline"] or ())
    ]
    stub.kill()
    dead = server.health("many", timeout_s=15)
    assert dead.ready and not dead and "is not healthy" in dead.detail


def test_a_decoupled_model_without_a_grpc_side_is_not_called_healthy(server, monkeypatch):
    for address, says in (("127.0.0.1:1", "gRPC stream 127.0.0.1:1: "), ("", "gRPC stream : ")):
        monkeypatch.setattr(server, "grpc_address", address)
        health = server.health("none", timeout_s=3)
        assert not health and says in health.detail


def test_a_model_that_is_not_there(server):
    health = server.health("nobody")
    assert (health.ready, health.answers, health.detail) == (False, False, "not ready")


def test_a_shape_too_large_to_probe(tmp_path):
    repository = write_echo(tmp_path)
    (repository / "echo" / "config.pbtxt").write_text(ECHO_CONFIG.replace("dims: [ -1 ]", "dims: [ 3000, 3000 ]"))
    with serve(repository) as server, pytest.raises(ServerError, match="9000000 elements, too large to probe"):
        server.health("echo")
