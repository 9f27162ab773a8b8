"""Triton's HTTP control surface: health, metadata, repository index, load, unload, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from tutorial_lib.errors import ModelLoadError, ServerError
from tutorial_lib.server.log import without_stack

TIMEOUT_S = 10.0
LOAD_TIMEOUT_S = 300.0


class Control:
    """Calls to one server; safe to use from several threads.

    Args:
        url: the HTTP base, "http://127.0.0.1:8000".
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # a proxy set for the internet must not stand between a learner and loopback
        self._client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)

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
        return self._ok(f"/v2/models/{quote(model, safe='')}/ready" if model else "/v2/health/ready")

    def server_metadata(self) -> dict[str, Any]:
        return self._json("GET", "/v2")

    def index(self) -> list[dict[str, str]]:
        """One entry per model version: name, version, state, reason (Triton's repository index)."""
        entries = self._json("POST", "/v2/repository/index")
        return [entry | {"reason": without_stack(entry.get("reason", ""))} for entry in entries]

    def metadata(self, model: str) -> dict[str, Any]:
        return self._json("GET", f"/v2/models/{quote(model, safe='')}")

    def config(self, model: str) -> dict[str, Any]:
        """The configuration in force, completed by the server."""
        return self._json("GET", f"/v2/models/{quote(model, safe='')}/config")

    def statistics(self, model: str | None = None) -> list[dict[str, Any]]:
        path = f"/v2/models/{quote(model, safe='')}/stats" if model else "/v2/models/stats"
        return self._json("GET", path)["model_stats"]

    def load(self, model: str, *, config: str | None = None) -> None:
        """Load or reload a model; returns when it is loaded.

        Args:
            config: JSON that takes the place of config.pbtxt until that file changes or the model is unloaded.

        Raises:
            ModelLoadError: with Triton's reason.
        """
        self._repository(model, "load", {"parameters": {"config": config}} if config else {})

    def unload(self, model: str) -> None:
        self._repository(model, "unload", {})

    def trace_settings(self) -> dict[str, Any]:
        """Triton's trace settings, as strings and lists of strings."""
        return self._json("GET", "/v2/trace/setting")

    def set_trace(self, model: str, settings: Mapping[str, Any]) -> None:
        """Change a model's trace settings; None puts one back to the server's."""
        self._json("POST", f"/v2/models/{quote(model, safe='')}/trace/setting", json=dict(settings))

    def infer(self, model: str, body: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """One inference in Triton's JSON form; enough for a health check."""
        return self._json("POST", f"/v2/models/{quote(model, safe='')}/infer", json=body, timeout=timeout_s)

    def _repository(self, model: str, verb: str, body: Mapping[str, Any]) -> None:
        try:
            path = f"/v2/repository/models/{quote(model, safe='')}/{verb}"
            self._json("POST", path, json=body, timeout=LOAD_TIMEOUT_S)
        except ServerError as error:
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
            answer = response.json() if response.content else {}
        except ValueError as error:
            raise ServerError(
                f"{method} {self.url}{path}: the answer (status {response.status_code}) is not Triton's JSON.",
                action="Check that this address is Triton's HTTP port.",
            ) from error
        if response.status_code != 200:
            reason = answer.get("error", answer) if isinstance(answer, dict) else answer
            raise ServerError(without_stack(str(reason)) or f"{method} {path}: status {response.status_code}")
        return answer
