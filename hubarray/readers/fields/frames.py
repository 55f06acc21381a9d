"""Columns as pandas' DataFrames, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.arrow_fields import as_objects
from hubarray.readers.fields.source import Column, row_values


def frame_of(columns: Mapping[str, Column]) -> Any:
    """Columns as a DataFrame; a value that is an array is one object of it.

    Nulls of floats are NaN, of times NaT; integers and bools that have some get pandas' nullable dtypes, which keep
    them exact.
    """
    import pandas as pd

    return pd.DataFrame({name: _series(column) for name, column in columns.items()})


def _series(column: Column) -> Any:
    import pandas as pd

    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else as_objects(row_values(column))
    present = [value for value in column if value is not None]
    if len(present) < len(column) and present and all(isinstance(value, np.generic) for value in present):
        dtype = np.result_type(*{value.dtype for value in present})
        if dtype.kind in "iub":
            # pandas calls its own "Int64" and "UInt8".
            return pd.array(column, dtype="boolean" if dtype.kind == "b" else str(dtype).title().replace("Ui", "UI"))
        return null_filled(column, dtype)
    return as_objects(column)


def null_filled(column: Column, dtype: np.dtype) -> np.ndarray:
    """Scalars of one dtype as an array, whose nulls are NaN or NaT; as objects, where the dtype has no such value."""
    if dtype.kind in "mM":
        return np.asarray([np.array("NaT", dtype) if value is None else value for value in column], dtype)
    if dtype.kind == "f":
        return np.asarray([np.nan if value is None else value for value in column], dtype)
    return as_objects(list(column))


def column_of_series(series: Any) -> Column:
    """The values of a pandas column: an array of NumPy's dtypes, or a list, with None where a nullable one has none."""
    if series.dtype == object:
        values: list[Any] = series.tolist()
        return values
    if isinstance(series.dtype, np.dtype):
        numbers: np.ndarray = series.to_numpy()
        return numbers
    if type(series.dtype).__name__ in ("PeriodDtype", "IntervalDtype"):
        raise ConfigError(
            f"a transform gave {series.name!r} as {series.dtype}, which NumPy does not have: give times, numbers or "
            "text"
        )
    if series.isna().any():
        return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]
    plain = getattr(series.dtype, "numpy_dtype", None)
    return series.to_numpy() if plain is None or plain.hasobject else series.to_numpy(dtype=plain)


def mask_of_answer(answer: Any) -> np.ndarray:
    """The rows of a DataFrame that a predicate included: none where it compared a null, of which nothing is known."""
    if getattr(answer, "dtype", None) == "boolean":
        answer = answer.fillna(False)
    return np.asarray(answer)
