"""From bytes that claim to be a picture to pixels, without trusting them."""

from __future__ import annotations

import base64
import binascii
import io
import struct
import warnings
import zlib

from PIL import Image, PngImagePlugin

from tutorial_lib.gateway.parts import check_parts
from tutorial_lib.gateway.refusal import Refusal

FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
# measured on one core: 0.9 ms at the most, for noise as WebP; most take a third of that
SMALL_BYTES, SMALL_PIXELS = 64 * 1024, 128 * 128

# Pillow warns of what its own, far higher limit nearly refuses; here the gateway's decides
warnings.simplefilter("ignore", Image.DecompressionBombWarning)
# text in a PNG is compressed, too, and unpacked before its size is known to us
PngImagePlugin.MAX_TEXT_MEMORY = 2**20

# what Pillow raises for files that are cut, mixed up or made to break it
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, EOFError, OverflowError)
_BROKEN += (struct.error, zlib.error, MemoryError)


def from_base64(text: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        Refusal: 422 for anything else.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        action = "Encode the file's bytes with standard base64, without line breaks."
        if text.startswith("data:"):
            action = "Send only what comes after the comma of the data URL."
        raise Refusal(422, "not_base64", f"image: not base64 ({error}).", action=action) from None


def open_picture(data: bytes, *, declared: str | None, max_pixels: int) -> Image.Image:
    """Read the head of a picture, which tells format and size; no pixel is decoded yet.

    Args:
        data: the file.
        declared: the MIME type that the client gave, if any.
        max_pixels: the largest height × width.

    Raises:
        Refusal: 422 for what is no PNG, JPEG or WebP, 415 for another format than declared, 413 for too
            many pixels, scans or chunks.
    """
    check_parts(data)
    try:
        picture = Image.open(io.BytesIO(data), formats=tuple(FORMATS.values()))
    except Image.DecompressionBombError:
        raise _too_large("more than Pillow opens at all", max_pixels) from None
    except _BROKEN:
        raise Refusal(
            422,
            "not_an_image",
            f"image: {len(data)} bytes that begin with {data[:8]!r}, expected a PNG, JPEG or WebP file.",
            action="Send the file as it is on the disk.",
        ) from None
    width, height = picture.size
    if width * height > max_pixels:
        raise _too_large(f"{width} × {height} pixels", max_pixels)
    found = "JPEG" if picture.format == "MPO" else picture.format  # a JPEG with more behind it, as phones write
    if declared and FORMATS.get(declared) != found:
        raise Refusal(
            415,
            "wrong_type",
            f"image: declared as {declared}, found {found}.",
            action="Give the content type that the file has.",
        )
    return picture


def is_small(data: bytes, picture: Image.Image | None = None) -> bool:
    """Whether decoding takes about as little time as handing it to another thread would.

    Args:
        data: the file.
        picture: of `open_picture`; without it the answer is only that it may be so.
    """
    if len(data) > SMALL_BYTES or picture is None:
        return len(data) <= SMALL_BYTES
    return picture.width * picture.height <= SMALL_PIXELS and check_parts(data)


def decoded(picture: Image.Image, *, mode: str, size: tuple[int, int] | None) -> Image.Image:
    """Decode, bring to a mode and a size.

    Args:
        picture: of `open_picture`.
        mode: "RGB" or "L".
        size: width and height to stretch to, bilinear; None leaves them.

    Raises:
        Refusal: 422, the file is cut or broken.
    """
    try:
        picture = picture.convert(mode)
        return picture if size in (None, picture.size) else picture.resize(size, Image.Resampling.BILINEAR)
    except _BROKEN as error:
        raise Refusal(
            422, "broken_image", f"image: it cannot be decoded ({error}).", action="Is the file whole? Send it again."
        ) from None


def _too_large(found: str, max_pixels: int) -> Refusal:
    return Refusal(
        413,
        "too_many_pixels",
        f"image: {found}, expected {max_pixels:,} at most.",
        action="Make it smaller before you send it; the model sees few of its pixels.",
    )
