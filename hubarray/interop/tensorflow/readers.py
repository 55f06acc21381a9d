"""TensorFlow datasets over readers, under Petastorm's names."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.readers.fields.cell_codecs import shape_fits
from hubarray.readers.fields.transform import as_declared
from hubarray.readers.fields.unischema import Unischema, UnischemaField

if TYPE_CHECKING:
    import tensorflow as tf


def make_petastorm_dataset(reader: Any) -> tf.data.Dataset:
    """A ``tf.data.Dataset`` of what a reader gives: named tuples of tensors, or dictionaries of them by offset.

    Times become int64 nanoseconds, decimals text. Each iteration of the dataset is what the reader has left; after its
    end it is reset.

    Parameters
    ----------
    reader : Reader
        Of rows, batches or n-grams.

    Returns
    -------
    tf.data.Dataset

    Raises
    ------
    ConfigError
        TensorFlow has no such dtype. While reading: a null, which tensors cannot be.
    MissingPackageError
    """
    tensorflow = needed("tensorflow", extra="tensorflow", why="make_petastorm_dataset")
    signature = _signature(tensorflow, reader)

    def generate() -> Iterator[Any]:
        if reader.last_row_consumed:
            reader.reset()
        for item in reader:
            yield _item(item, reader)

    return tensorflow.data.Dataset.from_generator(generate, output_signature=signature)


def tf_tensors(reader: Any, shuffling_queue_capacity: int = 0, min_after_dequeue: int = 0) -> Any:
    """Tensors of the next row, in a graph of ``tf.compat.v1``: each run of the session takes another one.

    Parameters
    ----------
    reader : Reader
    shuffling_queue_capacity : int
        Shuffle within about this number of rows, in the reader.
    min_after_dequeue : int
        Taken for Petastorm's sake.

    Raises
    ------
    ConfigError
        TensorFlow is in eager mode.
    """
    tensorflow = needed("tensorflow", extra="tensorflow", why="tf_tensors")
    if tensorflow.executing_eagerly():
        raise ConfigError(
            "tf_tensors makes tensors of a graph; in eager mode write: "
            "for row in hub.petastorm.make_petastorm_dataset(reader): ..."
        )
    if shuffling_queue_capacity:
        reader.set_group_rows(int(shuffling_queue_capacity))
    signature = _signature(tensorflow, reader)
    flat = tensorflow.nest.flatten(signature)

    def following() -> list[Any]:
        # At the end StopIteration, of which TensorFlow makes an OutOfRangeError.
        return list(tensorflow.nest.flatten(_item(next(reader), reader)))

    tensors = tensorflow.compat.v1.py_func(following, [], [spec.dtype for spec in flat])
    for tensor, spec in zip(tensors, flat, strict=True):
        tensor.set_shape(spec.shape)
    return tensorflow.nest.pack_sequence_as(signature, tensors)


def _signature(tf: Any, reader: Any) -> Any:
    if reader.ngram is None:
        return _row(tf, reader.schema, batched=reader.batched_output)
    tensors = {}
    for offset, fields in reader.ngram.fields.items():
        names = [field.name for field in fields if field.name in reader.schema.fields]
        tensors[offset] = _row(tf, reader.schema.create_schema_view(names), batched=False)
    return tensors


def _row(tf: Any, schema: Unischema, *, batched: bool) -> Any:
    return schema.row_type(*(_spec(tf, field, batched=batched) for field in schema.fields.values()))


def _spec(tf: Any, field: UnischemaField, *, batched: bool) -> Any:
    kind = np.dtype("O") if field.numpy_dtype is Decimal else np.dtype(field.numpy_dtype)
    if kind.kind == "M":
        dtype = tf.int64
    elif kind.kind == "O" and field.numpy_dtype is not Decimal:
        raise ConfigError(
            f"{field.name!r}: lists within lists have no tensors; leave it out, or make arrays of them in a transform"
        )
    elif kind.kind in "OUS":
        dtype = tf.string
    else:
        try:
            dtype = tf.as_dtype(kind)
        except TypeError:
            raise ConfigError(f"{field.name!r}: TensorFlow has no tensors of {kind}; leave it out") from None
    return tf.TensorSpec(((None,) if batched else ()) + tuple(field.shape), dtype)


def _item(item: Any, reader: Any) -> Any:
    if reader.batched_output:
        return type(item)(*(_value(name, value) for name, value in zip(item._fields, item, strict=True)))
    if isinstance(item, dict):
        return {offset: _values(row, reader.schema) for offset, row in item.items()}
    return _values(item, reader.schema)


def _values(row: Any, schema: Unischema) -> Any:
    values = (_declared(schema.fields[name], value) for name, value in zip(row._fields, row, strict=True))
    return type(row)(*map(_value, row._fields, values))


def _declared(field: UnischemaField, value: Any) -> Any:
    """Return a value in its field's dtype: TensorFlow would cut what a transform gives without a word."""
    is_array = isinstance(value, (np.ndarray, np.generic))
    if not is_array or field.numpy_dtype is Decimal or value.dtype.kind not in "biufc":
        return value
    same = value.dtype == np.dtype(field.numpy_dtype) and shape_fits(field.shape, value.shape)
    return value if same else as_declared(field, value)


def _value(name: str, value: Any) -> Any:
    if value is None:
        raise ConfigError(f"{name!r}: is null in a row, which tensors cannot be; filter or fill it, or leave it out")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind == "M":
            return value.astype("M8[ns]").astype(np.int64)
        if value.dtype.kind == "O":
            values = [_value(name, element) for element in value.tolist()]
            try:
                return np.asarray(values)
            except ValueError:
                raise ConfigError(
                    f"{name!r}: rows of different shapes make no tensor of a batch; use make_reader, or ragged='pad'"
                ) from None
    return value
