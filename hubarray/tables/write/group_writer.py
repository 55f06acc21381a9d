"""Writing one column group of a partition: rows wait for their block, blocks for their chunk file."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import Refs, null_ref
from hubarray.errors import ConfigError
from hubarray.tables.format.block import MAX_BLOCK_BYTES, check_of
from hubarray.tables.format.block_encoding import digest, encode
from hubarray.tables.format.chunk_file import ChunkFile
from hubarray.tables.format.locations import Locations, empty
from hubarray.tables.format.schema import Group
from hubarray.tables.write.dedup import MIN_SHARED_BYTES, StoredBlock, StoredBlocks

# Blocks that wait, where all are null.
_MAX_WAITING = 1024

Columns = dict[str, Any]


class GroupWriter:
    """Blocks and chunk files of one column group.

    A block that is known is not encoded; that of a short run of such between others waits, and is stored again.
    """

    def __init__(self, group: Group, where: Any, known: StoredBlocks, known_files: list[Refs]) -> None:
        self._group, self._where = group, where
        self._known, self._known_files = known, known_files
        self._names = tuple(name for name, _ in group.fields)
        # Rows that wait: those that came one by one, after stretches of earlier batches; then those of this batch.
        self._stretches: list[Columns] = []
        self._rows: Columns = self._no_rows()
        self._batch: Mapping[str, Any] = {}
        self._taken = self._advanced = 0
        self._waiting = 0
        self._file = ChunkFile()
        self._file_position = 0
        self.files: list[Refs] = []
        self._shared: dict[int, int] = {}
        # Of each block: chunk file, offset, length, check, rows. Millions of small rows are millions of blocks.
        self._blocks = array("I")
        self._digests = bytearray()
        # Known blocks after one that was stored, with their columns, and nulls among them.
        self._run: list[tuple[Columns, StoredBlock | None, int]] = []
        self._run_bytes = 0
        self._stored_last = False

    @property
    def is_complete(self) -> bool:
        """Whether the rows that wait make a block."""
        return self._waiting >= self._group.rows_per_block

    @property
    def missing_rows(self) -> int:
        """How many rows the block still takes."""
        return self._group.rows_per_block - self._waiting

    @property
    def open_bytes(self) -> int:
        """Bytes of the chunk file that is being filled."""
        return self._file.size

    def append(self, values: Mapping[str, Any]) -> None:
        """Have a row wait for its block."""
        for name, column in self._rows.items():
            column.append(values[name])
        self._waiting += 1

    def begin_batch(self, columns: Mapping[str, Any]) -> None:
        """Set the columns whose rows :meth:`advance` consumes."""
        if len(self._rows[self._names[0]]):
            self._stretches.append(self._rows)
            self._rows = self._no_rows()
        self._batch, self._taken, self._advanced = columns, 0, 0

    def advance(self, rows: int) -> None:
        """Have the next rows of the batch wait for their block."""
        self._waiting += rows
        self._advanced += rows

    def end_batch(self) -> None:
        """Keep the rows of the batch that still wait."""
        self._take_advanced()
        self._batch = {}

    def end_block(self, packs: PackWriter) -> None:
        """End the block of the rows that wait, if any do."""
        rows, self._waiting = self._waiting, 0
        if not rows:
            return
        columns = self._taken_columns()
        if all(not isinstance(column, np.ndarray) and all(value is None for value in column)
               for column in columns.values()):  # fmt: skip
            self._digests += bytes(16)
            self._keep(columns, None, rows)
            return
        own = digest(self._group, columns)
        self._digests += own
        known = self._known.get(own)
        if known is not None:
            self._keep(columns, known, rows)
            return
        run, self._run, self._run_bytes = self._run, [], 0
        for held, block, count in run:
            if block is None:
                self._blocks.extend((0, 0, 0, 0, count))
            else:
                self._store(held, count, packs)
        self._store(columns, rows, packs)
        self._stored_last = True

    def end_run(self) -> None:
        """Share the known blocks that wait."""
        for _, block, rows in self._run:
            if block is None:
                self._blocks.extend((0, 0, 0, 0, rows))
                continue
            if block.file not in self._shared:
                self._shared[block.file] = len(self.files)
                self.files.append(self._known_files[block.file])
            self._blocks.extend((self._shared[block.file], block.offset, block.length, block.check, rows))
        self._run, self._run_bytes, self._stored_last = [], 0, False

    def close_file(self, packs: PackWriter) -> None:
        """Give the open chunk file to the pack writer, whole."""
        if self._file.blocks:
            self.files[self._file_position] = packs.add(self._file.pieces)
            self._file = ChunkFile()

    def locations(self) -> Locations:
        """The location of every row's block."""
        blocks = np.array(self._blocks, np.uint32).reshape(-1, 5)
        rows = blocks[:, 4].astype(np.int64)
        result = empty(int(rows.sum()), rows_per_block=self._group.rows_per_block)
        for i, name in enumerate(("chunk", "offset", "length", "check")):
            result[name] = np.repeat(blocks[:, i], rows)
        if self._group.rows_per_block > 1:
            firsts = (np.cumsum(rows) - rows).astype(np.uint32)
            result["row"] = np.arange(len(result), dtype=np.uint32) - np.repeat(firsts, rows)
        return result

    def digests(self) -> np.ndarray:
        """The digest of every block, zeros of those that are all null."""
        return np.frombuffer(bytes(self._digests), "V16")

    def _no_rows(self) -> Columns:
        return {name: [] for name in self._names}

    def _take_advanced(self) -> None:
        if self._advanced > self._taken:
            taken = slice(self._taken, self._advanced)
            self._stretches.append({name: self._batch[name][taken] for name in self._names})
            self._taken = self._advanced

    def _taken_columns(self) -> Columns:
        """The columns of all rows that wait."""
        self._take_advanced()
        stretches, self._stretches = self._stretches, []
        if self._rows[self._names[0]]:
            stretches.append(self._rows)
            self._rows = self._no_rows()
        if len(stretches) == 1:
            return stretches[0]
        return {name: _joined([stretch[name] for stretch in stretches]) for name in self._names}

    def _keep(self, columns: Columns, block: StoredBlock | None, rows: int) -> None:
        """Have a block that is not stored wait until it is known whether its run is worth sharing."""
        self._run.append((columns, block, rows))
        self._run_bytes += 0 if block is None else block.length
        if not self._stored_last or self._run_bytes >= MIN_SHARED_BYTES or len(self._run) >= _MAX_WAITING:
            self.end_run()

    def _store(self, columns: Columns, rows: int, packs: PackWriter) -> None:
        pieces = encode(self._group, columns)
        size = sum(map(len, pieces))
        if size > MAX_BLOCK_BYTES:
            raise ConfigError(
                f"{self._where()}: group {self._group.name!r} takes {size:,} bytes, and a block has at most "
                f"{MAX_BLOCK_BYTES:,}; use smaller values, or more groups"
            )
        if not self._file.takes(size):
            self.close_file(packs)
        if not self._file.blocks:
            self._file_position = len(self.files)
            self.files.append(null_ref())
        offset = self._file.add(pieces, size)
        self._blocks.extend((self._file_position, offset, size, check_of(pieces), rows))


def _joined(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in part]
