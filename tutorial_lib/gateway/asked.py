"""What a client asks for, from a JSON body or from the bytes of a picture with a query."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from tutorial_lib.gateway.picture import FORMATS, from_base64
from tutorial_lib.gateway.refusal import Refusal

MAX_TOP_K = 1000


class Options(BaseModel):
    """How a picture is to be classified."""

    model_config = ConfigDict(extra="forbid")

    top_k: int = Field(1, ge=1, le=MAX_TOP_K, description="How many classes, best first.")
    scaling: Literal["INCEPTION", "IMAGENET", "NONE"] | None = Field(
        None, description="INCEPTION: −1 to 1; IMAGENET: by channel; NONE: 0 to 255. The gateway's own by default."
    )
    timeout_ms: float | None = Field(None, gt=0, description="The deadline, from the arrival of the request.")


class PictureRequest(Options):
    """A request with the picture in it."""

    image: str = Field(description="A PNG, JPEG or WebP file, base64.")


class Found(BaseModel):
    """A class."""

    class_name: str = Field(examples=["seven"])
    class_id: int = Field(examples=[7])
    score: float = Field(examples=[8.15], description="As the model gives it, such as a logit.")


class Classification(BaseModel):
    """The best classes of a picture."""

    model: str
    classes: list[Found]


class Problem(BaseModel):
    """Why there is no answer."""

    code: str = Field(examples=["too_many_pixels"], description="For programs.")
    message: str
    action: str


class Failure(BaseModel):
    """The body of every answer that is no success."""

    error: Problem


def read_request(request: Request, body: bytes) -> tuple[bytes, str | None, Options]:
    """The picture's bytes, the MIME type declared for them, and the options.

    Raises:
        Refusal: 415 for another content type, 422 for what is not as described.
    """
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if declared == "application/json":
            asked = PictureRequest.model_validate_json(body)
            return from_base64(asked.image), None, asked
        if declared in FORMATS:
            return body, declared, Options.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise _invalid(error) from None
    raise Refusal(
        415,
        "unsupported_type",
        f"content-type: found '{declared or 'none'}', expected application/json, {', '.join(FORMATS)}.",
        action='Send {"image": "<base64>"} as application/json, or the picture\'s bytes with its own type.',
    )


def _invalid(error: ValidationError) -> Refusal:
    """The first fault, in one line."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "body"
    found = first.get("input")
    told = f", found {str(found)[:60]!r}" if isinstance(found, str | int | float) and place != "body" else ""
    return Refusal(422, "invalid", f"{place}: {first['msg']}{told}.", action="GET /docs describes what is expected.")
