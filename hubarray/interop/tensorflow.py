"""TensorFlow datasets over arrays: batches are fetched in parallel, and the next ones while one is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.arrays.array import Array
from hubarray.errors import ConfigError
from hubarray.interop.missing import needed
from hubarray.readers.columns import check_options, columns, row_bytes
from hubarray.readers.groups import RowReader, in_groups
from hubarray.readers.sampler import plan

if TYPE_CHECKING:
    import tensorflow as tf


def to_tensorflow(
    array: Array,
    others: Sequence[Array] = (),
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    drop_last: bool = False,
    buffer_bytes: int = 64 << 20,
    rows: Any = None,
    rank: int = 0,
    world_size: int = 1,
) -> tf.data.Dataset:
    """See :meth:`hubarray.Array.to_tensorflow`."""
    tf = needed("tensorflow", extra="tensorflow", why="to_tensorflow")
    check_options(batch_size, seed, buffer_bytes)
    arrays = columns([array, *others], rows)
    lead = () if batch_size is None else (batch_size if drop_last else None,)
    specs = tuple(tf.TensorSpec((*lead, *one.shape[1:]), _dtype(tf, one)) for one in arrays)
    size = batch_size or 1
    if world_size > 1 and seed is None:
        raise ConfigError("world_size= needs a seed=, the same for every rank: they deal out one order")
    whole = len(arrays[0])
    try:
        order = plan(
            whole, row_bytes(arrays), arrays[0].chunks[0],
            batch_rows=size, shuffle=shuffle, seed=_chosen(seed), buffer_bytes=buffer_bytes,
            rank=rank, world_size=world_size,
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None
    passes = iter(range(1 << 62))
    reader = RowReader(arrays, shuffle and whole * row_bytes(arrays) <= buffer_bytes)

    def generate() -> Iterator[Any]:
        # TensorFlow calls this for each pass, so repeat() shuffles anew.
        for group in in_groups(reader, order.groups(next(passes) if shuffle else 0)):
            parts = group.parts()
            for first in range(0, len(group.rows), size):
                if drop_last and len(group.rows) - first < size:
                    continue
                key = first if batch_size is None else slice(first, first + size)
                sample = tuple(part[key] for part in parts)
                yield sample[0] if len(sample) == 1 else sample

    signature = specs[0] if len(specs) == 1 else specs
    count = order.rank_rows // size if drop_last else -(-order.rank_rows // size)
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(tf.data.AUTOTUNE)


def _chosen(seed: int | None) -> int:
    return int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed


def _dtype(tf: Any, array: Array) -> Any:
    try:
        return tf.as_dtype(array.dtype)
    except TypeError:
        raise ConfigError(
            f"{array.name}:{array.version}: TensorFlow has no tensors of dtype {array.dtype}; store it as another one, "
            "or convert a generator of your own"
        ) from None
