"""Connections that ask for nothing: they are ended, so that they do not take the place of those that do."""

from __future__ import annotations

from typing import Any

PATIENCE_SECONDS = 10.0
MOST_CONNECTIONS = 200


def patient_protocol() -> Any:
    """uvicorn's protocol, which waits a while for the head of a request, and holds a number of connections."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """One connection."""

        held = 0

        def connection_made(self, transport: Any) -> None:
            """Begin, if there is room."""
            type(self).held += 1
            super().connection_made(transport)
            if type(self).held > MOST_CONNECTIONS:
                transport.abort()
                return
            self.loop.call_later(PATIENCE_SECONDS, self._end_if_idle)

        def connection_lost(self, error: Exception | None) -> None:
            """One less."""
            type(self).held -= 1
            super().connection_lost(error)

        def _end_if_idle(self) -> None:
            if self.cycle is None and self.transport is not None:
                self.transport.close()

    return Patient
