"""What goes into the naive app and what comes out; the gateway answers `POST /predict` in the same words."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Picture(BaseModel):
    """A request: one picture."""

    image: str = Field(description="A PNG or JPEG file, base64.")


class Answer(BaseModel):
    """A response: the best class."""

    class_name: str = Field(examples=["seven"])
    class_id: int = Field(examples=[7])
    logit: float = Field(examples=[8.15])
