"""The order of an epoch: which rows, in which groups, for which rank and worker. Pure.

Rows are shuffled in two steps, as WebDataset and tf.data do: units of neighbouring rows are put in random
order, and each group of rows, as many as fit a buffer, is shuffled row by row. So a group is read with few
requests, and any two rows of an array may meet in a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

MAX_UNITS = 1 << 22
UNIT_BYTES = 8 << 20


@dataclass(frozen=True)
class Plan:
    """How an array's rows are dealt out.

    Attributes
    ----------
    rows : int
    unit_rows : int
        Neighbouring rows that are read together.
    group_rows : int
        Rows that are shuffled together.
    shuffle : bool
    seed : int
    rank, world_size : int
        This process of how many. Each reads units of its own, and all of them equally many rows: what is
        left over, less than two units a rank, is left out, and is other rows in each epoch.
    """

    rows: int
    unit_rows: int
    group_rows: int
    shuffle: bool
    seed: int
    rank: int = 0
    world_size: int = 1

    @property
    def units(self) -> int:
        """Units of the whole array; the last one may be short."""
        return -(-self.rows // self.unit_rows)

    @property
    def rank_rows(self) -> int:
        """Rows that each rank reads in an epoch."""
        if self.world_size == 1:
            return self.rows
        missing = self.units * self.unit_rows - self.rows
        return max(0, self.units // self.world_size * self.unit_rows - missing)

    def group_lengths(self, worker: int, workers: int) -> Iterator[int]:
        """The lengths of the groups that :meth:`groups` yields."""
        for first in range(worker * self.group_rows, self.rank_rows, workers * self.group_rows):
            yield min(self.group_rows, self.rank_rows - first)

    def groups(self, epoch: int, worker: int = 0, workers: int = 1) -> Iterator[np.ndarray]:
        """The rows of each group in reading order; a worker of a rank has every ``workers``-th group.

        Parameters
        ----------
        epoch : int
        worker, workers : int

        Yields
        ------
        ndarray of int64

        Examples
        --------
        >>> [group.tolist() for group in Plan(10, 2, 4, False, 0).groups(0)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        """
        units = np.arange(self.units)
        if self.shuffle:
            units = np.random.default_rng((self.seed, epoch)).permutation(self.units)
        mine = units[self.rank :: self.world_size][: max(1, self.units // self.world_size)]
        # The short unit comes last, wherever it was, so that the places of all others can be computed.
        mine = np.concatenate([mine[mine != self.units - 1], mine[mine == self.units - 1]])
        for number in range(worker, -(-self.rank_rows // self.group_rows), workers):
            first = number * self.group_rows
            places = np.arange(first, min(first + self.group_rows, self.rank_rows))
            rows = mine[places // self.unit_rows] * self.unit_rows + places % self.unit_rows
            if self.shuffle:
                rows = np.random.default_rng((self.seed, epoch, self.rank, number)).permutation(rows)
            yield rows


def dealt(counts: Sequence[int], taken: int) -> tuple[list[int], int]:
    """How many items each worker has given when so many were taken of them by turns, and whose turn it is.

    Workers that have given all of theirs are passed over, as torch's DataLoader does.

    Examples
    --------
    >>> dealt([5, 2, 1], 5)
    ([2, 2, 1], 0)
    """
    low, high = 0, max(counts, default=0)
    while low < high:
        rounds = (low + high + 1) // 2
        low, high = (rounds, high) if sum(min(one, rounds) for one in counts) <= taken else (low, rounds - 1)
    given = [min(one, low) for one in counts]
    rest = taken - sum(given)
    active = [worker for worker, one in enumerate(counts) if one > low]
    for worker in active[:rest]:
        given[worker] += 1
    return given, active[rest] if rest < len(active) else 0


def plan(
    rows: int,
    row_bytes: int,
    chunk_rows: int,
    *,
    batch_rows: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    buffer_bytes: int = 64 << 20,
) -> Plan:
    """Units of whole chunks of about 8 MiB, or of single rows; and groups of whole batches that fit the buffer.

    Raises
    ------
    ValueError
        The rank is not one of the world, or there are fewer rows than ranks.

    Examples
    --------
    >>> made = plan(10_000, 200_000, 1, batch_rows=32)
    >>> made.unit_rows, made.group_rows
    (41, 320)
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of a world of {world_size}: ranks count from 0 to {world_size - 1}")
    if 0 < rows < world_size:
        raise ValueError(f"{rows} rows cannot be shared by {world_size} ranks")
    chunk_rows = max(1, min(chunk_rows, rows))
    chunks = -(-rows // chunk_rows)
    chunks_a_unit = max(UNIT_BYTES // max(1, row_bytes * chunk_rows), -(-chunks // MAX_UNITS))
    if rows * row_bytes <= buffer_bytes or chunks < 4 * world_size:
        # What fits the buffer is shuffled row by row, and few chunks are shared row by row.
        unit_rows = -(-rows // MAX_UNITS) or 1
    else:
        unit_rows = chunk_rows * max(1, min(chunks_a_unit, chunks // (16 * world_size)))
    fitting = buffer_bytes // max(1, row_bytes)
    # At least four groups a rank: workers share them, and one is read while another is used.
    shared = -(-rows // (4 * world_size))
    group_rows = max(1, min(fitting, shared) // batch_rows) * batch_rows
    return Plan(rows, unit_rows, group_rows, shuffle, seed, rank, world_size)
