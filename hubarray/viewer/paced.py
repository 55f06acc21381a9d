"""Answers that are made and sent within a slot: who does not read holds no more than a few of them in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

PIECE_BYTES = 256 << 10
PATIENCE_SECONDS = 30.0


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
        """Send it; whoever takes none of it for half a minute is left."""
        async with self._slots:
            try:
                made = await self._make()
            except Exception as error:
                made = self._failed(error)
            await send({"type": "http.response.start", "status": made.status_code, "headers": made.raw_headers})
            body = memoryview(bytes(made.body))
            pieces = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)] or [body]
            for n, piece in enumerate(pieces):
                message = {"type": "http.response.body", "body": bytes(piece), "more_body": n + 1 < len(pieces)}
                await asyncio.wait_for(send(message), PATIENCE_SECONDS)
