"""Attributes: kinds of values with what becomes of them, and the entry points that take them."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pint
import pyarrow as pa
import xarray as xr
import zarr

import hubarray as hub
from tests.conversions.entries import NAME, Entry
from tests.optional import Optional

torch = Optional("torch")


class Refused(str):
    """Words of the error that a value is refused with."""


class Color(enum.IntEnum):
    RED = 1


NONE_OF_THEM = Refused("is not one of them")
ATTRIBUTES: dict[str, tuple[Callable[[], Any], Any]] = {
    "text": (lambda: "é\n", "é\n"),
    "text that is NaN": (lambda: "NaN", "NaN"),
    "text of NumPy": (lambda: np.str_("a"), "a"),
    "half a surrogate pair": (lambda: "\ud800", Refused("surrogates not allowed")),
    "bools": (lambda: [True, False], [True, False]),
    "bool of NumPy": (lambda: np.bool_(True), True),
    "whole number": (lambda: -7, -7),
    "whole number beyond 64 bits": (lambda: 1 << 70, 1 << 70),
    "whole number of NumPy": (lambda: np.uint64(2**64 - 1), 2**64 - 1),
    "member of an enumeration": (lambda: Color.RED, 1),
    "float": (lambda: 0.1, 0.1),
    "float of NumPy": (lambda: np.float32(0.5), 0.5),
    "None": (lambda: None, None),
    "NaN": (lambda: math.nan, math.nan),
    "NaN of NumPy": (lambda: np.float32("nan"), math.nan),
    "infinities in a list": (lambda: [math.inf, -math.inf, 1], [math.inf, -math.inf, 1]),
    "NaN in mappings of lists": (lambda: {"a": [{"b": math.nan}]}, {"a": [{"b": math.nan}]}),
    "tuple": (lambda: (1, (2, "a")), [1, [2, "a"]]),
    "array of NumPy": (lambda: np.array([[1, 2], [3, 4]], "i2"), [[1, 2], [3, 4]]),
    "array of floats": (lambda: np.array([0.5, np.nan]), [0.5, math.nan]),
    "array of text": (lambda: np.array(["a", "b"]), ["a", "b"]),
    "array without elements": (lambda: np.zeros((0, 2)), []),
    "tensor": (lambda: torch.tensor([1, 2]), [1, 2]),
    "series": (lambda: pd.Series([1.5, 2.5]), [1.5, 2.5]),
    "masked array": (lambda: np.ma.masked_equal([1, 2], 2), Refused("masks are not stored")),
    "masked": (lambda: np.ma.masked, Refused("masks are not stored")),
    "unit": (lambda: pint.get_application_registry().Quantity(1.0, "m"), Refused("has a unit")),
    "time": (lambda: datetime.datetime(2026, 1, 1), Refused(r"a datetime is not one of them; .*isoformat")),
    "date": (lambda: datetime.date(2026, 1, 1), Refused(r"a date is not one of them; .*isoformat")),
    "a duration is not a time": (lambda: datetime.timedelta(1), NONE_OF_THEM),
    "time of NumPy": (lambda: np.datetime64("2026-01-01"), Refused(r"datetime64\[D\] is not one of them; .*str")),
    "time of pandas": (lambda: pd.Timestamp("2026-01-01"), NONE_OF_THEM),
    "NA of pandas": (lambda: pd.NA, NONE_OF_THEM),
    "array of Arrow": (lambda: pa.array([1]), [1]),
    "bytes": (lambda: b"a", NONE_OF_THEM),
    "bytes of NumPy": (lambda: np.array([b"a"]), NONE_OF_THEM),
    "complex number": (lambda: 1j, NONE_OF_THEM),
    "complex number of NumPy": (lambda: np.complex64(1j), NONE_OF_THEM),
    "decimal": (lambda: decimal.Decimal("0.1"), NONE_OF_THEM),
    "set": (lambda: {1}, NONE_OF_THEM),
    "object": (lambda: object(), NONE_OF_THEM),
    "objects in an array": (lambda: np.array([object()], object), NONE_OF_THEM),
    "function": (lambda: len, NONE_OF_THEM),
    "key that is a number": (lambda: {1: "a"}, {"1": "a"}),
    "two keys that would become one": (lambda: {1: "a", "1": "b"}, Refused("would both become '1'")),
    "key that is a tuple": (lambda: {(1, 2): "a"}, Refused("a key of a mapping is text, and not a tuple")),
    "key of the format's own": (lambda: {"hubarray:number": "NaN"}, Refused("is the format's own")),
    "lists in lists without end": (lambda: _deep(1000), Refused("nested more than")),
    "65 kB of text": (lambda: "a" * (65 << 10), Refused("bytes and 65536 are allowed")),
}


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


ATTRIBUTE_ENTRIES: dict[str, Entry] = {}


def entry(*covers: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(run: Callable[..., Any]) -> Callable[..., Any]:
        ATTRIBUTE_ENTRIES[run.__name__] = Entry(run, covers)
        return run

    return add


def _stored(root):
    return hub.load(NAME, root=root).attrs["a"]


def _dataset(root):
    return hub.dataset({"x": hub.ArraySpec(3)}, NAME, root=root)


@entry("array")
def of_an_array(root, value):
    hub.array(3, NAME, attrs={"a": value}, root=root)
    return _stored(root)


@entry("ArraySpec")
def of_a_spec(root, value):
    hub.dataset({"x": hub.ArraySpec(3, attrs={"a": value})}, NAME, root=root)
    return hub.load(NAME, root=root)["x"].attrs["a"]


@entry("dataset")
def of_a_dataset(root, value):
    hub.dataset({}, NAME, attrs={"a": value}, root=root)
    return _stored(root)


@entry("store")
def of_store(root, value):
    hub.store(np.zeros(3), NAME, attrs={"a": value}, root=root)
    return _stored(root)


@entry("import_")
def of_import(root, value):
    hub.import_(np.zeros(3), NAME, attrs={"a": value}, root=root)
    return _stored(root)


@entry("import_table")
def of_an_imported_table(root, value):
    hub.import_table(pd.DataFrame({"x": [1]}), NAME, attrs={"a": value}, root=root)
    return _stored(root)


def _table(root, **options):
    schema = hub.Schema({"x": hub.Field("i4", index=True)})
    with hub.table_writer(NAME, schema, root=root, **options) as w, w.partition("p") as p:
        p.append({"x": 1})
    return hub.load(NAME, root=root)


@entry("table_writer")
def of_a_table(root, value):
    return _table(root, attrs={"a": value}).attrs["a"]


@entry("write_index")
def of_an_index(root, value):
    index = _table(root).index()
    return hub.write_index(index, "lab/y:v1", attrs={"a": value}, root=root).attrs["a"]


@entry("Array.attrs")
def set_of_an_array(root, value):
    hub.array(3, NAME, root=root).attrs["a"] = value
    return _stored(root)


@entry("Array.attrs")
def updated_of_an_array(root, value):
    hub.array(3, NAME, root=root).attrs.update(a=value)
    return _stored(root)


@entry("DatasetArray.attrs")
def set_of_a_member(root, value):
    _dataset(root)["x"].attrs["a"] = value
    return hub.load(NAME, root=root)["x"].attrs["a"]


@entry("Dataset.attrs")
def set_of_a_dataset(root, value):
    _dataset(root).attrs["a"] = value
    return _stored(root)


@entry("Transaction.attrs")
def set_in_a_transaction(root, value):
    with hub.array(3, NAME, root=root).transaction() as t:
        t.attrs["a"] = value
    return _stored(root)


@entry("DatasetTransaction.attrs")
def set_in_a_transaction_of_a_dataset(root, value):
    with _dataset(root).transaction() as t:
        t.attrs["a"] = value
    return _stored(root)


@entry("Transaction.attrs")
def set_of_a_member_in_a_transaction(root, value):
    with _dataset(root).transaction() as t:
        t["x"].attrs["a"] = value
    return hub.load(NAME, root=root)["x"].attrs["a"]


# Attributes that come along with a source: what is not stored of them is left out, with a warning that names it.
SOURCES: dict[str, Callable[[Any], Any]] = {
    "labeled array": lambda value: xr.DataArray(np.zeros(3), attrs={"a": value}),
    "labeled dataset": lambda value: xr.Dataset({"x": ("i", np.zeros(3), {"a": value})}),
    "array of Zarr": lambda value: zarr.create_array({}, data=np.zeros(3), attributes={"a": value}),
    "dataset of h5py": lambda value: _of_hdf5(value),
}


def _of_hdf5(value):
    dataset = h5py.File.in_memory().create_dataset("x", data=np.zeros(3))
    dataset.attrs["a"] = value
    return dataset
