"""What a picture's file is made of, walked before a decoder sees it: a small file can be a great deal of work.

A JPEG may go over all its pixels again in each of thousands of scans of a few bytes, and a PNG may carry thousands
of profiles that are each unpacked. What cameras and programs write has a few dozen parts.
"""

from __future__ import annotations

import re
import struct

from tutorial_lib.gateway.refusal import Refusal

MAX_SCANS = 100  # a usual progressive JPEG has 6 (grey) or 10 (colour)
MAX_SEGMENTS = 1000  # before the first scan; a colour profile and the metadata of a camera take up to 255 each
MAX_PADDING = 4096  # bytes between segments
MAX_CHUNKS = 100  # of a PNG, those with pixels aside
PLAIN_SCANS, PLAIN_HEAD = 10, 4096  # bytes before the first scan
PIXELS_PER_CHUNK = 1024  # bytes; a PNG's pixels in smaller pieces than this are meant to be slow

# a marker that neither stands for a byte of pixels nor for a restart among them
_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")
_SCAN, _START, _END, _FIRST_WITH_LENGTH = 0xDA, 0xD8, 0xD9, 0xC0
_PACKED = (b"iCCP", b"zTXt", b"iTXt")


def check_parts(data: bytes) -> bool:
    """Refuse a file of too many parts.

    Args:
        data: the file, of any format.

    Returns:
        Whether it is plain: nothing in it takes longer than its size and its pixels tell.

    Raises:
        Refusal: 413, too many scans, segments or chunks.
    """
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    return _png(data) if data.startswith(b"\x89PNG\r\n\x1a\n") else True


def _jpeg(data: bytes) -> bool:
    """As libjpeg walks it: whatever it would skip to find the next marker is skipped here, too."""
    place, scans, segments, padding, head = 2, 0, 0, 0, len(data)
    while found := _MARKER.search(data, place):
        code = found[1][0]
        if code == _END:
            break
        if not scans:
            padding += found.start() - place
            segments += 1
        if code == _SCAN:
            head = min(head, found.start())
            scans += 1
        place = found.end()
        if code >= _FIRST_WITH_LENGTH and code != _START:
            place += int.from_bytes(data[place : place + 2])
        if scans > MAX_SCANS:
            raise _too_many("too_many_scans", f"more than {MAX_SCANS} scans")
        if segments > MAX_SEGMENTS or padding > MAX_PADDING:
            raise _too_many("too_many_parts", f"more than {MAX_SEGMENTS} segments or {MAX_PADDING} bytes of padding")
    return scans <= PLAIN_SCANS and head <= PLAIN_HEAD


def _png(data: bytes) -> bool:
    place, chunks, profiles, pixels, plain = 8, 0, 0, 0, True
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        place += 12 + length
        if kind == b"IEND" and pixels:
            break
        if kind == b"IDAT":
            pixels += 1
        else:
            chunks += 1
            profiles += kind == b"iCCP"
            plain = plain and kind not in _PACKED
        if chunks > MAX_CHUNKS or profiles > 1 or pixels > MAX_CHUNKS + len(data) // PIXELS_PER_CHUNK:
            found = f"{pixels} chunks of pixels, {profiles} profiles, {chunks} chunks of another kind"
            raise _too_many("too_many_parts", f"{found} and perhaps more; at most {MAX_CHUNKS} of another kind")
    return plain


def _too_many(code: str, found: str) -> Refusal:
    return Refusal(
        413, code, f"image: found {found}, expected what a camera or a program writes.",
        action="Save it anew, as an ordinary JPEG or PNG.",
    )  # fmt: skip
