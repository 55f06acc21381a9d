"""Large pieces are decoded one at a time, so that memory is for one of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_HEAVY_BYTES = 128 << 20
_heavy = threading.Lock()


@contextlib.contextmanager
def turn(piece_bytes: float) -> Iterator[None]:
    """Wait for one's turn, if what is to be decoded is large.

    Parameters
    ----------
    piece_bytes : float
        Decoded bytes of one piece: a chunk, or a row.
    """
    with _heavy if piece_bytes > _HEAVY_BYTES else contextlib.nullcontext():
        yield
