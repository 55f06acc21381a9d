"""Answers that are made and sent within a slot: who does not read holds no more than a few of them in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

PIECE_BYTES = 256 << 10
# For a piece, and for all of it at the least pace.
PATIENCE_SECONDS = 30.0
MIN_BYTES_PER_SECOND = 64 << 10


async def sent(made: Response, send: Any) -> None:
    """Send a response piece by piece. Clients that are too slow are disconnected.

    Raises
    ------
    TimeoutError
    """
    await send({"type": "http.response.start", "status": made.status_code, "headers": made.raw_headers})
    body = memoryview(bytes(made.body))
    pieces = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)] or [body]
    async with asyncio.timeout(PATIENCE_SECONDS + len(body) / MIN_BYTES_PER_SECOND):
        for n, piece in enumerate(pieces):
            message = {"type": "http.response.body", "body": bytes(piece), "more_body": n + 1 < len(pieces)}
            await asyncio.wait_for(send(message), PATIENCE_SECONDS)


class Sent(Response):
    """A response that is there already, sent as :func:`sent` does."""

    def __init__(self, made: Response) -> None:
        self._made, self.background = made, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it. Clients that are too slow are disconnected."""
        await sent(self._made, send)


class Paced(Response):
    """A response that is made when there is a slot, and holds it until it is sent.

    Parameters
    ----------
    slots : Semaphore
    make : callable
        Gives the response whose body is sent piece by piece.
    failed : callable
        Gives the response that tells an error.
    """

    def __init__(
        self,
        slots: asyncio.Semaphore,
        make: Callable[[], Awaitable[Response]],
        failed: Callable[[Exception], Response],
    ) -> None:
        self._slots, self._make, self._failed = slots, make, failed
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it. Clients that are too slow are disconnected."""
        async with self._slots:
            try:
                made = await self._make()
            except Exception as error:
                made = self._failed(error)
            await sent(made, send)
