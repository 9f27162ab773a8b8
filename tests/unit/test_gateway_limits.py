"""What makes little of a request into much work, for the gateway or for Triton, and must not."""

from __future__ import annotations

import asyncio
import contextlib
import io
import struct
import threading
import time
import zlib

import grpc
import grpc.aio
import numpy as np
import pytest
from PIL import Image
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from tests.unit.test_gateway import LIMIT, failed, file, picture, play, post, refused
from tutorial_lib.errors import GatewayError
from tutorial_lib.gateway import Settings
from tutorial_lib.gateway import app as app_module
from tutorial_lib.gateway import picture as picture_module
from tutorial_lib.gateway.backend import Backend
from tutorial_lib.gateway.parts import MAX_CHUNKS, MAX_SCANS, check_parts
from tutorial_lib.gateway.picture import decoded, is_small, open_picture
from tutorial_lib.gateway.refusal import Refusal

PATIENCE_S = 30  # reached only by a test that fails


def with_scans(count, side=64):
    """A progressive JPEG whose last scan is there `count` times more: each time all pixels are gone over again."""
    whole = file(Image.new("L", (side, side), 128), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:-2] + whole[last:-2] * count + whole[-2:]


def segments(one, count):
    whole = file(picture(), "JPEG")
    return whole[:2] + one * count + whole[2:]


def chunk(kind, content=b""):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunks(*chunks, before=True):
    whole = file(picture())
    place = 33 if before else len(whole) - 12  # after IHDR, or before IEND
    return whole[:place] + b"".join(chunks) + whole[place:]


PROFILE = chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1000)))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (with_scans(700), "too_many_scans"),
        (with_scans(MAX_SCANS), "too_many_scans"),
        (segments(b"\xff\xfe\0\2", 2000), "too_many_parts"),
        (segments(b"\xff\xe1\0\2", 2000), "too_many_parts"),
        (segments(b"\xff", 100_000), "too_many_parts"),
        (with_chunks(*[PROFILE] * 2), "too_many_parts"),
        (with_chunks(*[chunk(b"tEXt", b"a\0")] * 2000), "too_many_parts"),
        (with_chunks(*[chunk(b"aaAa")] * 2000), "too_many_parts"),
        (with_chunks(*[chunk(b"aaAa")] * 2000, before=False), "too_many_parts"),
        (with_chunks(chunk(b"IEND"), *[chunk(b"aaAa")] * 2000), "too_many_parts"),
        (with_chunks(*[chunk(b"IDAT")] * 2000, before=False), "too_many_parts"),
    ],
)
def test_a_file_of_very_many_parts_is_refused_before_it_is_opened(monkeypatch, data, code):
    monkeypatch.setattr(picture_module.Image, "open", None)
    assert len(data) < 200_000
    assert refused(open_picture, data, declared=None, max_pixels=LIMIT) == (413, code)


def test_scans_count_only_where_the_decoder_sees_them():
    thumbnail = with_scans(700)[:60_000]  # inside of a segment, as a camera's preview
    inside = segments(b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail, 1)
    check_parts(inside)
    check_parts(file(picture(), "JPEG") + with_scans(700))  # after the end
    # a marker that the decoder passes over without its length must not hide what comes after it
    hiding = with_scans(0)[:-2] + b"\xff\x02\xff\xff" + with_scans(700)[2:]
    assert refused(check_parts, hiding) == (413, "too_many_scans")


@pytest.mark.parametrize(
    "data",
    [
        *(file(picture(200, 150, mode), "JPEG", progressive=True) for mode in ("RGB", "L")),
        file(picture(200, 150), "JPEG", restart_marker_blocks=1),
        file(picture(200, 150), "JPEG", icc_profile=bytes(200_000), exif=b"Exif\0\0" + bytes(60_000)),
        file(picture(), "PNG", icc_profile=bytes(3000)),
        file(picture(700, 700)),
        file(picture(200, 150), "WEBP"),
        with_chunks(*[chunk(b"aaAa")] * (MAX_CHUNKS // 2)),
    ],
)
def test_ordinary_files_have_few_parts(data):
    assert open_picture(data, declared=None, max_pixels=LIMIT).convert("RGB").width >= 8


def test_a_jpeg_with_more_pictures_behind_it_is_a_jpeg():
    """As phones write them; Pillow calls it MPO."""
    several = file(picture(), "MPO", save_all=True, append_images=[picture(16, 16)])
    found = open_picture(several, declared="image/jpeg", max_pixels=LIMIT)
    assert found.format == "MPO" and decoded(found, mode="RGB", size=(8, 8)).size == (8, 8)
    with pytest.raises(Refusal, match="declared as image/png, found JPEG"):
        open_picture(several, declared="image/png", max_pixels=LIMIT)


@pytest.mark.parametrize(
    ("data", "small"),
    [
        (file(picture()), True),
        (file(picture(), "JPEG", progressive=True), True),
        (file(picture(), "WEBP"), True),
        (with_scans(50), False),
        (with_chunks(PROFILE), False),
        (with_chunks(chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1000)))), False),
        (file(picture(), "JPEG", exif=b"Exif\0\0" + bytes(30_000)), False),
        (file(picture(129, 128, "L"), "JPEG"), False),
        (file(picture(200, 200)), False),
        (file(picture(1000, 1000)), False),
    ],
)
def test_only_what_is_decoded_at_once_is_decoded_in_the_event_loop(monkeypatch, data, small):
    assert is_small(data, open_picture(data, declared=None, max_pixels=LIMIT)) == small
    here = []

    def noted(*arguments, **options):
        here.append(threading.current_thread() is threading.main_thread())
        return decoded(*arguments, **options)

    monkeypatch.setattr(app_module, "decoded", noted)

    async def scene(client, *_):
        kind = f"image/{Image.open(io.BytesIO(data)).format.lower()}"
        assert (await post(client, data, kind=kind)).status_code == 200

    play(scene)
    assert here == [small]


def test_the_deadline_holds_while_others_decode_and_late_work_is_not_begun(monkeypatch):
    begun, go_on = [], threading.Event()

    def slowly(*arguments, **options):
        begun.append(1)
        go_on.wait(PATIENCE_S)
        return decoded(*arguments, **options)

    monkeypatch.setattr(app_module, "decoded", slowly)
    large = file(Image.new("L", (500, 500)))

    async def scene(client, _, app):
        try:
            late = [post(client, large, params={"timeout_ms": 1000}) for _ in range(6)]
            async with asyncio.timeout(PATIENCE_S / 2):
                answers = await asyncio.gather(*late)  # no decoder has finished meanwhile
            assert {failed(answer) for answer in answers} == {(504, "deadline_exceeded")}
            assert len(begun) == app_module.DECODERS
            assert app.state.gateway.decoders._work_queue.qsize() == 0, "nothing holds the bytes of the others"
        finally:
            go_on.set()
        assert (await post(client, large)).status_code == 200
        assert len(begun) == app_module.DECODERS + 1

    play(scene)


def test_work_that_comes_late_to_a_decoder_is_not_begun(monkeypatch):
    monkeypatch.setattr(app_module, "open_picture", None)  # would fail if it were called

    async def scene(client, _, app):
        gateway = app.state.gateway
        wanted = await gateway.backend.described("m")
        with pytest.raises(TimeoutError):
            await gateway._tensor(bytes(10**6), None, wanted, None, time.perf_counter() - 1)

    play(scene)


class CountingTriton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Describes one model once `gate` is open, counts the questions, and fails inferences with `code`."""

    def __init__(self):
        self.gate, self.asked, self.code = asyncio.Event(), 0, None
        self.gate.set()

    async def ModelMetadata(self, request, context):
        self.asked += 1
        await self.gate.wait()
        tensor = service_pb2.ModelMetadataResponse.TensorMetadata
        return service_pb2.ModelMetadataResponse(
            name="m", inputs=[tensor(name="x", datatype="FP32", shape=[-1, 3, 8, 8])],
            outputs=[tensor(name="y", datatype="FP32", shape=[-1, 10])],
        )  # fmt: skip

    async def ModelConfig(self, request, context):
        await self.gate.wait()
        return service_pb2.ModelConfigResponse(config=model_config_pb2.ModelConfig(name="m", max_batch_size=8))

    async def ModelInfer(self, request, context):
        if self.code:
            await context.abort(self.code, "said so")
        scores = serialize_byte_tensor(np.array([b"1.5:7:seven"], np.object_)).item()
        return service_pb2.ModelInferResponse(raw_output_contents=[scores])


def ask(scene, **settings):
    """Run `scene(triton, backend, app client)` with a real `Backend` at a gRPC server that counts."""

    async def run():
        triton, server = CountingTriton(), grpc.aio.server()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(triton, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        backend = Backend(Settings(triton=f"127.0.0.1:{port}", models=("m",), **settings))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scene(triton, backend)
        finally:
            triton.gate.set()
            await backend.close()
            await server.stop(None)

    asyncio.run(run())


def test_many_at_once_ask_triton_once_what_a_model_wants():
    async def scene(triton, backend):
        found = await asyncio.gather(*(backend.described("m") for _ in range(100)))
        assert triton.asked == 1 and set(found) == {found[0]}

    ask(scene)


def test_one_that_gives_up_does_not_take_the_description_from_the_others():
    async def scene(triton, backend):
        triton.gate.clear()
        impatient, patient = (asyncio.create_task(backend.described("m")) for _ in range(2))
        while not triton.asked:
            await asyncio.sleep(0)
        impatient.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await impatient
        triton.gate.set()
        assert (await patient).model == "m" and triton.asked == 1

    ask(scene)


def test_a_request_waits_for_the_description_until_its_own_deadline():
    async def scene(triton, backend):
        triton.gate.clear()

        async def request(client, _, app):
            app.state.gateway.backend = backend
            answer = await post(client, params={"timeout_ms": 200})
            assert failed(answer) == (504, "deadline_exceeded")
            assert "200 ms" in answer.json()["error"]["message"]
            triton.gate.set()
            assert (await post(client)).status_code == 200
            assert triton.asked == 1

        await played(request)

    ask(scene)


async def played(scene):
    """As `play`, inside of a loop that runs."""
    import httpx

    app = app_module.create_app(triton="127.0.0.1:1", models=["m"])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        await scene(client, None, app)


@pytest.mark.parametrize(
    ("code", "asked_again"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, True),
        (grpc.StatusCode.NOT_FOUND, True),
        (grpc.StatusCode.UNAVAILABLE, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, False),
        (grpc.StatusCode.INTERNAL, False),
    ],
)
def test_only_an_error_of_a_model_that_changed_makes_the_gateway_ask_again(code, asked_again):
    async def scene(triton, backend):
        wanted = await backend.described("m")
        triton.code = code
        with pytest.raises(Refusal):
            await backend.classify(wanted, np.zeros((1, 3, 8, 8), np.float32), top_k=1, timeout_s=PATIENCE_S)
        await backend.described("m")
        assert triton.asked == 1 + asked_again

    ask(scene)


def test_a_proxy_of_the_environment_does_not_stand_between(monkeypatch):
    for name in ("http_proxy", "grpc_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def scene(triton, backend):
        assert (await backend.described("m")).model == "m"
        assert await backend.health() == {"m": ""}

    ask(scene)


def test_one_body_fits_into_what_all_may_take():
    told = {"triton": "127.0.0.1:8001", "models": ("m",)}
    with pytest.raises(
        GatewayError, match=r"found max_body_mib 100, expected at most max_buffered_mib, .* 64"
    ) as caught:
        Settings(**told, max_body_mib=100)
    assert "Raise max_buffered_mib to 100" in caught.value.action
    assert Settings(**told, max_body_mib=100, max_buffered_mib=100)


def test_the_command_gives_bodies_the_room_that_they_are_allowed(monkeypatch):
    from typer.testing import CliRunner

    from tutorial_lib import gateway
    from tutorial_lib.cli import app

    def started(triton, **settings):
        seen.append(settings)
        raise GatewayError("enough")

    seen = []
    monkeypatch.setattr(gateway, "start_gateway", started)
    for limit in ("100", "4"):
        CliRunner().invoke(app, ["gateway", "--triton", "127.0.0.1:9", "--max-body-mib", limit])
    assert [(told["max_body_mib"], told["max_buffered_mib"]) for told in seen] == [(100, 100), (4, 64)]
