"""Triton's HTTP control surface: health, metadata, repository index, load, unload, statistics."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from tutorial_lib.errors import AnsweredError, ModelLoadError, ServerError
from tutorial_lib.repository.layout import MODEL_NAME
from tutorial_lib.server.log import without_stack

TIMEOUT_S = 10.0
LOAD_TIMEOUT_S = 300.0
# Any page in the learner's browser may POST to a loopback port, and a load request can carry a model's
# code. It may not add a header of its own without the server's consent, which Triton never gives.
# So the servers started here serve their repository API over HTTP only to who sends this one.
CONTROL_HEADER = ("workshop-control", "1")
RESTRICT_FLAG = "--http-restricted-api"


class Control:
    """Calls to one server; safe to use from several threads.

    Args:
        url: the HTTP base, "http://127.0.0.1:8000"; a user and password in it are used and not shown.

    Attributes:
        url: the base without them.
        given_url: the base as given, to attach once more.
    """

    def __init__(self, url: str) -> None:
        self.given_url = url.rstrip("/")
        self.url = without_credentials(self.given_url)
        # a proxy set for the internet must not stand between a learner and loopback
        headers = dict([CONTROL_HEADER])
        self._client = httpx.Client(base_url=self.given_url, timeout=TIMEOUT_S, trust_env=False, headers=headers)

    def close(self) -> None:
        self._client.close()

    @property
    def closed(self) -> bool:
        """Whether this side has let go of the server: nothing can be asked any more."""
        return self._client.is_closed

    def alive(self) -> bool:
        """Whether the server answers at all; never raises."""
        return self._ok("/v2/health/live")

    def is_triton(self, identity: str | None = None) -> bool:
        """Whether a Triton answers here, and the one that was given this --id; never raises."""
        try:
            answer = self.server_metadata() if self.alive() else {}
        except ServerError:
            return False
        known = isinstance(answer, dict) and {"name", "version"} <= answer.keys()
        return known and identity in (None, answer["name"])

    def ready(self, model: str | None = None) -> bool:
        """Triton's own readiness of the server or of one model.

        A model whose Python stub died still says ready: ask `Server.health()` whether it answers.
        """
        return self._ok(_path(model, "/ready") if model is not None else "/v2/health/ready")

    def server_metadata(self) -> dict[str, Any]:
        return self._json("GET", "/v2")

    def index(self) -> list[dict[str, str]]:
        """One entry per model version: name, version, state, reason (Triton's repository index)."""
        entries = self._json("POST", "/v2/repository/index")
        return [entry | {"reason": without_stack(entry.get("reason", ""))} for entry in entries]

    def metadata(self, model: str) -> dict[str, Any]:
        return self._json("GET", _path(model))

    def config(self, model: str) -> dict[str, Any]:
        """The configuration in force, completed by the server."""
        return self._json("GET", _path(model, "/config"))

    def statistics(self, model: str | None = None) -> list[dict[str, Any]]:
        path = "/v2/models/stats" if model is None else _path(model, "/stats")
        return self._json("GET", path)["model_stats"]

    def load(self, model: str, *, config: str | None = None) -> None:
        """Load or reload a model; returns when it is loaded.

        Args:
            config: JSON that takes the place of config.pbtxt until that file changes or the model is unloaded.

        Raises:
            ModelLoadError: with Triton's reason.
            ServerError: no answer came, or the name is none.
        """
        self._repository(model, "load", {"parameters": {"config": config}} if config else {})

    def unload(self, model: str) -> None:
        self._repository(model, "unload", {})

    def trace_settings(self) -> dict[str, Any]:
        """Triton's trace settings, as strings and lists of strings."""
        return self._json("GET", "/v2/trace/setting")

    def set_trace(self, model: str, settings: Mapping[str, Any]) -> None:
        """Change a model's trace settings; None puts one back to the server's."""
        self._json("POST", _path(model, "/trace/setting"), json=dict(settings))

    def infer(self, model: str, body: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """One inference in Triton's JSON form; enough for a health check."""
        return self._json("POST", _path(model, "/infer"), json=body, timeout=timeout_s)

    def infer_binary(
        self, model: str, header: Mapping[str, Any], tensors: bytes, *, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """One inference in Triton's binary form, which every datatype has.

        Args:
            model: its name.
            header: the request as JSON; each input's parameters say its `binary_data_size`.
            tensors: the inputs' bytes, one after the other.
            timeout_s: the longest to wait.

        Returns:
            The answer's header; its tensors are not read.

        Raises:
            AnsweredError: Triton or the model refused.
            ServerError: no answer came.
        """
        text = json.dumps(header).encode()
        length = {"Inference-Header-Content-Length": str(len(text))}
        return self._json("POST", _path(model, "/infer"), content=text + tensors, headers=length, timeout=timeout_s)

    def _repository(self, model: str, verb: str, body: Mapping[str, Any]) -> None:
        try:
            path = _path(model, f"/{verb}", base="/v2/repository/models")
            self._json("POST", path, json=body, timeout=LOAD_TIMEOUT_S)
        except AnsweredError as error:  # others say themselves what to do: the server is gone, or slow
            said = error.problem.rstrip(".;")
            raise ModelLoadError(f"model '{model}': Triton refused to {verb} it: {said}.") from error

    def _ok(self, path: str) -> bool:
        if self._client.is_closed:
            return False
        try:
            return self._client.get(path).status_code == 200
        except (httpx.HTTPError, RuntimeError):  # the second when another thread closes it at this moment
            return False

    def _json(self, method: str, path: str, **request: Any) -> Any:
        if self._client.is_closed:
            raise ServerError(f"{self.url}: this server was stopped.", action="Start it again with serve().")
        try:
            response = self._client.request(method, path, **request)
        except RuntimeError as error:  # another thread has closed it since
            raise ServerError(f"{self.url}: this server was stopped.", action="Start it again with serve().") from error
        except httpx.TimeoutException as error:
            limit = request.get("timeout", TIMEOUT_S)
            raise ServerError(
                f"{method} {self.url}{path}: no answer within {limit:g} s.",
                action="A model whose execute() returns nothing makes Triton wait for ever: look at server.log_tail().",
            ) from error
        except httpx.HTTPError as error:
            raise ServerError(
                f"{method} {self.url}{path}: {error or type(error).__name__}.",
                action="Is the server running, and is this its HTTP port (not the gRPC one)?",
            ) from error
        try:
            length = response.headers.get("Inference-Header-Content-Length")  # binary tensors follow the JSON
            answer = json.loads(response.content[: int(length)] if length else response.content or b"{}")
        except ValueError as error:
            raise ServerError(
                f"{method} {self.url}{path}: the answer (status {response.status_code}) is not Triton's JSON.",
                action="Check that this address is Triton's HTTP port.",
            ) from error
        if response.status_code != 200:
            reason = answer.get("error", answer) if isinstance(answer, dict) else answer
            raise AnsweredError(without_stack(str(reason)) or f"{method} {path}: status {response.status_code}")
        return answer


def without_credentials(url: str) -> str:
    """An address without the user and password it may hold, fit to be shown."""
    return re.sub(r"^((?:[^/@]*:)?//)[^/]*@|^[^/]*@", r"\1", url)


def _path(model: str, verb: str = "", *, base: str = "/v2/models") -> str:
    if not (isinstance(model, str) and MODEL_NAME.fullmatch(model)):
        raise ServerError(
            f"model {model!r}: not a name that an address can hold; expected ASCII letters, digits, '_', '-' and '.'.",
            action="Rename the model's folder.",
        )
    return f"{base}/{model}{verb}"
