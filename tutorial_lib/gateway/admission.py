"""Who is let in: how many requests and how many bytes are under way, and how long a body may take to arrive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from starlette.requests import ClientDisconnect, Request

from tutorial_lib.gateway.refusal import Refusal
from tutorial_lib.gateway.settings import Settings

DISCARD_TIMEOUT_S = 2.0  # for a client that only listens once it has sent all
DISCARD_TIMES = 4  # of a body that is too large, in multiples of the limit


class Admission:
    """Back-pressure: what is over the limits is refused at once, so that what is let in stays fast.

    Memory is bounded by it: all bodies together never take more than `max_buffered_mib`, those aside that the
    decoders still work on when their requests' time is over.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.in_flight = 0
        self.buffered = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """A place among the requests under way.

        Raises:
            Refusal: 429, there is none.
        """
        if self.in_flight >= self.settings.max_in_flight:
            raise _busy(f"{self.in_flight} requests under way, the limit")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """A request's body, counted among the buffered bytes as long as the block runs.

        Raises:
            Refusal: 413 if it is too large, 429 if all bodies together would be, 408 if it does not arrive in
                time, 400 if the client goes away.
        """
        parts: list[bytes] = []
        try:
            await self._read(request, parts)
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.buffered -= sum(map(len, parts))

    async def _read(self, request: Request, parts: list[bytes]) -> None:
        limit, budget = (int(mib * 2**20) for mib in (self.settings.max_body_mib, self.settings.max_buffered_mib))
        stream, taken = request.stream(), 0
        too_large = Refusal(
            413, "body_too_large", f"body: larger than {limit / 2**20:g} MiB.",
            action="Make the picture smaller before you send it.", close=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                # the protocol has seen that it is a number
                if int(request.headers.get("content-length") or 0) > limit:
                    raise await _after_some_more(too_large, stream, limit)
                async for part in stream:
                    if taken + len(part) > limit:
                        raise await _after_some_more(too_large, stream, limit)
                    if self.buffered + len(part) > budget:
                        busy = _busy(f"{self.buffered / 2**20:.0f} MiB of bodies under way, the limit", close=True)
                        raise await _after_some_more(busy, stream, limit)
                    parts.append(part)
                    taken += len(part)
                    self.buffered += len(part)
        except TimeoutError:
            raise Refusal(
                408,
                "slow_client",
                f"body: found {taken} bytes within {self.settings.body_timeout_s:g} s, expected all of it.",
                action="Send it at once.",
                close=True,
            ) from None
        except ClientDisconnect:
            raise Refusal(400, "client_gone", "body: the client went away.", close=True) from None


async def _after_some_more(refusal: Refusal, stream: AsyncIterator[bytes], limit: int) -> Refusal:
    """Throw away some of the rest first, because most clients read no answer before they have sent all."""
    discarded = 0
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            async for part in stream:
                discarded += len(part)
                if discarded > DISCARD_TIMES * limit:
                    break
    return refusal


def _busy(found: str, *, close: bool = False) -> Refusal:
    return Refusal(429, "busy", f"gateway: {found}.", action="Try again later.", retry_after_s=1, close=close)
