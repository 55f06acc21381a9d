"""Large pieces are decoded one at a time, so that memory is for one of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from hubarray.errors import UnavailableError

_HEAVY_BYTES = 128 << 20
# Those who wait hold a slot, of which others want some.
_MAX_WAITING = 2
_heavy = threading.Lock()
_waiting = threading.BoundedSemaphore(1 + _MAX_WAITING)


@contextlib.contextmanager
def turn(piece_bytes: float) -> Iterator[None]:
    """Wait for one's turn, if what is to be decoded is large.

    Parameters
    ----------
    piece_bytes : float
        Decoded bytes of one piece: a chunk, or a row.

    Raises
    ------
    UnavailableError
        Others wait already; ask again in a moment.
    """
    if piece_bytes <= _HEAVY_BYTES:
        yield
        return
    if not _waiting.acquire(blocking=False):
        raise UnavailableError("large pieces are decoded one at a time, and several are waiting; try again in a moment")
    try:
        with _heavy:
            yield
    finally:
        _waiting.release()
