"""How many rows are read together, and how many are shuffled together. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hubarray.errors import ConfigError

MAX_UNITS = 1 << 22
UNIT_BYTES = 8 << 20
DEFAULT_BUFFER_BYTES = 192 << 20
# How many bytes there are of one that is stored, about: of photographs, and of numbers that compress.
EXPANSION = {"jpeg": 12.0, "png": 2.5, "other": 2.0}
# A group that is used, one that is read, and one that a slow user still holds.
GROUPS_HELD = 3
# Smaller ranges cost more than their bytes: an S3 server gave 210 MB/s of 1 MiB ranges, 400 of 2, 550 of 4 and of 8.
REQUEST_BYTES = 4 << 20
# As far as a buffer grows by itself, where chunks are large.
MAX_BUFFER_BYTES = 1 << 30
# As much as a rank of many intervals holds.
MAX_HELD_BYTES = 8 << 30
# However few bytes there are, so that units alone shuffle something.
MIN_UNITS = 64
# Fewer units open at a time make a poor shuffle of data that is sorted.
GOOD_POOL_UNITS = 32


class GroupSizes(NamedTuple):
    """Rows of a unit and of a group, and about how many units a rank's groups hold at a time."""

    unit_rows: int
    group_rows: int
    open_units: int


def is_kept(rows: int, row_bytes: float, buffer_bytes: int | None) -> bool:
    """Whether rows that are shuffled fit a group whole, and so are read once and kept."""
    return rows * row_bytes <= (DEFAULT_BUFFER_BYTES if buffer_bytes is None else buffer_bytes) / GROUPS_HELD


def sizes(
    rows: int,
    row_bytes: float,
    chunk_rows: int,
    *,
    intervals: int = 1,
    world_size: int = 1,
    shuffle: bool = True,
    buffer_bytes: int | None = None,
    keeps: bool = False,
) -> GroupSizes:
    """Units of whole chunks, and groups of units; a rank holds a group of each of its intervals and two more.

    Sizes do not depend on the number of ranks, so that all numbers of them see the same order.

    Parameters
    ----------
    rows, chunk_rows : int
    row_bytes : float
    intervals, world_size : int
        A rank owns ``intervals / world_size`` intervals.
    buffer_bytes : int, optional
        What the groups of a rank of one interval take: a third each. By default 192 MiB, or what two units of a
        group need, up to 1 GiB.
    keeps : bool
        Whether the source keeps what fits a group, so that single rows cost nothing.

    Raises
    ------
    ConfigError
        Rows are shuffled, and not even two units of a group fit the buffer; or a rank would hold over 8 GiB. The
        message says what would do.

    Examples
    --------
    >>> sizes(10_000, 200_000, 1)
    GroupSizes(unit_rows=20, group_rows=335, open_units=50)
    """
    row_bytes, chunk_rows = max(1.0, row_bytes), max(1, min(chunk_rows, rows))
    groups = GROUPS_HELD
    max_buffer_bytes = DEFAULT_BUFFER_BYTES if buffer_bytes is None else buffer_bytes
    shared = max(1, -(-rows // (4 * intervals)))
    if keeps and is_kept(rows, row_bytes, buffer_bytes):
        # Kept whole: every row is a unit.
        unit_rows = max(1, -(-rows // MAX_UNITS))
        return GroupSizes(unit_rows, shared, rows)
    group_bytes = max_buffer_bytes / groups
    fitting = max(1, int(group_bytes / row_bytes))
    if not shuffle:
        # The order is that of the rows, whatever a unit is; there have to be few, as each takes memory.
        unit_rows = max(min(chunk_rows, fitting), -(-rows // MAX_UNITS))
        return GroupSizes(unit_rows, max(unit_rows, min(fitting, max(shared, chunk_rows))), 1)
    chunk_bytes = chunk_rows * row_bytes
    chunks = -(-rows // chunk_rows)
    unit_bytes = min(UNIT_BYTES, max(group_bytes / GOOD_POOL_UNITS, min(REQUEST_BYTES, group_bytes / 11)))
    fitting_chunks = min(int(unit_bytes / chunk_bytes), chunks // MIN_UNITS)
    chunks_a_unit = max(1, fitting_chunks, -(-chunks // MAX_UNITS))
    unit_rows = chunk_rows * chunks_a_unit
    needed = int(2 * unit_rows * row_bytes * groups) + 1
    if fitting < 2 * unit_rows:
        if needed > MAX_HELD_BYTES:
            raise ConfigError(
                f"rows are shuffled in groups of at least two chunks, and of chunks of {chunk_bytes:,.0f} bytes a rank "
                f"would hold more than {MAX_HELD_BYTES:,}: use shuffle=False, or copy to smaller chunks"
            )
        if buffer_bytes is not None or needed > MAX_BUFFER_BYTES:
            raise ConfigError(
                f"buffer_bytes={max_buffer_bytes:,}: rows are shuffled in groups of at least two chunks of "
                f"{chunk_bytes:,.0f} bytes, of which {groups} are held; buffer_bytes={needed:,} suffices"
            )
        fitting = 2 * unit_rows
    group_rows = min(fitting, max(shared, 2 * unit_rows))
    held = intervals // world_size + 2
    if held * group_rows * row_bytes > MAX_HELD_BYTES:
        fitting = int(MAX_HELD_BYTES / held * groups)
        raise ConfigError(
            f"{intervals} intervals on {world_size} ranks: each holds {held} groups of {group_rows * row_bytes:,.0f} "
            f"bytes; use fewer intervals, or buffer_bytes={fitting:,}"
        )
    return GroupSizes(unit_rows, group_rows, held * group_rows // unit_rows)
