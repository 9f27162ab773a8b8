"""The generator's HTTP/2 against gRPC's own server: every ending a call can have."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from tests.unit.load_runs import scratch  # noqa: F401 - a fixture
from tutorial_lib.load import Every, GrpcTarget, generator_ceiling, run_load
from tutorial_lib.load.http2 import header_block


class Model(rpc.GRPCInferenceServiceServicer):
    """Echoes; what the model's name says, it does."""

    def __init__(self):
        self.seen = []
        self.release = threading.Event()

    def ModelInfer(self, request, context):
        self.seen.append(request)
        if request.model_name == "refuses":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "100 % wrong: größer\nthan allowed")
        if request.model_name == "hangs":
            self.release.wait(20)
        return pb.ModelInferResponse(id=request.id, raw_output_contents=request.raw_input_contents)

    def ModelStreamInfer(self, requests, context):
        for request in requests:
            self.seen.append(request)
            if request.model_name == "refuses":
                yield pb.ModelStreamInferResponse(
                    error_message="wrong", infer_response=pb.ModelInferResponse(id=request.id)
                )
            elif request.model_name == "refuses without id":
                yield pb.ModelStreamInferResponse(error_message="wrong")
            elif request.model_name == "aborts":
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
            else:
                yield pb.ModelStreamInferResponse(
                    infer_response=pb.ModelInferResponse(id=request.id, raw_output_contents=request.raw_input_contents)
                )


@contextmanager
def serving(*options):
    model = Model()
    server = grpc.server(
        ThreadPoolExecutor(32), options=[*options, ("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
    )
    rpc.add_GRPCInferenceServiceServicer_to_server(model, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield model, f"127.0.0.1:{port}", server
    finally:
        model.release.set()
        server.stop(0).wait()


def run(address, name="echoes", *, floats=64, streaming=False, **options):
    target = GrpcTarget(address, name, {"x": np.arange(floats, dtype=np.float32)[None]}, streaming=streaming)
    return run_load(target, warm_up_s=0, progress=False, **{"duration_s": 60} | options)


@pytest.mark.parametrize("streaming", [False, True])
def test_what_arrives_is_what_was_prepared(streaming):
    with serving() as (model, address, _):
        result = run(address, streaming=streaming, arrivals=Every(0.02), limit=30)
    assert result.answered == len(model.seen) == 30
    first = model.seen[0]
    assert (first.model_name, first.inputs[0].name, first.inputs[0].datatype) == ("echoes", "x", "FP32")
    assert list(first.inputs[0].shape) == [1, 64]
    assert np.frombuffer(first.raw_input_contents[0], np.float32).tolist() == list(range(64))
    if streaming:
        assert {request.id for request in model.seen} == {str(number) for number in range(30)}


@pytest.mark.parametrize("streaming", [False, True])
def test_messages_larger_than_frames_and_windows(streaming):
    """4 MB there and back, three at a time: 256 frames each, 64 times the first window."""
    with serving(("grpc.max_send_message_length", -1)) as (model, address, _):
        result = run(address, floats=1_000_000, streaming=streaming, concurrency=3, duration_s=1)
    assert result.answered == len(result.samples) == len(model.seen) > 2, result.error_messages
    assert all(len(request.raw_input_contents[0]) == 4_000_000 for request in model.seen)


def test_a_refused_message_is_an_error_with_grpcs_words():
    with serving(("grpc.max_receive_message_length", 1000)) as (_, address, _):
        result = run(address, floats=100_000, arrivals=Every(0.1), limit=3)
    assert result.errors == 3
    assert next(iter(result.error_messages)).startswith("RESOURCE_EXHAUSTED: ")


def test_status_and_message_are_read_from_the_trailers():
    with serving() as (_, address, _):
        result = run(address, "refuses", arrivals=Every(0.05), limit=10)
    assert result.error_messages == {"INVALID_ARGUMENT: 100 % wrong: größer than allowed": 10}


def test_calls_that_hang_time_out_and_are_cancelled():
    with serving() as (model, address, _):
        result = run(address, "hangs", arrivals=Every(0.1), limit=5, timeout_s=0.3)
        assert (result.timeouts, result.errors, result.lost) == (5, 0, 0)
        model.release.set()
        assert run(address, arrivals=Every(0.1), limit=3).answered == 3


def test_few_streams_at_a_time_make_requests_wait():
    with serving(("grpc.max_concurrent_streams", 2)) as (_, address, _):
        target = GrpcTarget(address, "echoes", {"x": np.zeros((1, 4), np.float32)}, connections=1)
        result = run_load(target, concurrency=16, duration_s=0.7, warm_up_s=0, progress=False)
    assert result.answered == len(result.samples) > 16
    assert "waited because all connections were in use" in result.generator.note


@pytest.mark.parametrize("name", ["refuses", "refuses without id"])
def test_errors_inside_a_stream(name):
    with serving() as (_, address, _):
        result = run(address, name, streaming=True, arrivals=Every(0.05), limit=10)
    assert result.error_messages == {"wrong": 10} and result.lost == 0


def test_a_stream_that_is_ended_is_opened_again():
    with serving() as (model, address, _):
        result = run(address, "aborts", streaming=True, arrivals=Every(0.1), limit=5)
    assert result.error_messages == {"RESOURCE_EXHAUSTED: enough": 5} and len(model.seen) == 5


@pytest.mark.parametrize("streaming", [False, True])
def test_a_server_that_goes_and_comes_back(streaming):
    with serving() as (model, address, server):
        port = int(address.rpartition(":")[2])
        back = []

        def restart():
            while len(model.seen) < 10:
                model.release.wait(0.02)
            server.stop(0).wait()
            again = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
            rpc.add_GRPCInferenceServiceServicer_to_server(model, again)
            assert again.add_insecure_port(f"127.0.0.1:{port}") == port
            again.start()
            back.append(again)

        thread = threading.Thread(target=restart)
        thread.start()
        result = run(address, streaming=streaming, arrivals=Every(0.02), limit=200, give_up_s=None)
        thread.join()
        back[0].stop(0).wait()
    assert result.lost == 0 and result.answered + result.errors == 200
    # it was away for a moment only; connecting again takes 50 ms, 100 ms, … 1 s
    assert result.answered > 20 and result.samples.status[-1] == 0


def test_prepared_headers_leave_no_trace_in_the_peers_table():
    import hpack

    headers = [(":method", "POST"), (":path", "/a/b"), ("te", "trailers")]
    decoder = hpack.Decoder()
    for _ in range(2):
        assert [tuple(entry) for entry in decoder.decode(header_block(headers))] == headers
    assert not decoder.header_table.dynamic_entries


def test_the_ceiling_is_measured():
    """That it is high enough is the bench's business; here it is that nothing fails."""
    for protocol in ("grpc", "http"):
        result = generator_ceiling(protocol, duration_s=1)
        assert result.answered > 0 and result.errors == result.lost == 0
