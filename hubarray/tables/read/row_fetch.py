"""Rows by their numbers: which blocks they are in, one fetch for all of them, and their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import BlobName, Blobs, Refs, blob_names, key_of
from hubarray.blobs.sinks import Sink
from hubarray.storage.base import Buffer
from hubarray.tables.format import locations
from hubarray.tables.format.block import Block, are_intact, described, is_intact
from hubarray.tables.format.locations import Locations, rows_in_blocks
from hubarray.tables.format.plain_blocks import PlainBlocks
from hubarray.tables.format.schema import Group
from hubarray.tables.format.text_blocks import TextBlocks
from hubarray.tables.read.arrow_reads import TextPieces
from hubarray.tables.read.column_buffers import ColumnBuffers
from hubarray.tables.snapshot.block_spans import BlockSpan, coalesced_starts
from hubarray.tables.snapshot.snapshot import TableSnapshot

Numbers = npt.NDArray[np.int64]
# Positions, and rows of the block, that follow one another.
Run = tuple[slice, slice]
AnyBlock = Block | PlainBlocks | TextBlocks
TakeBlock = Callable[[Any, npt.NDArray[np.intp], npt.NDArray[np.intp], Run | None], None]


# Below this many rows, looking up each row is cheaper than scanning the slab.
_MIN_STRETCH = 64


@dataclass(frozen=True)
class RowRequest:
    """Some rows of one group of a table.

    Attributes
    ----------
    table : TableSnapshot
    group : Group
    numbers : array of int64
        Rows of the table, in any order, some of them again and again.
    take : callable
        Called once a block, on whatever thread has it, with the block, positions in ``numbers``, which of the block's
        rows each of these is, and both as slices where they follow one another. Rows that are null as a whole are in no
        block.
    copies : bool
        Whether ``take`` keeps nothing of the block: then its bytes may be those of the request.
    places : ColumnBuffers, optional
        Where blocks may be read to instead of being taken.
    """

    table: TableSnapshot
    group: Group
    numbers: Numbers
    take: TakeBlock
    copies: bool = False
    places: ColumnBuffers | None = None


@dataclass(frozen=True)
class _BlockFetch:
    """One block that is fetched, or whole ones that follow each other, and who wants it."""

    wanted: RowRequest
    positions: npt.NDArray[np.intp]
    rows: npt.NDArray[np.intp]
    checks: Sequence[int]
    ends: Sequence[int]
    run: Run | None

    def is_proven(self, pieces: Sequence[Buffer]) -> bool:
        """Whether bytes are those of the block, or blocks."""
        if len(self.checks) == 1:
            return is_intact(*pieces, check=self.checks[0])
        return are_intact(b"".join(pieces) if len(pieces) > 1 else pieces[0], ends=self.ends, checks=self.checks)

    def finish_all(self, data: Buffer, where: str) -> None:
        """Hand out whole blocks that follow each other as one."""
        group = self.wanted.group
        if group.is_plain:
            self.finish(PlainBlocks(group, data, self.ends[0], where))
        else:
            self.finish(TextBlocks(group, data, self.ends, where))

    @property
    def stays(self) -> bool:
        """Whether the block stays in the memory cache, because other rows of it may be needed next."""
        return len(self.positions) < self.wanted.group.rows_per_block > 1

    @property
    def places(self) -> ColumnBuffers | None:
        """Where its row belongs, if it is one, and its values may be put there."""
        return self.wanted.places if len(self.positions) == 1 and not self.rows[0] else None

    def put(self, data: Buffer) -> bool:
        """Whether the values are where they belong already."""
        places = self.places
        return places is not None and places.put(int(self.positions[0]), data)

    def finish(self, block: AnyBlock) -> None:
        block.require_row(int(self.rows.max()) if self.run is None else self.run[1].stop - 1)
        self.wanted.take(block, self.positions, self.rows, self.run)


def read(requests: Sequence[RowRequest]) -> None:
    """Hand out the blocks that have the rows: each is fetched once, neighbours by one request.

    Raises
    ------
    CorruptDataError, StorageError
    """
    by_fetcher: dict[int, tuple[Fetcher, list[_BlockFetch], list[Refs]]] = {}
    for request in requests:
        fetcher = request.table.fetcher
        _, jobs, refs = by_fetcher.setdefault(id(fetcher), (fetcher, [], []))
        _plan(request, jobs, refs)
    for fetcher, jobs, refs in by_fetcher.values():
        if jobs:
            _fetch(fetcher, jobs, refs)


def _plan(request: RowRequest, jobs: list[_BlockFetch], refs: list[Refs]) -> None:
    if request.copies and request.group.rows_per_block > 1 and _plan_stretch(request, jobs, refs):
        return
    block_locations, chunks = located(request.table, request.group, request.numbers)
    if len(block_locations) == 1:
        if not block_locations["length"][0]:
            return
        positions, rows = np.zeros(1, np.intp), rows_in_blocks(block_locations)
        alone = slice(0, 1), slice(int(rows[0]), int(rows[0]) + 1)
        jobs.append(
            _BlockFetch(
                request, positions, rows, block_locations["check"].tolist(), block_locations["length"].tolist(), alone
            )
        )
        refs.append(request.table.block_refs(request.group, chunks, block_locations))
        return
    positions, rows, breaks, bounds = _sorted(block_locations, chunks)
    if not len(positions):
        return
    firsts, begins, ends = positions[bounds[:-1]], bounds[:-1], bounds[1:]
    blocks, chunks, block_rows = block_locations[firsts], chunks[firsts], request.group.rows_per_block
    is_whole = (ends - begins == block_rows) & (rows[begins] == 0) & (breaks[begins] == breaks[ends - 1])
    follow = positions[begins[1:]] == positions[begins[:-1]] + block_rows

    def rows_of(low: int, high: int) -> _Rows:
        begin, end = int(bounds[low]), int(bounds[high])
        run: Run | None = None
        if high - low > 1 or breaks[begin] == breaks[end - 1]:
            at, row = int(positions[begin]), int(rows[begin])
            run = slice(at, at + end - begin), slice(row, row + end - begin)
        return positions[begin:end], rows[begin:end], run

    _add_jobs(request, blocks, chunks, is_whole, follow, rows_of, jobs, refs)


def _plan_stretch(request: RowRequest, jobs: list[_BlockFetch], refs: list[Refs]) -> bool:
    """Plan consecutive rows like :func:`_plan`, but block by block. Return False if that cannot be done."""
    count = len(request.numbers)
    if count < _MIN_STRETCH or request.numbers[0] < 0 or request.numbers[-1] - request.numbers[0] != count - 1:
        return False
    # Strictly increasing integers that span exactly n - 1 are consecutive.
    if not (request.numbers[1:] > request.numbers[:-1]).all():
        return False
    spans = []
    first, at = int(request.numbers[0]), 0
    while at < count:
        append = request.table.metadata.append_of(first + at)
        slab, within = divmod(first + at - append.first_row, locations.SLAB_ROWS)
        end = min(append.slab_rows(slab), within + count - at)
        table = request.table.block_table(append, slab, request.group.name)
        if table is None:
            return False
        spans.append((at, append, table.cut(within, end)))
        at += end - within
    group = request.group
    every = np.arange(max(count, group.rows_per_block))

    def rows_of(at: int, span: BlockSpan, low: int, high: int) -> _Rows:
        begin, end, row = int(span.bounds[low]), int(span.bounds[high]), int(span.first_rows[low])
        run = slice(at + begin, at + end), slice(row, row + end - begin)
        return every[run[0]], every[run[1]], run

    for at, append, span in spans:
        chunks = span.blocks["chunk"].astype(np.uint64) + np.uint64(append.first)
        is_whole = (np.diff(span.bounds) == group.rows_per_block) & (span.first_rows == 0)
        _add_jobs(request, span.blocks, chunks, is_whole, True, partial(rows_of, at, span), jobs, refs)
    return True


_Rows = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Run | None]


def _add_jobs(
    request: RowRequest,
    blocks: Locations,
    chunks: npt.NDArray[np.uint64],
    is_whole: npt.NDArray[np.bool_],
    rows_follow: npt.NDArray[np.bool_] | bool,
    rows_of: Callable[[int, int], _Rows],
    jobs: list[_BlockFetch],
    refs: list[Refs],
) -> None:
    """Plan one fetch for each joint read of :func:`coalesced_starts`.

    ``rows_of`` returns the positions and rows of a range of blocks.
    """
    group = request.group
    heads = np.arange(len(blocks) + 1)
    if request.copies and group.rows_per_block > 1 and group.layout is not None and not group.has_text:
        heads = coalesced_starts(blocks, chunks, is_whole, are_alike=group.is_plain, rows_follow=rows_follow)
    joined, lengths = blocks[heads[:-1]], blocks["length"].astype(np.int64)
    if len(heads) - 1 < len(blocks):
        joined["length"] = np.add.reduceat(lengths, heads[:-1])
    refs.append(request.table.block_refs(request.group, chunks[heads[:-1]], joined))
    checks = blocks["check"].tolist()
    for low, high in itertools.pairwise(heads.tolist()):
        positions, rows, run = rows_of(low, high)
        ends = np.cumsum(lengths[low:high]).tolist()
        jobs.append(_BlockFetch(request, positions, rows, checks[low:high], ends, run))


_Sorted = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]


def _sorted(block_locations: Locations, chunks: npt.NDArray[np.uint64]) -> _Sorted:
    """Rows by where their blocks lie, without those that are null.

    Returns
    -------
    positions, rows : ndarray
        For each, its position among the requested rows, and in its block.
    breaks : ndarray
        Equal for rows that follow each other here and there.
    bounds : ndarray
        Where the rows of each block begin, and the number of all.
    """
    present = np.flatnonzero(block_locations["length"])
    key = (chunks[present] << np.uint64(32)) | block_locations["offset"][present]
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    positions = present[order]
    rows = rows_in_blocks(block_locations)[positions]
    breaks = np.concatenate([[0], np.cumsum((np.diff(positions) != 1) | (np.diff(rows) != 1))])
    return positions, rows, breaks, np.concatenate([[0], cuts, [len(positions)]])


def located(table: TableSnapshot, group: Group, numbers: Numbers) -> tuple[Locations, npt.NDArray[np.uint64]]:
    """The locations of rows in a group, and the number of each one's chunk file in the table."""
    if len(numbers) == 1:
        append = table.metadata.append_of(int(numbers[0]))
        slab, within = divmod(int(numbers[0]) - append.first_row, locations.SLAB_ROWS)
        location = table.locations(append, slab, group.name)[within : within + 1]
        return location, location["chunk"].astype(np.uint64) + np.uint64(append.first)
    if len(numbers):
        only = table.metadata.append_of(int(numbers[0]))
        slab, within = divmod(int(numbers[0]) - only.first_row, locations.SLAB_ROWS)
        end = within + len(numbers)
        if end <= only.slab_rows(slab) and bool((np.diff(numbers) == 1).all()):
            # Rows that follow each other, as of a scan: nothing is copied.
            block_locations = table.locations(only, slab, group.name)[within:end]
            return block_locations, block_locations["chunk"].astype(np.uint64) + np.uint64(only.first)
    result = locations.empty(len(numbers), rows_per_block=group.rows_per_block)
    chunks = np.zeros(len(numbers), np.uint64)
    for append, slab, first, inside in table.slabs_of(numbers):
        result[inside] = table.locations(append, slab, group.name)[numbers[inside] - first]
        chunks[inside] = result["chunk"][inside].astype(np.uint64) + np.uint64(append.first)
    return result, chunks


def _fetch(fetcher: Fetcher, jobs: list[_BlockFetch], refs: list[Refs]) -> None:
    names = blob_names(refs[0] if len(refs) == 1 else np.concatenate(refs))
    fetcher.read(Blobs(names, lambda i, pieces: jobs[i].is_proven(pieces)), _BlockSink(fetcher, jobs, names))


class _BlockSink(Sink):
    """Hands blocks to the requests that want them. Plain ones are read into columns, or into memory of their own."""

    def __init__(self, fetcher: Fetcher, jobs: Sequence[_BlockFetch], names: Sequence[BlobName]) -> None:
        self._fetcher, self._jobs, self._names = fetcher, jobs, names
        keys = [_memory_key(job, name) if job.stays else None for job, name in zip(jobs, names, strict=True)]
        self.keys = keys if any(keys) else None

    def recall(self, i: int, block: Block) -> None:
        """See :class:`Sink`."""
        self._jobs[i].finish(block)

    def buffers(self, i: int) -> list[memoryview] | None:
        """See :class:`Sink`."""
        job, length = self._jobs[i], self._names[i][3]
        places = job.places
        if places is not None and (pieces := places.buffers(int(job.positions[0]), length)) is not None:
            return pieces
        if job.wanted.group.has_codec or job.wanted.copies or job.stays:
            # Decoding and copying are the reading threads' work.
            return None
        return [np.empty(length, "u1").data]

    def are_final(self, i: int, buffers: list[memoryview]) -> bool:
        """See :class:`Sink`."""
        job = self._jobs[i]
        if len(buffers) == 1:
            self._finish(i, buffers[0])
            return True
        places = job.places
        assert places is not None
        if not places.are_final(buffers):
            return False
        places.fill(int(job.positions[0]))
        return True

    def take(self, i: int, data: Buffer, is_fetched: bool) -> None:
        """See :class:`Sink`."""
        job = self._jobs[i]
        if job.put(data):
            return
        # The one copy: what a row keeps alive is its own blocks, not the request that they came in.
        self._finish(i, data if job.wanted.copies and not job.stays else bytearray(data))

    def _finish(self, i: int, data: Buffer) -> None:
        job, name = self._jobs[i], self._names[i]
        where = f"{self._fetcher.store.where(key_of(name))}: bytes {name[2]} on"
        if len(job.checks) > 1:
            job.finish_all(data, where)
            return
        block = Block(job.wanted.group, data, where)
        if self.keys is not None and self.keys[i] is not None:
            self._fetcher.memory.put(self.keys[i], block, block.nbytes)
        job.finish(block)


def _memory_key(job: _BlockFetch, name: BlobName) -> Hashable:
    # The same bytes may be a block of another table, whose fields have other names.
    group = job.wanted.group
    fields = tuple(name for name, _ in group.fields)
    about = (fields, described(group), group.rows_per_block, job.checks[0])
    return ("block", job.wanted.table.fetcher.identity, name, *about)


def values_into(
    out: Sequence[dict[str, Any]], fields: Sequence[str], names: Sequence[str], group: Group, *, encoded: bool = False
) -> TakeBlock:
    """A ``take`` that sets the values of fields, under these names, in rows; images as stored with ``encoded``."""
    several = group.rows_per_block > 1

    def take(block: Block, positions: npt.NDArray[np.intp], rows: npt.NDArray[np.intp], run: Run | None) -> None:
        again: dict[int, dict[str, Any]] = {}
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            values = block.row(row, fields, encoded=encoded)
            for field, name in zip(fields, names, strict=True):
                value = values[field]
                if isinstance(value, np.ndarray) and (several or row in again):
                    value = value.copy()
                out[position][name] = value
            again[row] = values

    return take


def columns_into(
    out: dict[str, Any],
    fields: Sequence[str],
    names: Sequence[str],
    filled: Mapping[str, npt.NDArray[np.bool_]],
    *,
    encoded: Collection[str] = (),
) -> TakeBlock:
    """A ``take`` that sets the values of fields in columns: arrays, lists of values, or pieces of text for Arrow.

    Parameters
    ----------
    out, filled : mapping of str to column, and to which of its rows were set
    fields, names : sequence of str
    encoded : collection of str
        Fields of images that stay as they are stored.
    """

    def take(block: AnyBlock, positions: npt.NDArray[np.intp], rows: npt.NDArray[np.intp], run: Run | None) -> None:
        at, those = (positions, rows) if run is None else run
        for field, name in zip(fields, names, strict=True):
            column = out[name]
            filled[name][at] = True
            if isinstance(column, TextPieces):
                # Plain blocks have no text.
                assert not isinstance(block, PlainBlocks)
                column.put(positions, block.text_array(field), rows, None if run is None else run[1])
                continue
            whole = run is not None and run[1] == slice(0, block.rows) and isinstance(column, np.ndarray)
            if whole and block.decode_column(field, column[at]):
                continue
            if field not in encoded and (not block.is_costly(field) or 4 * len(rows) >= block.rows):
                values = block.column(field)
                if isinstance(column, np.ndarray) and isinstance(values, np.ndarray):
                    column[at] = values[those]
                    continue
                if run is not None and block.is_text(field) and isinstance(column, list):
                    column[run[0]] = values[run[1]]
                    continue
                chosen = [values[row] for row in rows.tolist()]
            else:
                # Plain blocks are never costly.
                assert isinstance(block, Block)
                chosen = [block.row(row, (field,), encoded=field in encoded)[field] for row in rows.tolist()]
            for position, value in zip(positions.tolist(), chosen, strict=True):
                column[position] = value.copy() if isinstance(value, np.ndarray) else value

    return take
