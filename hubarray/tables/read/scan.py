"""Scans: rows one after the other, read in parts by threads before they are asked for, and handed out in steps."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from hubarray.blobs.pools import pools

# What is read before it is asked for, in so many parts: fewer and larger requests cost less than more overlap gains.
SCAN_BYTES = 16 << 20
_PARTS = 2

# A mapping of names to columns, or a table of Arrow.
Columns = Any


def scan(
    read: Callable[[int, int], Columns], rows: int, *, row_bytes: float, step_rows: int | None
) -> Iterator[Columns]:
    """Columns of rows in their order.

    Parameters
    ----------
    read : callable
        Given the first row and the row after the last one.
    rows : int
    row_bytes : float
        About.
    step_rows : int or None
        Rows of each item: slices of what was read at a time. By default what is read at a time.
    """
    part_rows = max(1, int(SCAN_BYTES / _PARTS / row_bytes))
    step = part_rows if step_rows is None else step_rows
    part_rows = max(1, part_rows // step) * step
    max_begun = 1 + max(1, int(SCAN_BYTES / (part_rows * row_bytes)))
    begun: deque[Future[Columns]] = deque()
    process_id, following = os.getpid(), 0
    for begin in range(0, rows, part_rows):
        if os.getpid() != process_id:
            # In a forked child nobody works on what its parent had begun to read.
            begun.clear()
            process_id, following = os.getpid(), begin
        while following < rows and len(begun) < max_begun:
            begun.append(pools.ahead.submit(partial(read, following, min(rows, following + part_rows))))
            following += part_rows
        batch, count = begun.popleft().result(), min(part_rows, rows - begin)
        if step >= count:
            yield batch
            continue
        for first in range(0, count, step):
            if isinstance(batch, dict):
                yield {name: column[first : first + step] for name, column in batch.items()}
            else:
                yield batch.slice(first, step)
