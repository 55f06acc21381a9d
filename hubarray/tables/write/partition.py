"""Writing one partition: rows are checked, cut into blocks and chunk files, and become a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF
from hubarray.errors import ConfigError, HubError
from hubarray.redaction import named_type, shown_text
from hubarray.tables.format.field_values import checked, checked_column
from hubarray.tables.format.index_piece import Key, column_of, index_schema
from hubarray.tables.format.part import PartFile
from hubarray.tables.format.schema import Schema
from hubarray.tables.write.dedup import KnownBlocks, StoredBlocks
from hubarray.tables.write.group_writer import GroupWriter

# With what is on its way up, a partition writer holds about 128 MiB.
OPEN_BYTES = 72 << 20
UPLOADING_BYTES = 48 << 20
_INDEX_ROWS = 1 << 16


class PartitionWriter:
    """Takes the rows of one partition in order. After a failure other than a refused row it takes no more.

    Holds the open chunk file of each group, in all up to 72 MiB, beyond which the fullest is closed; a row whose
    blocks are larger comes on top. What is cut where depends on the rows alone.

    Parameters
    ----------
    schema : Schema
    key : str or int
    packs : PackWriter
        Takes the chunk files.
    known : KnownBlocks, optional
        Blocks that need not be stored again.
    """

    def __init__(
        self,
        schema: Schema,
        key: Key,
        packs: PackWriter,
        known: KnownBlocks | None = None,
        *,
        decodes_images: bool = False,
    ) -> None:
        self._decodes_images = decodes_images
        self._schema, self._key, self._packs = schema, key, packs
        self._names = frozenset(schema)
        known = known or KnownBlocks()
        self._groups = {
            name: GroupWriter(group, self._where, known.groups.get(name, StoredBlocks()), known.files)
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
        self._close_fullest()
        self._torn = False

    def extend(self, columns: Mapping[str, Any], rows: int) -> None:
        """Add rows, column by column, cut as if they came one by one; of the rows before a refused one all are there.

        Raises
        ------
        ConfigError
            As :meth:`append`.
        """
        self._require_whole()
        values, refused = self._checked_columns(columns, rows)
        self._torn = True
        count = rows if refused is None else refused[0]
        for name, column in self._index.items():
            column.extend(values[name][:count])
        if self._index and len(next(iter(self._index.values()))) >= _INDEX_ROWS:
            self._end_batch()
        groups = list(self._groups.values())
        for group in groups:
            group.begin_batch(values)
        done = 0
        while done < count:
            step = min(count - done, min((group.missing_rows for group in groups), default=count))
            done += step
            self.rows += step
            for group in groups:
                group.advance(step)
                if group.is_complete:
                    group.end_block(self._packs)
            self._close_fullest()
        for group in groups:
            group.end_batch()
        self._torn = False
        if refused is not None:
            raise ConfigError(f"{self._where()}{refused[1]}")

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
            block_locations = group.locations()
            if first:
                block_locations["chunk"][block_locations["length"] > 0] += first
            locations[name], digests[name] = block_locations, group.digests()
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
            raise ConfigError(f"{self._where()}: is {named_type(row)}, but a mapping of fields is expected")
        for name in row.keys() - self._names:
            raise ConfigError(f"{self._where()}: has {shown_text(str(name))[:80]!r}, which the schema does not know")
        values = {}
        for name in self._schema:
            field = self._schema[name]
            if name not in row and not field.nullable:
                raise ConfigError(f"{self._where()}: has no {name!r}, and the field is not nullable")
            try:
                value = checked(field, row.get(name), decodes_images=self._decodes_images)
                # Until it is uploaded, the caller may change the array that was given.
                values[name] = value.copy() if isinstance(value, np.ndarray) else value
            except ConfigError as error:
                raise ConfigError(f"{self._where()}, field {name!r}: {error}") from None
        return values

    def _checked_columns(self, columns: Mapping[str, Any], rows: int) -> tuple[dict[str, Any], tuple[int, str] | None]:
        """The columns of all fields, and the first row that is refused, with the reason."""
        for name in columns.keys() - self._names:
            raise ConfigError(f"{self._where()}: has {shown_text(str(name))[:80]!r}, which the schema does not know")
        values: dict[str, Any] = {}
        refused: tuple[int, str] | None = None
        for name in self._schema:
            field = self._schema[name]
            if name not in columns and not field.nullable:
                raise ConfigError(f"{self._where()}: has no {name!r}, and the field is not nullable")
            values[name], error = checked_column(
                field, columns.get(name, [None] * rows), decodes_images=self._decodes_images
            )
            if error is not None and (refused is None or len(values[name]) < refused[0]):
                refused = len(values[name]), f", field {name!r}: {error}"
        return values, refused

    def _close_fullest(self) -> None:
        while sum(group.open_bytes for group in self._groups.values()) > OPEN_BYTES:
            max(self._groups.values(), key=lambda group: group.open_bytes).close_file(self._packs)

    def _end_batch(self) -> None:
        for name, column in self._index.items():
            self._batches[name].append(column_of(self._schema[name], column))
            self._index[name] = []

    def _where(self) -> str:
        return f"partition {shown_text(str(self._key))[:80]!r}, row {self.rows}"
