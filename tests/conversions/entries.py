"""Entry points: each writes a value somewhere, and gives back what is stored there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import dask.bag
import numpy as np
import pandas as pd

import hubarray as hub
from tests.conversions.kinds import DIM, Kind, each, element

NAME = "lab/x:v1"


@dataclass(frozen=True)
class Entry:
    """An entry point.

    Attributes
    ----------
    run : callable
        Writes a value of a kind under a root, and returns the elements that are stored: all, or the last.
    covers : tuple of str
        The public names that take the value.
    """

    run: Callable[[hub.Root, Kind, Any], Any]
    covers: tuple[str, ...]


ENTRIES: dict[str, Entry] = {}


def entry(*covers: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(run: Callable[..., Any]) -> Callable[..., Any]:
        ENTRIES[run.__name__] = Entry(run, covers)
        return run

    return add


def _array(root, kind, rows=3):
    return hub.array(rows, NAME, kind.dtype, chunks=2, dims=(DIM,), root=root)


def _dataset(root, kind, rows=3):
    return hub.dataset({"x": hub.ArraySpec(rows, kind.dtype, dims=(DIM,))}, NAME, root=root)


def _stored(root):
    result = hub.load(NAME, root=root)
    return (result["x"] if result.kind == "dataset" else result)[...]


# Into an array that is there.


@entry("Array.__setitem__", "DatasetArray.__setitem__")
def assignment(root, kind, value):
    _array(root, kind)[...] = value
    return _stored(root)


@entry("Array.__setitem__")
def assignment_to_numbers(root, kind, value):
    _array(root, kind)[[0, 1, 2]] = value
    return _stored(root)


@entry("Array.__setitem__")
def assignment_to_a_mask(root, kind, value):
    _array(root, kind)[np.array([True, True, True])] = value
    return _stored(root)


@entry("Array.__setitem__")
def assignment_of_one(root, kind, value):
    _array(root, kind)[2] = element(value)
    return _stored(root)[2:]


@entry("Array.append")
def append(root, kind, value):
    _array(root, kind, 0).append(value)
    return _stored(root)


@entry("Transaction.__setitem__")
def transaction(root, kind, value):
    with _array(root, kind).transaction() as t:
        t[...] = value
    return _stored(root)


@entry("Transaction.append")
def append_in_a_transaction(root, kind, value):
    with _array(root, kind, 0).transaction() as t:
        t.append(value)
    return _stored(root)


@entry("ArrayPartWriter.__setitem__", "Transaction.add", "ArrayWorker.__setitem__")
def worker(root, kind, value):
    with _array(root, kind).transaction() as t:
        with pickle.loads(pickle.dumps(t.worker())) as w:
            w[...] = value
        t.add(w.part)
    return _stored(root)


@entry("array")
def fill_value(root, kind, value):
    hub.array(3, NAME, kind.dtype, fill_value=element(value), root=root)
    return _stored(root)[2:]


@entry("ArraySpec")
def fill_value_of_a_spec(root, kind, value):
    hub.dataset({"x": hub.ArraySpec(3, kind.dtype, fill_value=element(value))}, NAME, root=root)
    return _stored(root)[2:]


@entry("DatasetArray.__setitem__")
def member(root, kind, value):
    _dataset(root, kind)["x"][...] = value
    return _stored(root)


@entry("DatasetArray.append")
def append_to_a_member(root, kind, value):
    _dataset(root, kind, 0)["x"].append(value)
    return _stored(root)


@entry("Dataset.append")
def append_to_a_dataset(root, kind, value):
    _dataset(root, kind, 0).append({"x": value})
    return _stored(root)


@entry("DatasetTransaction.append")
def append_to_a_dataset_in_a_transaction(root, kind, value):
    with _dataset(root, kind, 0).transaction() as t:
        t.append({"x": value})
    return _stored(root)


@entry("Transaction.__setitem__")
def member_in_a_transaction(root, kind, value):
    with _dataset(root, kind).transaction() as t:
        t["x"][...] = value
    return _stored(root)


@entry("ArrayPartWriter.__setitem__", "DatasetTransaction.add")
def worker_of_a_dataset(root, kind, value):
    with _dataset(root, kind).transaction() as t:
        with t["x"].worker() as w:
            w[...] = value
        t["x"].add(w.part)
    return _stored(root)


@entry("Array.__setitem__")
def field_of_a_structure(root, kind, value):
    dtype = np.dtype([("own", kind.dtype), ("other", "i1")])
    hub.array(3, NAME, dtype, dims=(DIM,), root=root)["own"] = value
    return _stored(root)["own"]


# An array is made of it.


@entry("store")
def store(root, kind, value):
    hub.store(value, NAME, root=root)
    return _stored(root)


@entry("import_")
def import_(root, kind, value):
    hub.import_(value, NAME, root=root)
    return _stored(root)


@entry("dataset")
def new_dataset(root, kind, value):
    hub.dataset({"x": value}, NAME, root=root)
    return _stored(root)


@entry("Dataset.__setitem__")
def new_member(root, kind, value):
    hub.dataset({}, NAME, root=root)["x"] = value
    return _stored(root)


@entry("DatasetTransaction.__setitem__")
def new_member_in_a_transaction(root, kind, value):
    with hub.dataset({}, NAME, root=root).transaction() as t:
        t["x"] = value
    return _stored(root)


# Rows of a table.


def _table(root, kind, write, *, nullable=False):
    schema = hub.Schema({"x": hub.Field(kind.dtype, nullable=nullable)})
    with hub.table_writer(NAME, schema, root=root) as w, w.partition("p") as p:
        write(p)
    return _rows(root)


def _rows(root):
    loader = hub.load(NAME, root=root).loader()
    return loader.get_columns([*range(len(loader))], ["x"])["x"]


@entry("TablePartition.append")
def row(root, kind, value):
    return _table(root, kind, lambda p: p.append({"x": element(value)}))


@entry("TablePartition.append")
def row_that_may_be_null(root, kind, value):
    return _table(root, kind, lambda p: p.append({"x": element(value)}), nullable=True)


@entry("TablePartition.extend")
def rows(root, kind, value):
    return _table(root, kind, lambda p: p.extend({"x": item} for item in each(value)))


@entry("TablePartition.extend")
def columns(root, kind, value):
    return _table(root, kind, lambda p: p.extend({"x": value}))


@entry("TablePartition.extend")
def columns_that_may_be_null(root, kind, value):
    return _table(root, kind, lambda p: p.extend({"x": value}), nullable=True)


def _frame(value):
    objects = np.empty(3, object)
    for i, item in enumerate(each(value)):
        objects[i] = item
    return pd.DataFrame({"x": pd.Series(objects, dtype=object)})


@entry("TablePartition.extend")
def frame(root, kind, value):
    return _table(root, kind, lambda p: p.extend(_frame(value)))


@entry("TableWorker.partition", "TableWriter.add")
def worker_of_a_table(root, kind, value):
    with hub.table_writer(NAME, hub.Schema({"x": hub.Field(kind.dtype)}), root=root) as w:
        with pickle.loads(pickle.dumps(w.worker())).partition("p") as p:
            p.extend({"x": value})
        w.add(p.part)
    return _rows(root)


@entry("import_table")
def imported_table(root, kind, value):
    hub.import_table(_frame(value), NAME, hub.Schema({"x": hub.Field(kind.dtype)}), root=root)
    return _rows(root)


# Cells of a dataset of Petastorm.


def _field(kind, shape, codec):
    return hub.petastorm.UnischemaField("x", np.dtype(kind.dtype), shape, codec, False)


def _written(root, field, value):
    url = f"{root.path}/petastorm"
    with hub.parquet_writer(url, hub.petastorm.Unischema("rows", [field])) as w:
        w.write({"x": value})
    return _read(url)


def _read(url):
    with hub.make_reader(url, reader_pool_type="dummy") as reader:
        return [item.x for item in reader]


@entry("parquet_writer", "ScalarCodec.encode")
def cell(root, kind, value):
    return _written(root, _field(kind, (), hub.petastorm.ScalarCodec()), element(value))


@entry("parquet_writer")
def cell_of_a_list(root, kind, value):
    return _written(root, _field(kind, (None,), None), value)[0]


@entry("NdarrayCodec.encode")
def cell_of_an_array(root, kind, value):
    codec, field = hub.petastorm.NdarrayCodec(), _field(kind, (None,), hub.petastorm.NdarrayCodec())
    return codec.decode(field, codec.encode(field, value))


@entry("CompressedNdarrayCodec.encode", "CompressedImageCodec.encode")
def cell_of_a_compressed_array(root, kind, value):
    codec, field = hub.petastorm.CompressedNdarrayCodec(), _field(kind, (None,), hub.petastorm.CompressedNdarrayCodec())
    return codec.decode(field, codec.encode(field, value))


@entry("write_dask")
def cell_written_by_dask(root, kind, value):
    url = f"{root.path}/petastorm"
    schema = hub.petastorm.Unischema("rows", [_field(kind, (None,), None)])
    with dask.config.set(scheduler="synchronous"):
        hub.write_dask(dask.bag.from_sequence([{"x": value}], npartitions=1), url, schema)
    return _read(url)[0]


@entry("dict_to_spark_row")
def row_of_spark(root, kind, value):
    schema = hub.petastorm.Unischema("rows", [_field(kind, (None,), None)])
    result = hub.petastorm.dict_to_spark_row(schema, {"x": value}).x
    return result if kind.dtype is str else np.asarray(result, kind.dtype)
