"""A few rows, each in a block of its own: read without a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hubarray.blobs.ref import BlobName, Blobs, key_of
from hubarray.storage.base import Buffer
from hubarray.tables.format import locations
from hubarray.tables.format.block import Block, is_intact
from hubarray.tables.format.locations import Locations
from hubarray.tables.format.schema import Group
from hubarray.tables.snapshot.snapshot import TableSnapshot

MAX_ROWS = 64


def read_few(table: TableSnapshot, group: Group, numbers: Sequence[int]) -> list[Block | None]:
    """The block of each row, None for one that is null as a whole.

    Parameters
    ----------
    table : TableSnapshot
    group : Group
        With one row per block.
    numbers : sequence of int
        Rows of the table; those below 0 are none.

    Raises
    ------
    CorruptDataError, StorageError
    """
    slabs: dict[tuple[int, int], Locations] = {}
    located = [_location(table, group, number, slabs) for number in numbers]
    names = [location[0] for location in located if location is not None]
    checks = [location[1] for location in located if location is not None]

    def proves(i: int, pieces: Sequence[Buffer]) -> bool:
        return is_intact(*pieces, check=checks[i])

    blocks = zip(names, table.fetcher.blobs(Blobs(names, proves), keep=True), strict=True)
    where = table.fetcher.store.where
    return [location and _block(group, where, *next(blocks)) for location in located]


def _block(group: Group, where: Callable[[str], str], name: BlobName, data: Buffer) -> Block:
    return Block(group, data, f"{where(key_of(name))}: bytes {name[2]} on")


def _location(
    table: TableSnapshot, group: Group, number: int, slabs: dict[tuple[int, int], Locations]
) -> tuple[BlobName, int] | None:
    """The name and the check of a row's block; None where the row is null as a whole.

    ``slabs`` holds the locations of slabs that were looked up, because the memory cache may be off.
    """
    if number < 0:
        return None
    append = table.metadata.append_of(number)
    slab, within = divmod(number - append.first_row, locations.SLAB_ROWS)
    key = append.first_row, slab
    if key not in slabs:
        slabs[key] = table.locations(append, slab, group.name)
    chunk, offset, length, check = slabs[key][within].item()
    if not length:
        return None
    place = table.chunk_place(append.first + chunk, group, offset + length)
    home, pack, *_ = place.name
    return (home, pack, place.offset + offset, length), check
