"""The gateway's parts, and its routes over a Triton that is played."""

from __future__ import annotations

import asyncio
import base64
import io
import zlib

import httpx
import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from tutorial_lib.errors import GatewayError
from tutorial_lib.gateway import Settings, create_app, start_gateway
from tutorial_lib.gateway.picture import decoded, from_base64, open_picture
from tutorial_lib.gateway.refusal import Refusal
from tutorial_lib.gateway.tensor import as_tensor, image_input, top_classes

LIMIT = 1_000_000


def picture(width=8, height=8, mode="RGB", seed=0):
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def file(image, form="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def metadata(shape, *, datatype="FP32", more=()):
    inputs = [{"name": "x", "datatype": datatype, "shape": [str(axis) for axis in shape]}, *more]
    return {"name": "m", "inputs": inputs, "outputs": [{"name": "y", "datatype": "FP32", "shape": ["-1", "10"]}]}


def refused(call, *arguments, **options):
    with pytest.raises(Refusal) as caught:
        call(*arguments, **options)
    assert caught.value.message and caught.value.message[-1] in ".)"
    return caught.value.status, caught.value.code


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("triton", "http://127.0.0.1:8001"),
        ("triton", "127.0.0.1"),
        ("triton", "127.0.0.1:65536"),
        ("triton", "127.0.0.1:0"),
        ("models", ()),
        ("models", ("",)),
        ("scaling", "VGG"),
        ("max_body_mib", 0),
        ("max_body_mib", float("nan")),
        ("max_pixels", -1),
        ("max_in_flight", True),
        ("max_in_flight", 0),
        ("body_timeout_s", "10"),
        ("default_timeout_s", float("inf")),
    ],
)
def test_a_setting_out_of_its_bounds_is_refused_before_anything_starts(setting, value):
    told = {"triton": "127.0.0.1:8001", "models": ("m",)} | {setting: value}
    with pytest.raises(GatewayError, match=r"gateway: found .*expected"):
        Settings(**told)
    with pytest.raises(GatewayError):
        start_gateway(told.pop("triton"), **told)


def test_base64_is_taken_strictly():
    assert from_base64(base64.b64encode(b"abc").decode()) == b"abc"
    for text in ("&&&", "YWJj\n", "YWJ", "ü", "data:image/png;base64,YWJj"):
        assert refused(from_base64, text) == (422, "not_base64")
    with pytest.raises(Refusal) as caught:
        from_base64("data:image/png;base64,YWJj")
    assert "comma" in caught.value.action


@pytest.mark.parametrize("data", [b"", b"hello", b"<svg/>", b"GIF89a", file(picture(), "BMP"), file(picture(), "GIF")])
def test_what_is_no_picture_is_said_so(data):
    assert refused(open_picture, data, declared=None, max_pixels=LIMIT) == (422, "not_an_image")


def test_the_type_declared_must_be_that_of_the_file():
    png = file(picture())
    assert open_picture(png, declared="image/png", max_pixels=LIMIT).size == (8, 8)
    assert refused(open_picture, png, declared="image/jpeg", max_pixels=LIMIT) == (415, "wrong_type")


@pytest.mark.parametrize(("width", "height"), [(2000, 2000), (20_000, 20_000), (1, 2_000_000)])
def test_a_picture_that_unpacks_to_too_much_is_refused_by_its_head(width, height):
    bomb = file(Image.new("1", (width, height)))
    assert len(bomb) < 100_000
    assert refused(open_picture, bomb, declared=None, max_pixels=LIMIT) == (413, "too_many_pixels")


def test_a_text_in_a_png_that_unpacks_to_too_much_is_refused():
    info = PngImagePlugin.PngInfo()
    for number in range(8):
        info.add_text(f"k{number}", "x" * 900_000, zip=True)
    assert refused(open_picture, file(picture(), pnginfo=info), declared=None, max_pixels=LIMIT)[0] == 422
    lying = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\x0dIHDR" + b"\xff" * 17 + zlib.compress(b"0" * 10_000)
    assert refused(open_picture, lying, declared=None, max_pixels=LIMIT)[0] in (413, 422)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_no_damage_to_a_file_causes_anything_but_a_refusal(form):
    whole, random = file(picture(32, 32), form), np.random.default_rng(0)
    told = set()
    for number in range(400):
        data = bytearray(whole)
        if number % 2:
            data = data[: random.integers(len(data))]
        for place in random.integers(0, max(1, len(data)), 4 * (number % 3)):
            if place < len(data):
                data[place] = random.integers(256)
        try:
            image = decoded(open_picture(bytes(data), declared=None, max_pixels=LIMIT), mode="RGB", size=(8, 8))
            assert image.size == (8, 8)
        except Refusal as refusal:
            told.add(refusal.status)
    assert told and told <= {413, 422}


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_picture_becomes_the_models_kind(mode):
    image = picture().convert("L" if mode == "I;16" else mode)
    image = Image.fromarray(np.asarray(image, np.uint16) * 257) if mode == "I;16" else image
    data = file(image, "JPEG" if mode == "CMYK" else "PNG")
    for wanted in ("RGB", "L"):
        try:
            pixels = decoded(open_picture(data, declared=None, max_pixels=LIMIT), mode=wanted, size=(4, 6))
        except Refusal as refusal:
            assert (mode, refusal.status) == ("I;16", 422)
        else:
            assert (pixels.mode, pixels.size) == (wanted, (4, 6))


@pytest.mark.parametrize(
    ("shape", "config", "expected"),
    [
        ([-1, 3, 4, 5], {"max_batch_size": 8}, (True, 3, (5, 4), True)),
        ([-1, 4, 5, 3], {"max_batch_size": 8}, (False, 3, (5, 4), True)),
        ([3, 4, 5], {}, (True, 3, (5, 4), False)),
        ([1, 3, 4, 5], {}, (True, 3, (5, 4), True)),
        ([-1, 1, 28, 28], {"max_batch_size": 1}, (True, 1, (28, 28), True)),
        ([-1, 3, -1, -1], {"max_batch_size": 1}, (True, 3, None, True)),
        ([-1, 3, 5, 3], {"max_batch_size": 1, "input": [{"format": "FORMAT_NHWC"}]}, (False, 3, (5, 3), True)),
        ([-1, 3, 5, 3], {"max_batch_size": 1, "input": [{"format": "FORMAT_NCHW"}]}, (True, 3, (3, 5), True)),
    ],
)
def test_what_a_model_wants_is_read_from_the_server(shape, config, expected):
    found = image_input(metadata(shape), config)
    assert (found.channels_first, found.channels, found.size, found.batched) == expected
    assert (found.name, found.output, found.classes) == ("x", "y", 10)


@pytest.mark.parametrize(
    "said",
    [
        metadata([-1, 64]),
        metadata([-1, 2, 8, 8]),
        metadata([-1, 3, 8, -1]),
        metadata([2, 3, 8, 8]),
        metadata([-1, 3, 8, 8], datatype="INT64"),
        metadata([-1, 3, 8, 8], more=[{"name": "mask", "datatype": "INT64", "shape": ["-1", "8"]}]),
        metadata([-1, 3, 8, 8]) | {"outputs": []},
        metadata([-1, 3, 8, 8]) | {"inputs": []},
    ],
)
def test_a_model_that_takes_no_pictures_is_refused(said):
    config = {"max_batch_size": 8} if said["inputs"] and said["inputs"][0]["shape"][0] == "-1" else {}
    assert refused(image_input, said, config) == (422, "not_a_classifier")


def test_scalings_are_the_written_formulas():
    wanted = image_input(metadata([-1, 3, 4, 5]), {"max_batch_size": 8})
    image = picture(5, 4)
    pixels = np.asarray(image).astype(np.float64)
    inception = as_tensor(image, wanted, "INCEPTION")
    assert inception.shape == (1, 3, 4, 5) and inception.dtype == np.float32 and inception.flags.c_contiguous
    for channel, (mean, std) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))):
        np.testing.assert_allclose(inception[0, channel], pixels[..., channel] / 127.5 - 1, atol=1e-6)
        imagenet = as_tensor(image, wanted, "IMAGENET")[0, channel]
        np.testing.assert_allclose(imagenet, (pixels[..., channel] / 255 - mean) / std, atol=1e-5)
        np.testing.assert_array_equal(as_tensor(image, wanted, "NONE")[0, channel], pixels[..., channel])


def test_layout_type_and_channels_follow_the_model():
    nhwc = image_input(metadata([-1, 4, 5, 3], datatype="UINT8"), {"max_batch_size": 8})
    image = picture(5, 4)
    np.testing.assert_array_equal(as_tensor(image, nhwc, "NONE")[0], np.asarray(image))
    assert as_tensor(image, nhwc, "NONE").dtype == np.uint8
    assert refused(as_tensor, image, nhwc, "INCEPTION") == (422, "wrong_scaling")
    grey = image_input(metadata([-1, 1, 4, 5], datatype="FP16"), {"max_batch_size": 8})
    tensor = as_tensor(picture(5, 4, "L"), grey, "INCEPTION")
    assert (tensor.shape, tensor.dtype, grey.mode) == ((1, 1, 4, 5), np.float16, "L")
    assert refused(as_tensor, picture(5, 4, "L"), grey, "IMAGENET") == (422, "wrong_scaling")


def test_labels_may_have_colons_or_be_missing():
    assert top_classes([b"8.5:7:seven: the digit", b"-1.25:3"]) == [
        {"class_name": "seven: the digit", "class_id": 7, "score": 8.5},
        {"class_name": "3", "class_id": 3, "score": -1.25},
    ]


class PlayedTriton:
    """Takes 8×8 pictures; answers once `gate` is open."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = []

    def known(self, model):
        return None

    async def described(self, model):
        if model != "m":
            raise Refusal(404, "unknown_model", f"model '{model}': not served here.")
        return image_input(metadata([-1, 3, 8, 8]), {"max_batch_size": 8})

    async def classify(self, wanted, tensor, *, top_k, timeout_s):
        self.asked.append((tensor.shape, top_k, timeout_s))
        await self.gate.wait()
        return [{"class_name": f"c{n}", "class_id": n, "score": 1.0 - n} for n in range(top_k)]

    async def health(self):
        return {"m": "" if self.gate.is_set() else "no answer within 2 s"}


def play(scene, **settings):
    """Run `scene(client, triton, app)` against the routes, without a server."""

    async def run():
        app = create_app(triton="127.0.0.1:1", models=["m"], **settings)
        app.state.gateway.backend = triton = PlayedTriton()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            await scene(client, triton, app)

    asyncio.run(run())


def post(client, content=None, *, kind="image/png", path="/predict", **options):
    headers = {"content-type": kind} if kind else {}
    return client.post(path, content=file(picture()) if content is None else content, headers=headers, **options)


def failed(answer):
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "action"} and error["message"]
    return answer.status_code, error["code"]


def test_both_ways_to_send_a_picture_and_both_answers():
    async def scene(client, triton, _):
        text = base64.b64encode(file(picture())).decode()
        answer = await client.post("/predict", json={"image": text})
        assert answer.json() == {"class_name": "c0", "class_id": 0, "logit": 1.0}
        assert "triton;dur=" in answer.headers["server-timing"]
        answer = await post(client, path="/v1/models/m/classify?top_k=2&timeout_ms=700")
        assert [entry["class_id"] for entry in answer.json()["classes"]] == [0, 1]
        assert triton.asked[-1][:2] == ((1, 3, 8, 8), 2) and 0 < triton.asked[-1][2] <= 0.7
        answer = await client.post("/v1/models/m/classify", json={"image": text, "top_k": 3, "scaling": "IMAGENET"})
        assert len(answer.json()["classes"]) == 3

    play(scene)


def test_bad_input_gets_a_status_and_words():
    image = base64.b64encode(file(picture())).decode()

    async def scene(client, *_):
        assert failed(await post(client, b"")) == (422, "not_an_image")
        assert failed(await post(client, kind="text/plain")) == (415, "unsupported_type")
        assert failed(await post(client, kind=None)) == (415, "unsupported_type")
        assert failed(await post(client, kind="image/jpeg")) == (415, "wrong_type")
        assert failed(await post(client, file(picture(64, 64))[:200])) == (422, "broken_image")
        assert failed(await post(client, file(Image.new("1", (5000, 5000))))) == (413, "too_many_pixels")
        for body in (b"", b"{", b"[]", b"null", b"[" * 10_000, b'{"image": 3}', b'{"img": "x"}', b"\xff"):
            assert failed(await post(client, body, kind="application/json")) == (422, "invalid")
        for more in ({"top_k": 0}, {"top_k": 10**6}, {"top_k": "x"}, {"scaling": "VGG"}, {"timeout_ms": -1}, {"a": 1}):
            assert failed(await client.post("/predict", json={"image": image} | more)) == (422, "invalid")
            assert failed(await post(client, params=more)) == (422, "invalid")
        assert failed(await client.post("/predict", json={"image": image, "timeout_ms": 1e-6}))[0] == 504
        assert failed(await client.get("/predict")) == (405, "no_such_route")
        assert failed(await client.get("/nothing")) == (404, "no_such_route")

    play(scene, max_pixels=1_000_000)


def test_a_body_over_the_limit_is_refused_whether_or_not_its_length_is_told():
    async def stream():
        for _ in range(40):
            yield b"0" * 2**16

    async def scene(client, _, app):
        assert failed(await post(client, b"0" * (2**20 + 1))) == (413, "body_too_large")
        assert failed(await post(client, stream())) == (413, "body_too_large")
        assert app.state.gateway.admission.buffered == 0

    play(scene, max_body_mib=1)


def test_one_more_than_the_limit_is_told_to_come_back():
    async def scene(client, triton, app):
        triton.gate.clear()
        waiting = [asyncio.create_task(post(client)) for _ in range(3)]
        while len(triton.asked) < 3:
            await asyncio.sleep(0)
        answer = await post(client)
        assert failed(answer) == (429, "busy") and answer.headers["retry-after"] == "1"
        assert app.state.gateway.admission.in_flight == 3
        triton.gate.set()
        assert [(await task).status_code for task in waiting] == [200] * 3
        assert app.state.gateway.admission.in_flight == 0
        assert (await post(client)).status_code == 200

    play(scene, max_in_flight=3)


def test_all_bodies_together_are_bounded():
    async def scene(client, _, app):
        held = asyncio.Event()

        async def slowly():
            yield b"0" * 600_000
            await held.wait()

        first = asyncio.create_task(post(client, slowly()))
        while app.state.gateway.admission.buffered < 600_000:
            await asyncio.sleep(0)
        assert failed(await post(client, b"0" * 600_000)) == (429, "busy")
        held.set()
        assert failed(await first) == (422, "not_an_image")
        assert app.state.gateway.admission.buffered == 0

    play(scene, max_body_mib=1, max_buffered_mib=1)


def test_a_body_that_does_not_arrive_is_not_waited_for():
    async def scene(client, _, app):
        async def never_ending():
            yield b"0"
            await asyncio.Event().wait()

        assert failed(await post(client, never_ending())) == (408, "slow_client")
        assert app.state.gateway.admission.buffered == 0

    play(scene, body_timeout_s=0.05)


def test_an_accident_of_our_own_is_json_too():
    async def scene(client, triton, _):
        triton.classify = None
        assert failed(await post(client)) == (500, "internal")
        assert 'code="internal"' in (await client.get("/metrics")).text

    play(scene)


def test_health_is_that_of_the_models_and_live_is_not():
    async def scene(client, triton, _):
        assert (await client.get("/health/ready")).status_code == 200
        triton.gate.clear()
        answer = await client.get("/health/ready")
        assert answer.status_code == 503
        assert answer.json() == {"status": "not ready", "models": {"m": "no answer within 2 s"}}
        assert (await client.get("/health/live")).status_code == 200

    play(scene)


def test_metrics_count_what_happened():
    async def scene(client, *_):
        for _ in range(3):
            await post(client)
        await post(client, b"x")
        await post(client, path="/v1/models/made-up-7/classify")
        text = (await client.get("/metrics")).text
        assert 'gateway_requests_total{code="",model="m",status="200"} 3.0' in text
        assert 'gateway_requests_total{code="not_an_image",model="m",status="422"} 1.0' in text
        assert "made-up" not in text, "whoever sends names must not fill the memory with counters"
        assert 'gateway_triton_seconds_count{model="m"} 3.0' in text
        assert "gateway_in_flight 0.0" in text

    play(scene)


def test_the_api_describes_itself():
    async def scene(client, *_):
        api = (await client.get("/openapi.json")).json()
        assert set(api["paths"]) >= {"/predict", "/v1/models/{model}/classify", "/health/ready"}
        described = api["paths"]["/predict"]["post"]
        assert {"application/json", "image/png"} <= set(described["requestBody"]["content"])
        assert {"200", "413", "415", "429", "503", "504"} <= set(described["responses"])
        page = (await client.get("/docs")).text
        assert all(path in page for path in api["paths"])
        assert "top_k" in page and "src=" not in page and "http://gateway/predict" in page

    play(scene)
