"""Writing one partition: rows are checked, cut into blocks and chunk files, and become a part."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Refs, null_ref
from hubarray.errors import ConfigError, HubError
from hubarray.shown import shown_text
from hubarray.tables.block import MAX_BLOCK_BYTES, check_of, digest, encode
from hubarray.tables.chunk_file import ChunkFile
from hubarray.tables.index_piece import Key, column_of, index_schema
from hubarray.tables.locations import LOCATION, Locations
from hubarray.tables.part import PartFile
from hubarray.tables.references import MIN_SHARED_BYTES, NO_BLOCKS, KnownBlocks, StoredBlock
from hubarray.tables.schema import Group, Schema
from hubarray.tables.values import checked

OPEN_BYTES = 128 << 20
_INDEX_ROWS = 1 << 16
# Blocks that wait, where all are null.
_MOST_WAITING = 1024


class PartitionWriter:
    """Takes the rows of one partition in order. After a failure other than a refused row it takes no more.

    Holds the open chunk file of each group, in all up to 128 MiB, beyond which the fullest is closed; a row whose
    blocks are larger comes on top. What is cut where depends on the rows alone.

    Parameters
    ----------
    schema : Schema
    key : str or int
    packs : PackWriter
        Takes the chunk files.
    known : KnownBlocks, optional
        What need not be stored again.
    """

    def __init__(self, schema: Schema, key: Key, packs: PackWriter, known: KnownBlocks | None = None) -> None:
        self._schema, self._key, self._packs = schema, key, packs
        self._names = frozenset(schema)
        known = known or KnownBlocks()
        self._groups = {
            name: _GroupWriter(group, self._where, known.groups.get(name, NO_BLOCKS), known.files)
            for name, group in schema.groups.items()
        }
        self._index: dict[str, list[Any]] = {name: [] for name in schema.index}
        self._batches: dict[str, list[pa.Array]] = {name: [] for name in schema.index}
        self.rows = 0
        self._torn = False

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; one that is refused changes nothing.

        Raises
        ------
        ConfigError
            A field is missing, unknown or of a wrong type; partition, row and field are named.
        """
        self._require_whole()
        values = self._checked(row)
        self._torn = True
        for name, column in self._index.items():
            column.append(values[name])
        if self._index and self.rows % _INDEX_ROWS == _INDEX_ROWS - 1:
            self._end_batch()
        for group in self._groups.values():
            group.append(values)
            if group.is_complete:
                group.end_block(self._packs)
        self.rows += 1
        while sum(group.open_bytes for group in self._groups.values()) > OPEN_BYTES:
            max(self._groups.values(), key=lambda group: group.open_bytes).close_file(self._packs)
        self._torn = False

    def close(self) -> PartFile:
        """End the partition.

        Raises
        ------
        HubError
            A row failed on its way into a block.
        """
        self._require_whole()
        self._torn = True
        self._end_batch()
        first, files = 0, []
        locations, digests = {}, {}
        for name, group in self._groups.items():
            group.end_block(self._packs)
            group.end_run()
            group.close_file(self._packs)
            found = group.locations()
            found["chunk"][found["length"] > 0] += first
            locations[name], digests[name] = found, group.digests()
            files += group.files
            first += len(group.files)
        index = pa.table(
            [pa.chunked_array(parts) for parts in self._batches.values()], schema=index_schema(self._schema)
        )
        refs = np.array(files, REF) if files else np.zeros(0, REF)
        return PartFile(self._key, self.rows, refs, index, locations, digests)

    def _require_whole(self) -> None:
        if self._torn:
            raise HubError(
                f"partition {shown_text(str(self._key))[:80]!r}: is closed, or row {self.rows} failed on its way into "
                "a block; write the partition again"
            )

    def _checked(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise ConfigError(f"{self._where()}: is a {type(row).__name__}, and a mapping of fields is wanted")
        for name in row.keys() - self._names:
            raise ConfigError(f"{self._where()}: has {shown_text(str(name))[:80]!r}, which the schema does not know")
        values = {}
        for name in self._schema:
            field = self._schema[name]
            if name not in row and not field.nullable:
                raise ConfigError(f"{self._where()}: has no {name!r}, and the field is not nullable")
            try:
                value = checked(field, row.get(name))
                # Until it is uploaded, the caller may change the array that was given.
                values[name] = value.copy() if isinstance(value, np.ndarray) else value
            except ConfigError as error:
                raise ConfigError(f"{self._where()}, field {name!r}: {error}") from None
        return values

    def _end_batch(self) -> None:
        for name, column in self._index.items():
            self._batches[name].append(column_of(self._schema[name], column))
            self._index[name] = []

    def _where(self) -> str:
        return f"partition {shown_text(str(self._key))[:80]!r}, row {self.rows}"


class _GroupWriter:
    """Blocks and chunk files of one column group.

    A block that is known is not encoded; that of a short run of such between others waits, and is stored again.
    """

    def __init__(self, group: Group, where: Any, known: Mapping[bytes, StoredBlock], known_files: list[Refs]) -> None:
        self._group, self._where = group, where
        self._known, self._known_files = known, known_files
        self._columns: dict[str, list[Any]] = {name: [] for name, _ in group.fields}
        self._waiting = 0
        self._file = ChunkFile()
        self._file_position = 0
        self.files: list[Refs] = []
        self._shared: dict[int, int] = {}
        # Of each block: chunk file, offset, length, check, rows.
        self._blocks = array("Q")
        self._digests: list[bytes] = []
        # Known blocks after one that was stored, with their columns, and nulls among them.
        self._run: list[tuple[dict[str, list[Any]], StoredBlock | None, int]] = []
        self._run_bytes = 0
        self._stored_last = False

    @property
    def is_complete(self) -> bool:
        """Whether the rows that wait make a block."""
        return self._waiting >= self._group.rows_per_block

    @property
    def open_bytes(self) -> int:
        """Bytes of the chunk file that is being filled."""
        return self._file.size

    def append(self, values: Mapping[str, Any]) -> None:
        """Have a row wait for its block."""
        for name, column in self._columns.items():
            column.append(values[name])
        self._waiting += 1

    def end_block(self, packs: PackWriter) -> None:
        """End the block of the rows that wait, if any do."""
        rows, self._waiting = self._waiting, 0
        columns, self._columns = self._columns, {name: [] for name in self._columns}
        if not rows:
            return
        if all(value is None for column in columns.values() for value in column):
            self._digests.append(bytes(16))
            self._keep(columns, None, rows)
            return
        self._digests.append(digest(self._group, columns))
        known = self._known.get(self._digests[-1])
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
        blocks = np.frombuffer(self._blocks, "u8").reshape(-1, 5) if self._blocks else np.zeros((0, 5), "u8")
        rows = blocks[:, 4].astype(np.int64)
        found = np.zeros(int(rows.sum()), LOCATION)
        for i, name in enumerate(("chunk", "offset", "length", "check")):
            found[name] = np.repeat(blocks[:, i], rows)
        begins = np.repeat(np.cumsum(rows) - rows, rows)
        found["row"] = np.arange(len(found)) - begins
        return found

    def digests(self) -> np.ndarray:
        """The digest of every block, zeros of those that are all null."""
        return np.frombuffer(b"".join(self._digests), "V16")

    def _keep(self, columns: dict[str, list[Any]], block: StoredBlock | None, rows: int) -> None:
        """Have a block that is not stored wait until it is known whether its run is worth sharing."""
        self._run.append((columns, block, rows))
        self._run_bytes += 0 if block is None else block.length
        if not self._stored_last or self._run_bytes >= MIN_SHARED_BYTES or len(self._run) >= _MOST_WAITING:
            self.end_run()

    def _store(self, columns: dict[str, list[Any]], rows: int, packs: PackWriter) -> None:
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
