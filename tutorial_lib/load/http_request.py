"""A whole HTTP/1.1 request as bytes, made of parts that are checked: none of them can put a line of its own into it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from tutorial_lib.errors import LoadError

# Source: RFC 9110, 5.1, 5.5 and 5.6.2 (token, field values), RFC 9112, 3 (the request line)
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # one line in Latin-1
OURS = ("host", "content-length", "transfer-encoding")  # follow from address and body


def split_url(url: str) -> tuple[str, int, str]:
    """Host, port and path (with its query) of a plain HTTP address.

    Raises:
        LoadError: it is none, or holds what must be percent-encoded.
    """
    found = LoadError(f"url: found {url!r}, expected http://HOST:PORT/….", action="Give a plain HTTP address.")
    if not isinstance(url, str):
        raise found
    if not all("!" <= sign <= "~" for sign in url):
        raise LoadError(
            f"url: found {url!r}, expected no spaces, no control characters and ASCII only.",
            action="Percent-encode it: urllib.parse.quote does that.",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        raise found from None
    if parts.scheme != "http" or not host:
        raise found
    return host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def check_method(method: str) -> None:
    """Let words of ASCII letters through.

    Raises:
        LoadError: it is no word of ASCII letters.
    """
    if not isinstance(method, str) or not (method.isascii() and method.isalpha()):
        raise LoadError(f"method: found {method!r}, expected a word such as POST.")


def check_headers(headers: Mapping[str, str]) -> None:
    """Let names that are tokens through, with values of one line.

    Raises:
        LoadError: they are no mapping, a name or a value is none, or one is written by the request itself.
    """
    if not isinstance(headers, Mapping):
        raise LoadError(f"headers: found {headers!r}, expected a dict of name → value.")
    for name, value in headers.items():
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise LoadError(f"header {name!r}: found a name that is none, expected letters, digits and '-'.")
        if not VALUE.fullmatch(str(value)):
            raise LoadError(
                f"header {name!r}: found {value!r}, expected Latin-1 without a line end or another control character."
            )
        if name.lower() in OURS:
            raise LoadError(f"header {name!r}: it follows from the address and the body.", action="Leave it out.")


def check_bodies(bodies: Sequence[bytes]) -> None:
    """Let sequences of bytes through.

    Raises:
        LoadError: they are no sequence, or one of them is not bytes.
    """
    if isinstance(bodies, str | bytes | bytearray) or not isinstance(bodies, Sequence):
        raise LoadError(
            f"bodies: found {type(bodies).__name__}, expected a list of bytes, one for each request.",
            action="Put a single body into a list: bodies=[body].",
        )
    for index, body in enumerate(bodies):
        if not isinstance(body, bytes | bytearray):
            action = "Encode the text: body.encode()." if isinstance(body, str) else "Give its bytes."
            raise LoadError(f"bodies[{index}]: found {type(body).__name__}, expected bytes.", action=action)


def http_request(method: str, host: str, port: int, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request; its parts are those that the functions above have let through."""
    there = f"[{host}]" if ":" in host else host  # IPv6
    lines = [f"{method} {path} HTTP/1.1", f"Host: {there}:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
