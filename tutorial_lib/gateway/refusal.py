"""Why a request gets no answer: a status, a code for programs, a sentence and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response


class Refusal(Exception):
    """A request that is refused, or could not be answered.

    Args:
        status: the HTTP status.
        code: a word that programs can rely on.
        message: the object, what was found, what was expected.
        action: what to do next.
        retry_after_s: when to try again, for statuses 429 and 503.
        close: whether the connection ends, because part of the request was not read.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        action: str = "",
        retry_after_s: int | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.action = status, code, message, action
        self.retry_after_s, self.close = retry_after_s, close

    def response(self) -> Response:
        """The answer that says so."""
        headers = {}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        if self.close:
            headers["connection"] = "close"
        return error_response(self.status, self.code, self.message, action=self.action, headers=headers)


def error_response(
    status: int, code: str, message: str, *, action: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer {"error": {"code", "message", "action"}}."""
    body = json.dumps({"error": {"code": code, "message": message, "action": action}}, ensure_ascii=False)
    return Response(body.encode(), status_code=status, media_type="application/json", headers=dict(headers or {}))
