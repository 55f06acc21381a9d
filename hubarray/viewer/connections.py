"""Connections that ask for nothing: they are ended, so that they do not take the place of those that do."""

from __future__ import annotations

from typing import Any

PATIENCE_SECONDS = 10.0
MAX_CONNECTIONS = 200


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
