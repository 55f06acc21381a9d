"""From a name, a handle, a path or a URL to a source of rows, which a predicate may reduce."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hubarray import process
from hubarray.api import catalog
from hubarray.api.tables import row_loader
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError
from hubarray.readers.array_columns import is_column
from hubarray.readers.array_source import VALUE, ArraySource, dataset_source
from hubarray.readers.fields.predicates import AsFrames, PredicateBase, is_elementwise
from hubarray.readers.fields.source import Source
from hubarray.readers.reader_options import Cache
from hubarray.readers.table_source import TableSource
from hubarray.redaction import named_type
from hubarray.tables.handle import TableHandle
from hubarray.tables.read.loader import RowLoaderHandle


def open_source(
    source: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    skip_errors: bool = False,
    root: Any = None,
    fields: Any = None,
    max_decoded_bytes: int | None = None,
) -> Source:
    """The source that something means.

    Parameters
    ----------
    source
        A name of an array or table, a handle on one, ``a.decoded`` of a packed array, an index, a mapping of names to
        arrays, or paths and URLs of Parquet.
    fields : list of str, optional
        The fields to read, which decide the samples if the dataset does not.

    Raises
    ------
    ConfigError, NotFoundError, SourceError
    """
    place = None if cache is None else (cache.folder, cache.budget_bytes)
    if hasattr(source, "unit_bounds") and hasattr(source, "identity"):
        cached: Source = source if place is None or not hasattr(source, "cached") else source.cached(place)
        return cached
    if is_column(source):
        return ArraySource({VALUE: source})
    if isinstance(source, DatasetHandle):
        return dataset_source(source, _beside(source, fields))
    if isinstance(source, TableHandle):
        return TableSource(source.loader())
    if isinstance(source, RowLoaderHandle):
        return TableSource(source)
    if isinstance(source, Mapping):
        if not source:
            raise ConfigError("a mapping of arrays names at least one")
        arrays = {name: _array(array, name, root) for name, array in source.items()}
        return ArraySource(arrays)
    if isinstance(source, (list, tuple)) and not source:
        raise ConfigError("give at least one path or URL of Parquet files")
    if isinstance(source, str) and is_name(source):
        loaded = catalog.load(source, root=root)
        return open_source(loaded, fields=fields)
    if isinstance(source, (str, os.PathLike)) or (
        isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, os.PathLike)) for path in source)
    ):
        with process.importing:
            from hubarray.readers.parquet.source import parquet_source
        return parquet_source(
            source, storage_options=storage_options, cache=place, skip_errors=skip_errors,
            max_decoded_bytes=max_decoded_bytes,
        )  # fmt: skip
    if not hasattr(source, "columns") and not hasattr(source, "__arrow_c_stream__"):
        raise ConfigError(
            f"a reader's source is a name, an array, a dataset, a table, a mapping of arrays, an index of a table, or "
            f"paths of Parquet files, and not {named_type(source)}"
        )
    return TableSource(row_loader(source, root))


def _beside(dataset: DatasetHandle, fields: Any) -> list[str] | None:
    """The arrays that begin with the dimension of one that is named, where a dataset has several such dimensions."""
    try:
        dataset.samples()
        return None
    except ConfigError:
        named = [field for field in fields if field in dataset] if isinstance(fields, (list, tuple)) else []
        if not named or not dataset[named[0]].ndim or dataset[named[0]].dims[0] is None:
            raise
    first = dataset[named[0]].dims[0]
    return [name for name, array in dataset.arrays.items() if array.ndim and array.dims[0] == first]


def is_name(text: str) -> bool:
    """Whether text names what is under a root, and no file.

    Examples
    --------
    >>> [is_name(one) for one in ["lab/photos:v1", "s3://bucket/train", "/data/train.parquet"]]
    [True, False, False]
    """
    if "://" in text:
        return ":" in text.rpartition("/")[2]
    if text.startswith((".", "/", "~", "\\")):
        return False
    return ":" in text or "@" in text or not os.path.exists(text)


def _array(array: Any, name: str, root: Any) -> Any:
    handle = catalog.load(array, root=root) if isinstance(array, str) else array
    if not is_column(handle):
        raise ConfigError(f"{name!r} is {named_type(handle)}, and arrays are read together; a table has columns")
    return handle


def narrowed(source: Source, predicate: PredicateBase, *, batched: bool = False) -> tuple[Source, PredicateBase | None]:
    """A source of fewer rows, and what of the predicate only rows can decide.

    Parameters
    ----------
    source : Source
        Asked by its method ``narrowed``, if it has one.
    predicate : PredicateBase
    batched : bool
        Of batches: one that looks at a whole batch is asked with DataFrames here too.

    Returns
    -------
    (source, predicate or None)
    """
    decide = getattr(source, "narrowed", None)
    if decide is None:
        return source, predicate
    asked = AsFrames(predicate) if batched and not is_elementwise(predicate) else predicate
    decided, rest = decide(asked)
    return decided, predicate if rest is not None else None
