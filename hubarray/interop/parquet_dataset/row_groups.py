"""Reading a row group, whose size is bounded before its values are spread out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.errors import SourceError
from hubarray.tables.index_piece import is_text, plain_bytes

# Of one row group, decoded.
MAX_GROUP_BYTES = 4 << 30
_MOST_NUMBER_BYTES = 4
_MOST_DICTIONARY_BYTES = 2 << 20


def _may_swell(file: pq.ParquetFile, group: int, name: str) -> bool:
    """Whether a column of text may be far longer than it is stored: mostly numbers of values that stand once."""
    about = file.metadata.row_group(group)
    for i in range(about.num_columns):
        column = about.column(i)
        if column.path_in_schema != name:
            continue
        size, rows = column.total_uncompressed_size, about.num_rows
        has_dictionary = any("DICTIONARY" in one for one in column.encodings)
        return (
            has_dictionary
            and size < _MOST_NUMBER_BYTES * rows + _MOST_DICTIONARY_BYTES
            and (rows * size > MAX_GROUP_BYTES)
        )
    return False


def read(file: pq.ParquetFile, group: int, columns: Sequence[str], again: Callable[[], Any], where: str) -> pa.Table:
    """Some columns of a row group.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    group : int
    columns : sequence of str
    again : callable
        Opens the file anew.
    where : str

    Raises
    ------
    SourceError
        It has more than 4 GiB.
    """
    texts = [one.name for one in file.schema_arrow if one.name in columns and is_text(one.type)]
    texts = [name for name in texts if _may_swell(file, group, name)]
    if not texts:
        return file.read_row_group(group, columns=list(columns), use_threads=False)
    # As dictionaries, as a page may repeat a long value by a few bits a row.
    with again() as opened:
        careful = pq.ParquetFile(opened, metadata=file.metadata, read_dictionary=texts)
        table = careful.read_row_group(group, columns=list(columns), use_threads=False)
    size = sum(plain_bytes(table[name]) for name in table.column_names)
    if size > MAX_GROUP_BYTES:
        raise SourceError(
            f"{where}: has {size:,} bytes, and {MAX_GROUP_BYTES:,} are read at once; write smaller row groups"
        )
    kinds = [file.schema_arrow.field(name).type for name in table.column_names]
    plain = [column.cast(kind) for column, kind in zip(table.columns, kinds, strict=True)]
    return pa.table(plain, names=table.column_names)
