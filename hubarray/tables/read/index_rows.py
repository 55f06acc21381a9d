"""Row numbers out of whatever an index became: a DataFrame, an Arrow table, or what speaks Arrow's C stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.errors import ConfigError
from hubarray.redaction import named_type
from hubarray.tables.format import casts
from hubarray.tables.format.index_column import ServiceColumn, is_service, parse
from hubarray.tables.format.schema import PARTITION
from hubarray.tables.read.row_fetch import Numbers

MISSING = -1


def row_numbers(index: Any) -> tuple[list[tuple[ServiceColumn, Numbers]], list[str]]:
    """The row numbers of each table, -1 where it has no row, and the names of the other columns.

    Raises
    ------
    ConfigError
    """
    if hasattr(index, "columns") and hasattr(index, "iloc"):
        names = list(index.columns)
        _require_distinct([name for name in names if is_service(name)])
        columns = {name: index[name] for name in names if is_service(name)}
    elif casts.is_frame(index) and not hasattr(index, "iloc"):
        table = _arrow(index)
        names = table.column_names
        _require_distinct(names)
        columns = {name: table[name] for name in names if is_service(name)}
    else:
        raise ConfigError(
            f"an index is a DataFrame or an Arrow table of hub.read_index, not {named_type(index)}; a RowLoader "
            "is used as it is"
        )
    if not columns:
        raise ConfigError(
            "the index has no column 'hubarray:...', which identifies its rows; keep it, or read the index again"
        )
    parsed = [(parse(name), _numbers(name, column)) for name, column in columns.items()]
    return parsed, [str(name) for name in names if not is_service(name)]


def _arrow(index: Any) -> pa.Table:
    return pa.Table.from_batches([index]) if isinstance(index, pa.RecordBatch) else pa.table(index)


def _require_distinct(names: list[Any]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the index has two columns {str(name)[:80]!r}; drop one")


def _numbers(name: str, column: Any) -> Numbers:
    try:
        return _as_numbers(name, column)
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        raise _no_row_number(name) from None


def _no_row_number(name: str) -> ConfigError:
    return ConfigError(f"the column {name[:80]!r} has a value that is not a row number; read the index again")


def _as_numbers(name: str, column: Any) -> Numbers:
    if isinstance(column, pa.ChunkedArray):
        missing = np.asarray(column.is_null())
        plain = column.fill_null(MISSING).to_numpy() if missing.any() else column.to_numpy()
    else:
        missing = column.isna().to_numpy()
        plain = (column.where(~missing, MISSING) if missing.any() else column).to_numpy()
    if plain.dtype == object:
        plain = np.array([MISSING if gone else value for value, gone in zip(plain, missing, strict=True)])
    if plain.ndim != 1 or plain.dtype.kind not in "iuf":
        raise _no_row_number(name)
    if plain.dtype.kind == "f":
        missing = missing | np.isnan(plain)
        plain = np.where(missing, MISSING, plain)
    present = plain[~missing]
    if len(present) and not (0 <= present.min() <= present.max() < 1 << 53 and (present == np.floor(present)).all()):
        raise _no_row_number(name)
    return np.ascontiguousarray(plain, np.int64)


def partition_column(index: Any) -> list[Any]:
    """The partition of each row of an index.

    Raises
    ------
    ConfigError
        It has no such column, or nulls in it.
    """
    if hasattr(index, "columns") and hasattr(index, "iloc"):
        if PARTITION not in index.columns:
            raise ConfigError(f"the index has no column {PARTITION!r}, by which its rows are cut; keep it, or add one")
        _require_distinct([name for name in index.columns if name == PARTITION])
        column = index[PARTITION]
        if column.isna().any():
            raise ConfigError(f"the column {PARTITION!r} has nulls; filter them out, or fill them")
        return list(column)
    table = _arrow(index)
    if PARTITION not in table.column_names or table[PARTITION].null_count:
        raise ConfigError(f"the index has no column {PARTITION!r}, or nulls in it, by which its rows are cut")
    return list(table[PARTITION].to_pylist())
