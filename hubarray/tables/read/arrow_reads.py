"""Columns of rows as an Arrow table: text without Python strings, numbers in the memory that they were read into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hubarray.errors import ConfigError
from hubarray.tables.format.schema import Field

if TYPE_CHECKING:
    import pyarrow as pa

# If chunks of a column are smaller on average, they are combined: each of them makes later operations slower.
_MIN_CHUNK_BYTES = 64 << 10


class TextPieces:
    """Collects the values of a column of text or bytes from blocks, in any order and on any thread."""

    def __init__(self) -> None:
        self._pieces: list[tuple[npt.NDArray[np.intp], pa.Array]] = []

    def put(
        self, positions: npt.NDArray[np.intp], texts: pa.Array, rows: npt.NDArray[np.intp], run: slice | None
    ) -> None:
        """Set positions, in any order, to some values of a block: to those of a run, or to ``rows``."""
        import pyarrow as pa

        if run is not None and 2 * (run.stop - run.start) >= len(texts):
            part = texts.slice(run.start, run.stop - run.start)
        else:
            # A copy: a slice would keep the whole block in memory.
            part = texts.take(pa.array(rows))
        self._pieces.append((positions, part))

    def column(self, kind: pa.DataType, count: int) -> pa.ChunkedArray:
        """Return the column; positions that were not set are null."""
        import pyarrow as pa

        pieces = sorted(self._pieces, key=lambda piece: int(piece[0][0]))
        column = pa.chunked_array([part for _, part in pieces], kind)
        order = np.concatenate([positions for positions, _ in pieces]) if pieces else np.empty(0, np.intp)
        if not np.array_equal(order, np.arange(count)):
            sources = np.full(count, -1)
            sources[order] = np.arange(len(order))
            column = column.take(pa.array(sources, mask=sources < 0))
        if column.num_chunks > 1 and column.nbytes < _MIN_CHUNK_BYTES * column.num_chunks:
            column = pa.table([column], ["text"]).combine_chunks().column(0)
        return column


def arrow_schema(fields: Mapping[str, Field]) -> pa.Schema:
    """Return the schema of some columns.

    Raises
    ------
    ConfigError
        Arrow has no such dtype.
    """
    import pyarrow as pa

    from hubarray.tables.format.arrow_columns import arrow_type

    return pa.schema([pa.field(name, arrow_type(name, field)) for name, field in fields.items()])


def arrow_table(fields: Mapping[str, Field], schema: pa.Schema, columns: Mapping[str, Any], count: int) -> pa.Table:
    """Return columns of values, or of :class:`TextPieces`, as a table.

    Raises
    ------
    ConfigError
        Arrow cannot hold a value.
    """
    import pyarrow as pa

    from hubarray.tables.format.arrow_columns import arrow_column

    arrays = []
    for kind in schema:
        values = columns[kind.name]
        try:
            if isinstance(values, TextPieces):
                arrays.append(values.column(kind.type, count))
            else:
                arrays.append(arrow_column(kind.type, fields[kind.name], values))
        except (pa.ArrowException, OverflowError) as error:
            raise ConfigError(
                f"column {kind.name!r}: Arrow cannot hold a value as {kind.type}: {str(error)[:200]}; read it as NumPy "
                "or read fewer rows"
            ) from None
    return pa.Table.from_arrays(arrays, schema=schema)
