"""Locations: where each row's block of a group is, as one piece of a slab. Pure.

``docs/FORMAT.md``, "Locations", has the bytes: planes of one kind of number
each, as an lz4 frame.
"""

from __future__ import annotations

import lz4.frame
import numpy as np
import numpy.typing as npt

from hubarray.storage.base import Buffer
from hubarray.tables.format.block import MAX_BLOCK_BYTES
from hubarray.tables.format.schema import MAX_ROWS_PER_BLOCK

SLAB_ROWS = 1 << 17
_PLANES = ("chunk", "offset", "length", "check")
# A null location has length 0. Blocks of several rows want the row's number in the block beside it.
_ONE_ROW = np.dtype([(name, "<u4") for name in _PLANES])
_SEVERAL_ROWS = np.dtype([*_ONE_ROW.descr, ("row", "<u2")])
# https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md: a byte more of length is 255 bytes more of output.
_MAX_RATIO = 255

Locations = npt.NDArray[np.void]


def empty(count: int, *, rows_per_block: int) -> Locations:
    """So many null locations: of 16 bytes each, of 18 where blocks hold several rows."""
    return np.zeros(count, _ONE_ROW if rows_per_block == 1 else _SEVERAL_ROWS)


def rows_in_blocks(locations: Locations) -> npt.NDArray[np.intp]:
    """Which row of its block each one is."""
    return locations["row"].astype(np.intp) if locations.dtype == _SEVERAL_ROWS else np.zeros(len(locations), np.intp)


def begin_blocks(locations: Locations) -> npt.NDArray[np.bool_]:
    """Which rows are the first of their block."""
    begins_block: npt.NDArray[np.bool_] = (
        locations["row"] == 0 if locations.dtype == _SEVERAL_ROWS else np.ones(len(locations), bool)
    )
    return begins_block


def encode(locations: Locations) -> bytes:
    """The piece of a slab's locations."""
    rows = len(locations)
    data = np.empty(locations.nbytes, "u1")
    planes = data[: 16 * rows].view("<u4").reshape(4, rows)
    for plane, name in zip(planes, _PLANES, strict=True):
        plane[...] = _distances(locations) if name == "offset" else locations[name]
    if locations.dtype == _SEVERAL_ROWS:
        data[16 * rows :].view("<u2")[...] = locations["row"]
    return lz4.frame.compress(data, content_checksum=False, store_size=True)


def decode(data: Buffer, *, rows: int, chunk_files: int, rows_per_block: int) -> Locations:
    """The locations of a slab, each checked.

    Parameters
    ----------
    data : bytes
    rows : int
        How many the slab has, at most 131,072.
    chunk_files : int
        How many the append has, which no location goes beyond.
    rows_per_block : int

    Raises
    ------
    ValueError
        They are not that many, or one of them cannot be.
    """
    locations = empty(rows, rows_per_block=rows_per_block)
    plain = _decompressed(data, locations.nbytes)
    for i, name in enumerate(_PLANES):
        locations[name] = np.frombuffer(plain, "<u4", rows, 4 * rows * i)
    if rows_per_block > 1:
        locations["row"] = np.frombuffer(plain, "<u2", rows, 16 * rows)
    locations["offset"] = _offsets(locations)
    present = locations if locations["length"].all() else locations[locations["length"] > 0]
    if (present["chunk"] >= chunk_files).any():
        raise ValueError(f"a location is in chunk file {int(present['chunk'].max())}, and there are {chunk_files}")
    if (present["length"] > MAX_BLOCK_BYTES).any() or (rows_in_blocks(present) >= MAX_ROWS_PER_BLOCK).any():
        raise ValueError("a location is longer than a block may be, or of a row that no block has")
    ends = present["offset"].astype(np.uint64) + present["length"]
    if len(ends) and int(ends.max()) > 1 << 32:
        raise ValueError("a location reaches beyond 4 GiB")
    return locations


def _decompressed(data: Buffer, size: int) -> bytes:
    """The content of one lz4 frame that has to be this long; no more of it is made."""
    if size > _MAX_RATIO * len(data) + _MAX_RATIO:
        raise ValueError(f"cannot have the {size} bytes that its rows take")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = decompressor.decompress(bytes(data), size + 1)
    except RuntimeError as error:
        raise ValueError(f"is not an lz4 frame: {error}") from None
    if len(plain) != size or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"has not the {size} bytes that its rows take")
    return plain


def _distances(locations: Locations) -> npt.NDArray[np.uint32]:
    """Each offset less the end of the location before, modulo 2**32: mostly 0 where a writer laid blocks in a row."""
    offsets: npt.NDArray[np.uint32] = locations["offset"].astype(np.uint32)
    offsets[1:] -= locations["offset"][:-1]
    offsets[1:] -= locations["length"][:-1]
    return offsets


def _offsets(locations: Locations) -> npt.NDArray[np.uint32]:
    """The inverse of :func:`_distances`: each end is the sum of all distances and lengths so far."""
    steps = locations["offset"].astype(np.uint32)
    steps[1:] += locations["length"][:-1]
    return np.cumsum(steps, dtype=np.uint32)
