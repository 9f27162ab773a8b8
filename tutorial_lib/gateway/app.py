"""The gateway: FastAPI routes around `Backend`, `Admission` and the picture code."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from tutorial_lib.gateway.admission import Admission
from tutorial_lib.gateway.asked import Classification, Failure, Options, PictureRequest, read_request
from tutorial_lib.gateway.backend import Backend
from tutorial_lib.gateway.docs_page import docs_page
from tutorial_lib.gateway.metrics import CONTENT_TYPE, Metrics
from tutorial_lib.gateway.picture import FORMATS, decoded, is_small, open_picture
from tutorial_lib.gateway.refusal import Refusal, error_response
from tutorial_lib.gateway.settings import Settings
from tutorial_lib.gateway.tensor import ImageInput, as_tensor
from tutorial_lib.naive.schemas import Answer

T = TypeVar("T")
DECODERS = 2  # threads for large pictures; each holds one decoded picture at most
_STATUSES = (400, 404, 408, 413, 415, 422, 429, 502, 503, 504)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": PictureRequest.model_json_schema()},
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMATS},
        },
    }
}
_FAILURES: dict[int | str, Any] = {status: {"model": Failure} for status in _STATUSES}


class Gateway:
    """One gateway's parts; `backend` lives as long as the application does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.admission = Admission(settings)
        self.metrics = Metrics()
        self.decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")
        self.free_decoders = asyncio.Semaphore(DECODERS)
        self.backend: Backend

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """One gRPC client for the life of the application, not one for each request."""
        self.backend = Backend(self.settings)
        self.metrics.in_flight.set_function(lambda: self.admission.in_flight)
        self.metrics.buffered.set_function(lambda: self.admission.buffered)
        yield
        await self.backend.close()
        self.decoders.shutdown(wait=False, cancel_futures=True)

    async def classify(self, request: Request, model: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The best classes, and headers that say where the time went.

        Raises:
            Refusal: whatever stands in the way.
        """
        begin = time.perf_counter()
        known = model if model in self.settings.models else "unknown"
        status, code = 500, "internal"
        try:
            with self.admission.place():
                answer = await self._classify(request, model, begin)
            status, code = 200, ""
            return answer
        except Refusal as refusal:
            status, code = refusal.status, refusal.code
            raise
        finally:
            self.metrics.requests.labels(known, status, code).inc()
            self.metrics.seconds.labels(known).observe(time.perf_counter() - begin)

    async def _classify(
        self, request: Request, model: str, begin: float
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        async with self.admission.body(request) as body:
            data, declared, options = read_request(request, body)
            limit_s = self.settings.default_timeout_s if options.timeout_ms is None else options.timeout_ms / 1000
            limit_s = min(limit_s, self.settings.max_timeout_s)
            deadline = begin + limit_s
            try:
                wanted = self.backend.known(model) or await _by(deadline, self.backend.described(model))
                tensor = await self._tensor(data, declared, wanted, options, deadline)
            except TimeoutError:
                raise _late(limit_s) from None
        prepared = time.perf_counter()
        if prepared >= deadline:
            raise _late(limit_s)
        found = await self.backend.classify(wanted, tensor, top_k=options.top_k, timeout_s=deadline - prepared)
        waited = time.perf_counter() - prepared
        self.metrics.triton_seconds.labels(model).observe(waited)
        timing = f"prepare;dur={1000 * (prepared - begin):.2f}, triton;dur={1000 * waited:.2f}"
        return found, {"server-timing": timing}

    async def _tensor(
        self, data: bytes, declared: str | None, wanted: ImageInput, options: Options, deadline: float
    ) -> np.ndarray:
        def prepare() -> np.ndarray:
            if time.perf_counter() >= deadline:  # nobody waits for it any more
                raise TimeoutError
            whole = picture if picture is not None else open_picture(data, declared=declared, max_pixels=limit)
            pixels = decoded(whole, mode=wanted.mode, size=wanted.size)
            return as_tensor(pixels, wanted, options.scaling or self.settings.scaling)

        limit, picture = self.settings.max_pixels, None
        if is_small(data):
            picture = open_picture(data, declared=declared, max_pixels=limit)
            if is_small(data, picture):
                return prepare()
        # A large picture must not stop all the others, as it does in the naive app. Who waits for a decoder waits
        # here and not in the pool's queue, which would hold the bytes of requests that are long over.
        await _by(deadline, self.free_decoders.acquire())
        work = asyncio.get_running_loop().run_in_executor(self.decoders, prepare)
        work.add_done_callback(self._decoder_free)
        return await _by(deadline, asyncio.shield(work))  # a thread cannot be stopped, only left alone

    def _decoder_free(self, work: asyncio.Future) -> None:
        self.free_decoders.release()
        _ = work.cancelled() or work.exception()  # its request may be gone: somebody has to have looked


async def _by(deadline: float, waited_for: Awaitable[T]) -> T:
    """Wait, but not beyond the deadline. A timer costs more than most requests wait here, which is not at all.

    Raises:
        TimeoutError: it is over.
    """
    async with asyncio.timeout(deadline - time.perf_counter()):
        return await waited_for


def _late(limit_s: float) -> Refusal:
    return Refusal(
        504, "deadline_exceeded", f"gateway: {1000 * limit_s:g} ms were over before Triton was asked.",
        action="Allow more time in timeout_ms, or come back when less is going on.",
    )  # fmt: skip


def create_app(**settings: Any) -> FastAPI:
    """The gateway's application.

    Args:
        settings: the attributes of `Settings`.

    Raises:
        GatewayError: a setting is out of its bounds.
    """
    gateway = Gateway(Settings(**settings))
    first = gateway.settings.models[0]
    app = FastAPI(
        title="Gateway in front of Triton",
        description="Pictures in, class names out. A failure is JSON: a code, a message, what to do.",
        version="1",
        lifespan=gateway.lifespan,
        docs_url=None,
        redoc_url=None,
        # it has metrics of its own; FastAPI would ask OpenTelemetry at every request whether somebody listens
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.gateway = gateway

    @app.post("/predict", response_model=Answer, responses=_FAILURES, openapi_extra=_BODY)
    async def predict(request: Request) -> Response:
        """The best class, in the words of the naive app: its clients need not change."""
        found, headers = await gateway.classify(request, first)
        best = found[0]
        answer = {"class_name": best["class_name"], "class_id": best["class_id"], "logit": best["score"]}
        return JSONResponse(answer, headers=headers)

    @app.post("/v1/models/{model}/classify", response_model=Classification, responses=_FAILURES, openapi_extra=_BODY)
    async def classify(model: str, request: Request) -> Response:
        """The best classes of a picture, as many as asked for."""
        found, headers = await gateway.classify(request, model)
        return JSONResponse({"model": model, "classes": found}, headers=headers)

    async def classify_path(request: Request) -> Response:
        return await classify(request.path_params["model"], request)

    # These two read their requests themselves, and FastAPI's handling of arguments would cost them a tenth more
    # each; it keeps its own routes, behind these, for the documentation.
    app.router.routes[:0] = [
        Route("/predict", predict, methods=["POST"]),
        Route("/v1/models/{model}/classify", classify_path, methods=["POST"]),
    ]

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """What each model takes, as the server says."""
        return {"models": [(await gateway.backend.described(name)).described() for name in gateway.settings.models]}

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        """Whether this process runs; it says nothing about Triton."""
        return {"status": "live"}

    @app.get("/health/ready")
    async def ready() -> Response:
        """Whether each model answers a real question, at most `health_age_s` ago."""
        found = await gateway.backend.health()
        status = 503 if any(found.values()) else 200
        return JSONResponse({"status": "ready" if status == 200 else "not ready", "models": found}, status)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(app.openapi(), str(request.base_url)))

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(gateway.metrics.text(), media_type=CONTENT_TYPE)

    _handle_errors(app)
    return app


def _handle_errors(app: FastAPI) -> None:
    """Every failure as JSON of the same form."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> Response:
        return refusal.response()

    @app.exception_handler(StarletteHTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}."
        return error_response(error.status_code, "no_such_route", message, action="GET /docs lists what there is.")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(422, "invalid", str(error.errors()[0]["msg"]))

    @app.exception_handler(Exception)
    async def internal(_: Request, error: Exception) -> Response:
        logging.getLogger("uvicorn.error").exception("gateway: unexpected", exc_info=error)
        return error_response(500, "internal", f"gateway: {type(error).__name__}.", action="Look at its log.")
