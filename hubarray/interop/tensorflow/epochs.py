"""TensorFlow datasets of epochs: batches are fetched in parallel, and the next ones while one is used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.readers.array_source import ArraySource, dataset_source
from hubarray.readers.fields.source import Column
from hubarray.readers.fields.unischema import UnischemaField
from hubarray.readers.order.sampler import Segment
from hubarray.readers.pipeline.batching import column_part, empty_array, join_column, steps
from hubarray.readers.pipeline.groups import fed
from hubarray.readers.streams import keep_if_small, loop_of, require_known
from hubarray.readers.table_source import TableSource
from hubarray.tables.read.loader import RowLoaderHandle

if TYPE_CHECKING:
    import tensorflow as tf

# Single elements are looked up so many at a time.
_BLOCK_ROWS = 256


def to_tensorflow(
    array: ArrayHandle, others: Sequence[ArrayHandle] = (), *, rows: Any = None, **options: Any
) -> tf.data.Dataset:
    """See :meth:`hubarray.Array.to_tensorflow`."""
    source = ArraySource({str(i): column for i, column in enumerate([array, *others])}, rows)
    return _dataset(source, list(source.schema.fields), "tuple" if others else "value", **options)


def dataset_to_tensorflow(
    dataset: DatasetHandle, columns: str | Sequence[str] | None = None, *, rows: Any = None, **options: Any
) -> tf.data.Dataset:
    """See :meth:`hubarray.Dataset.to_tensorflow`."""
    source = dataset_source(dataset, columns, rows)
    return _dataset(source, list(source.schema.fields), "dict", **options)


def table_to_tensorflow(
    loader: RowLoaderHandle, columns: str | Sequence[str] | None = None, *, value: str | None = None, **options: Any
) -> tf.data.Dataset:
    """See :meth:`hubarray.RowLoader.to_tensorflow`; with ``value`` an element is the value of that column alone."""
    names = loader.check_columns(columns) if value is None else [value]
    return _dataset(TableSource(loader, names), names, "dict" if value is None else "value", **options)


def _dataset(
    source: Any,
    names: Sequence[str],
    form: str,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    drop_last: bool = False,
    rank: int = 0,
    world_size: int = 1,
    buffer_bytes: int | None = None,
    **options: Any,
) -> tf.data.Dataset:
    require_known("to_tensorflow", options)
    tf = needed("tensorflow", extra="tensorflow", why="to_tensorflow")
    if world_size > 1 and seed is None:
        raise ConfigError("world_size= needs a seed=, the same for every rank: they deal out one order")
    loop = loop_of(
        source, batch_size=batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last, rank=rank,
        world_size=world_size, buffer_bytes=buffer_bytes, **options,
    )  # fmt: skip
    keep_if_small(source, loop, shuffle=shuffle, buffer_bytes=buffer_bytes)
    fields = [source.schema.fields[name] for name in names]
    batched = batch_size is not None or options.get("global_batch_size") is not None
    length = loop.step_rows // world_size if loop.state.mode != "exact" else None
    specs = [_spec(tf, source.where, field, length, batched=batched) for field in fields]

    def formed(values: Sequence[Any]) -> Any:
        if form == "dict":
            return dict(zip(names, values, strict=True))
        return values[0] if form == "value" else tuple(values)

    def part(run: Sequence[Column], first: int, count: int) -> list[Column]:
        return [column_part(column, first, count) for column in run]

    def join(length: int, parts: Sequence[tuple[list[Column], Segment]]) -> list[Column]:
        each = zip(*(parts_of_column for parts_of_column, _ in parts), strict=True)
        segments = [segment for _, segment in parts]
        return [
            join_column(length, list(zip(column_parts, segments, strict=True)), empty_array) for column_parts in each
        ]

    def read(rows: np.ndarray) -> list[Column]:
        columns_read = source.read(rows, names)
        return [columns_read[name] for name in names]

    passes = iter(range(1 << 62))

    def generate() -> Iterator[Any]:
        # TensorFlow calls this for each pass, so repeat() shuffles anew.
        loop.begin(next(passes) if shuffle else 0)
        order = loop.order()
        share = loop.share(order)
        runs = fed(order, share, read, list)
        for _, block in steps(share, runs, part, join, at_once=1 if batched else _BLOCK_ROWS):
            if batched:
                yield formed([_batch(tf, spec, column) for spec, column in zip(specs, block, strict=True)])
            else:
                yield from map(formed, zip(*block, strict=True))

    dataset = tf.data.Dataset.from_generator(generate, output_signature=formed(specs))
    count = loop.steps_of_an_epoch().steps
    return dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(tf.data.AUTOTUNE)


def _spec(tf: Any, where: str, field: UnischemaField, length: int | None, *, batched: bool) -> Any:
    try:
        dtype = tf.as_dtype(np.dtype(field.numpy_dtype)) if field.numpy_dtype not in (np.str_, np.bytes_) else tf.string
    except TypeError:
        raise ConfigError(
            f"{where}: TensorFlow has no tensors of dtype {np.dtype(field.numpy_dtype)}, which {field.name!r} has; "
            "leave it out, store it as another one, or convert a generator of your own"
        ) from None
    if field.nullable:
        raise ConfigError(
            f"{where}: {field.name!r} may be null, which tensors cannot; filter or fill the rows, or choose columns "
            "without it"
        )
    if not batched:
        return tf.TensorSpec(field.shape, dtype)
    if None in field.shape:
        rank = _ragged_rank(field.shape)
        return tf.RaggedTensorSpec((length, *[None] * rank, *field.shape[rank:]), dtype, ragged_rank=rank)
    return tf.TensorSpec((length, *field.shape), dtype)


def _ragged_rank(shape: Sequence[int | None]) -> int:
    return max(i for i, size in enumerate(shape) if size is None) + 1


def _batch(tf: Any, spec: Any, column: Column) -> Any:
    if not isinstance(spec, tf.RaggedTensorSpec):
        # A list would be taken for a structure.
        return tf.constant(column, spec.dtype) if isinstance(column, list) else column
    rank = spec.ragged_rank
    made = np.concatenate([part.reshape(math.prod(part.shape[:rank]), *part.shape[rank:]) for part in column])
    for k in reversed(range(rank)):
        lengths = np.concatenate([np.full(math.prod(part.shape[:k]), part.shape[k], np.int64) for part in column])
        made = tf.RaggedTensor.from_row_lengths(made, lengths)
    return made
