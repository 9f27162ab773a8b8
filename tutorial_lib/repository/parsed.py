"""config.pbtxt read as Triton reads it: protobuf's Python parser, less what only that one takes."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.repository.source import BOM, Source, foreign

_MINUS = re.compile(r"(?<=[\[,:\s])(-)(\s+)([\d.])")


@dataclass(frozen=True)
class ParseError:
    """What protobuf's parser could not read; line and column count from 1, and are 0 when it gave none.

    Attributes:
        foreign: what Python's parser takes all the same, and Triton's does not.
    """

    line: int
    column: int
    message: str
    foreign: str = ""


def parsed(source: Source) -> tuple[ModelConfig, ParseError | None]:
    """The configuration; an empty one and the reason when Triton could not read it."""
    # a byte order mark has a finding of its own; a space in its place keeps all columns
    text = source.text
    text = f" {text[1:]}" if text.startswith(BOM) else text
    try:
        config = _parse(text)
        place, what = foreign(text) or (-1, "")
        if place < 0:
            return config, None
        line = source.line_at(place)
        return ModelConfig(), ParseError(line, place - source.offset(line) + 1, "", what)
    except text_format.ParseError as error:
        message = str(error).partition(" : ")[2] or str(error)
        return ModelConfig(), ParseError(error.GetLine() or 0, error.GetColumn() or 0, message.strip().rstrip("."))
    except (ValueError, RecursionError) as error:  # a number out of its range; brackets without end
        return ModelConfig(), ParseError(0, 0, str(error))


def _parse(text: str) -> ModelConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of escapes that Python knows no more
        try:
            return text_format.Parse(text, ModelConfig())
        except text_format.ParseError:
            if _MINUS.search(text):  # "- 1" is -1 to Triton's parser
                return text_format.Parse(_MINUS.sub(r"\2-\3", text), ModelConfig())
            raise
