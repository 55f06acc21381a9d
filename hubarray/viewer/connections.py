"""Slow clients: connections that request nothing are closed, and a response holds its slot for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

MAX_CONNECTIONS = 200
PIECE_BYTES = 256 << 10
PATIENCE_SECONDS = 10.0
MIN_BYTES_PER_SECOND = 64 << 10


def patient_protocol() -> Any:
    """uvicorn's protocol, which waits a while for the head of a request, and holds a number of connections."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """One connection."""

        held = 0

        _ending: Any = None

        def connection_made(self, transport: Any) -> None:
            """Begin, if there is room."""
            type(self).held += 1
            super().connection_made(transport)
            if type(self).held > MAX_CONNECTIONS:
                transport.abort()
                return
            self._wait_for_a_request()

        def data_received(self, data: bytes) -> None:
            """Whoever sent a part of a request has no longer for the rest of it than for its first byte."""
            super().data_received(data)
            if not self._is_waiting():
                self._stop_waiting()
            elif self._ending is None:
                self._wait_for_a_request()

        def connection_lost(self, error: Exception | None) -> None:
            """One less."""
            type(self).held -= 1
            self._stop_waiting()
            super().connection_lost(error)

        def _is_waiting(self) -> bool:
            return self.cycle is None or bool(self.cycle.response_complete)

        def _wait_for_a_request(self) -> None:
            self._ending = self.loop.call_later(PATIENCE_SECONDS, self._end_if_waiting)

        def _stop_waiting(self) -> None:
            if self._ending is not None:
                self._ending.cancel()
                self._ending = None

        def _end_if_waiting(self) -> None:
            self._ending = None
            if self._is_waiting() and self.transport is not None:
                self.transport.close()

    return Patient


# For a piece, and for all of it at the least pace.
PATIENCE_SECONDS = 30.0


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
