"""Triton seen from the gateway: one gRPC client for the gateway's life, and its errors in HTTP's terms."""

from __future__ import annotations

import asyncio
import time

import grpc
import grpc.aio
import numpy as np
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor

from tutorial_lib.gateway.refusal import Refusal
from tutorial_lib.gateway.settings import Settings
from tutorial_lib.gateway.tensor import ImageInput, image_input, top_classes

DESCRIPTION_AGE_S = 30.0  # after that a model is asked again what it wants
CONTROL_TIMEOUT_S = 5.0
# by default gRPC waits up to two minutes before it looks again for a server that went away
_CHANNEL = [
    ("grpc.enable_http_proxy", 0),  # a proxy must not stand between
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 64 * 2**20),
    ("grpc.max_send_message_length", 512 * 2**20),
]
# the model may want something else by now; with any other error, asking again would only add to the load
_CHANGED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


class Backend:
    """Calls to one Triton; made inside the event loop that uses it.

    Args:
        settings: of the gateway.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._channel = grpc.aio.insecure_channel(settings.triton, options=_CHANNEL)
        # Triton's own protobuf services; `tritonclient` wraps the same, and costs a tenth more a request
        self._triton = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._described: dict[str, tuple[float, ImageInput]] = {}
        self._describing: dict[str, asyncio.Task[ImageInput]] = {}
        self._healthy: tuple[float, dict[str, str]] | None = None
        self._asking = asyncio.Lock()

    async def close(self) -> None:
        for asking in self._describing.values():
            asking.cancel()
        await self._channel.close()

    def known(self, model: str) -> ImageInput | None:
        """What a model wants, if the server said so a moment ago."""
        told = self._described.get(model)
        return told[1] if told and time.monotonic() - told[0] < DESCRIPTION_AGE_S else None

    async def described(self, model: str) -> ImageInput:
        """What a model wants, from the server or from what it said a moment ago.

        However many ask at once, the server is asked once, and goes on being asked when one of them gives up.

        Raises:
            Refusal: 404 for a model that is not served here, 422 for one that takes no pictures, 503 or 504
                where the server does not say.
        """
        if model not in self.settings.models:
            raise Refusal(
                404,
                "unknown_model",
                f"model '{model}': not served here.",
                action=f"There are: {', '.join(self.settings.models)}.",
            )
        if known := self.known(model):
            return known
        asking = self._describing.get(model)
        if asking is None:
            asking = self._describing[model] = asyncio.create_task(self._describe(model))
            asking.add_done_callback(lambda task: self._told(model, task))
        return await asyncio.shield(asking)

    def _told(self, model: str, task: asyncio.Task[ImageInput]) -> None:
        del self._describing[model]
        _ = task.cancelled() or task.exception()  # perhaps nobody waits for it any more

    async def _describe(self, model: str) -> ImageInput:
        try:
            metadata, config = await asyncio.gather(
                self._triton.ModelMetadata(service_pb2.ModelMetadataRequest(name=model), timeout=CONTROL_TIMEOUT_S),
                self._triton.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=CONTROL_TIMEOUT_S),
            )
        except grpc.aio.AioRpcError as error:
            raise self._refusal(error, model, CONTROL_TIMEOUT_S) from None
        config = MessageToDict(config.config, preserving_proto_field_name=True)
        found = image_input(MessageToDict(metadata, preserving_proto_field_name=True), config)
        self._described[model] = time.monotonic(), found
        return found

    async def classify(self, wanted: ImageInput, tensor: np.ndarray, *, top_k: int, timeout_s: float) -> list[dict]:
        """The best classes, by Triton's classification extension.

        Args:
            wanted: of `described`.
            tensor: as it says.
            top_k: how many classes.
            timeout_s: what is left of the request's deadline; Triton hears of it, too.

        Raises:
            Refusal: with Triton's reason.
        """
        request = service_pb2.ModelInferRequest(model_name=wanted.model, raw_input_contents=[tensor.tobytes()])
        request.inputs.add(name=wanted.name, datatype=wanted.datatype, shape=tensor.shape)
        request.outputs.add(name=wanted.output).parameters["classification"].int64_param = top_k
        request.parameters["timeout"].int64_param = max(1, int(timeout_s * 1e6))  # µs, for Triton's queue policy
        try:
            answer = await self._triton.ModelInfer(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() in _CHANGED:
                self._described.pop(wanted.model, None)
            raise self._refusal(error, wanted.model, timeout_s) from None
        return top_classes(deserialize_bytes_tensor(answer.raw_output_contents[0]))

    async def health(self) -> dict[str, str]:
        """Each model with "" if it answers a real question, else why not; asked again only when that is old.

        Triton goes on calling a model ready whose Python stub has died, so ready is not asked at all.
        """
        async with self._asking:  # many ask at once, one asks the models
            if self._healthy and time.monotonic() - self._healthy[0] < self.settings.health_age_s:
                return self._healthy[1]
            found = await asyncio.gather(*map(self._ask, self.settings.models))
            self._healthy = time.monotonic(), dict(zip(self.settings.models, found, strict=True))
            return self._healthy[1]

    async def _ask(self, model: str) -> str:
        limit_s = self.settings.health_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                wanted = await self.described(model)
                width, height = wanted.size or (32, 32)
                sides = [height, width]
                shape = [wanted.channels, *sides] if wanted.channels_first else [*sides, wanted.channels]
                shape = [1, *shape] if wanted.batched else shape
                zeros = np.zeros(shape, {"FP32": np.float32, "FP16": np.float16, "UINT8": np.uint8}[wanted.datatype])
                await self.classify(wanted, zeros, top_k=1, timeout_s=limit_s)
        except TimeoutError:
            return f"no answer within {limit_s:g} s"
        except Refusal as refusal:
            return refusal.message
        return ""

    def _refusal(self, error: grpc.aio.AioRpcError, model: str, timeout_s: float) -> Refusal:
        """Triton's or gRPC's error as an HTTP status with words."""
        code, said = error.code(), (error.details() or "").split("\n\nAt:\n")[0].strip()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED or "imeout expired" in said:
            return Refusal(504, "deadline_exceeded", f"model '{model}': no answer within {1000 * timeout_s:.0f} ms.",
                           action="Allow more time in timeout_ms, or come back when less is going on.")  # fmt: skip
        if "maximum queue size" in said or code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Refusal(429, "queue_full", f"model '{model}': its queue is full ({said}).",
                           action="Try again later.", retry_after_s=1)  # fmt: skip
        if code is grpc.StatusCode.NOT_FOUND or "unknown model" in said or "is not found" in said:
            return Refusal(503, "model_not_loaded", f"model '{model}': Triton has not loaded it ({said}).",
                           action="Load it, then try again.", retry_after_s=5)  # fmt: skip
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return Refusal(502, "refused_by_triton", f"model '{model}': Triton refused the tensor ({said}).",
                           action="Has the model just been changed? Try again.")  # fmt: skip
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return Refusal(503, "triton_unavailable", f"Triton at {self.settings.triton}: it does not answer ({said}).",
                           action="Try again in a few seconds.", retry_after_s=2)  # fmt: skip
        return Refusal(502, "triton_failed", f"model '{model}': {said or code.name}.", action="Look at Triton's log.")
