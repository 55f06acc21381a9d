"""Loaded runs as Arrow, for the way from a worker process: buffers that are not copied on arrival. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.errors import ConfigError
from hubarray.readers.fields.arrow_fields import as_objects
from hubarray.readers.fields.source import Column
from hubarray.readers.pipeline.pipeline import Loaded

_DESCRIBED = b"hubarray.loaded"
_PLAIN = {str: "text", bytes: "bytes", Decimal: "decimal", bool: "bool", int: "int", float: "float"}


class _Buffers:
    """Buffers in a row, each named by its number."""

    def __init__(self) -> None:
        self.arrays: list[pa.Array] = []

    def add(self, values: np.ndarray) -> int:
        """Keep the bytes of an array."""
        flat = np.ascontiguousarray(values)
        data = pa.py_buffer(flat.reshape(-1).view(np.uint8)) if flat.size and flat.dtype.itemsize else pa.py_buffer(b"")
        offsets = pa.py_buffer(np.asarray([0, data.size], np.int64))
        self.arrays.append(pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, data]))
        return len(self.arrays) - 1


def encoded(loaded: Loaded) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """A run as one row of binary columns, and what they are.

    Raises
    ------
    ConfigError
        A value is of a type that has no place in Arrow.
    """
    buffers = _Buffers()
    told: dict[str, Any] = {
        "slots": _told(loaded.slots, buffers, "slots"),
        "windows": None if loaded.windows is None else _told(loaded.windows, buffers, "windows"),
        "counts": [loaded.skipped, loaded.cache_hits, loaded.cache_misses],
        "columns": {name: _told(column, buffers, name) for name, column in loaded.columns.items()},
    }
    names = [str(i) for i in range(len(buffers.arrays))]
    return pa.RecordBatch.from_arrays(buffers.arrays, names), told


def _told(column: Column, buffers: _Buffers, name: str) -> dict[str, Any]:
    if isinstance(column, np.ndarray) and not column.dtype.hasobject:
        return {"kind": "array", "dtype": column.dtype.str, "shape": list(column.shape), "data": buffers.add(column)}
    values = list(column)
    missing = np.asarray([value is None for value in values], bool)
    there = [value for value in values if value is not None]
    told: dict[str, Any] = {"rows": len(values), "missing": buffers.add(missing) if missing.any() else None}
    if not there:
        return told | {"kind": "nulls"}
    kinds = {type(value) for value in there}
    if len(kinds) == 1 and (kind := next(iter(kinds))) in _PLAIN:
        texts = [value if kind is bytes else str(value).encode() for value in there]
        return told | {"kind": _PLAIN[kind], **_cells(texts, buffers)}
    if all(isinstance(value, np.generic) for value in there):
        dtypes = {value.dtype for value in there}
        if len(dtypes) == 1 and not np.result_type(*dtypes).hasobject:
            return told | {"kind": "scalars", "values": _told(np.asarray(there), buffers, name)}
    if all(isinstance(value, np.ndarray) and not value.dtype.hasobject for value in there):
        cells = [np.ascontiguousarray(value).tobytes() for value in there]
        shapes = [list(value.shape) for value in there]
        told_dtypes = [value.dtype.str for value in there]
        alike = told_dtypes[0] if len(set(told_dtypes)) == 1 else told_dtypes
        return told | {"kind": "arrays", "dtype": alike, "shapes": shapes, **_cells(cells, buffers)}
    if all(isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1) for value in there):
        inside = [one for value in there for one in value]
        listed = all(isinstance(value, (list, tuple)) for value in there)
        lengths = np.asarray([len(value) for value in there], np.int64)
        return told | {
            "kind": "lists" if listed else "object arrays",
            "lengths": buffers.add(lengths),
            "inside": _told(inside, buffers, name),
        }
    if all(isinstance(value, (str, bytes, int, float, bool, np.generic)) for value in there):
        # Of several types: one after the other.
        return told | {"kind": "mixed", "each": [_told([value], buffers, name) for value in there]}
    odd = max(there, key=lambda value: not isinstance(value, (np.ndarray, np.generic, str, bytes)))
    raise ConfigError(
        f"field {name!r}: a {type(odd).__name__} cannot leave a worker process; give arrays, numbers, text or bytes, "
        "or use reader_pool_type='thread'"
    )


def _cells(cells: Sequence[bytes], buffers: _Buffers) -> dict[str, Any]:
    ends = np.cumsum([len(one) for one in cells], dtype=np.int64)
    return {"ends": buffers.add(ends), "data": buffers.add(np.frombuffer(b"".join(cells), np.uint8))}


def decoded(batch: pa.RecordBatch, told: dict[str, Any]) -> Loaded:
    """The run that a worker sent."""

    def bytes_of(number: int) -> memoryview:
        column = batch.column(number)
        data = column.buffers()[2]
        return memoryview(data) if data is not None else memoryview(b"")

    windows = None if told["windows"] is None else _column(told["windows"], bytes_of)
    columns = {name: _column(one, bytes_of) for name, one in told["columns"].items()}
    return Loaded(np.asarray(_column(told["slots"], bytes_of)), columns,
                  None if windows is None else np.asarray(windows), *told["counts"])  # fmt: skip


def _array(told: dict[str, Any], bytes_of: Any) -> np.ndarray:
    dtype = np.dtype(told["dtype"])
    if not dtype.itemsize:
        return np.zeros(told["shape"], dtype)
    return np.frombuffer(bytes_of(told["data"]), dtype).reshape(told["shape"])


def _column(told: dict[str, Any], bytes_of: Any) -> Column:
    kind = told["kind"]
    if kind == "array":
        return _array(told, bytes_of)
    there = _there(told, kind, bytes_of)
    if told["missing"] is None:
        return there
    missing = np.frombuffer(bytes_of(told["missing"]), bool)
    following = iter(there)
    return [None if gone else next(following) for gone in missing.tolist()]


def _there(told: dict[str, Any], kind: str, bytes_of: Any) -> list[Any]:
    if kind == "nulls":
        return [None] * told["rows"] if told["missing"] is None else []
    if kind == "scalars":
        return list(_array(told["values"], bytes_of))
    if kind == "mixed":
        return [_column(one, bytes_of)[0] for one in told["each"]]
    if kind in ("lists", "object arrays"):
        inside, found, at = _column(told["inside"], bytes_of), [], 0
        for length in np.frombuffer(bytes_of(told["lengths"]), np.int64).tolist():
            part = list(inside[at : at + length])
            found.append(part if kind == "lists" else as_objects(part))
            at += length
        return found
    ends = np.frombuffer(bytes_of(told["ends"]), np.int64).tolist()
    data = bytes_of(told["data"])
    cells = [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    if kind == "arrays":
        dtypes = told["dtype"] if isinstance(told["dtype"], list) else [told["dtype"]] * len(cells)
        return [
            np.frombuffer(cell, dtype).reshape(shape) if len(cell) else np.zeros(shape, dtype)
            for cell, dtype, shape in zip(cells, dtypes, told["shapes"], strict=True)
        ]
    plain = [bytes(cell) for cell in cells]
    if kind == "bytes":
        return plain
    texts = [one.decode() for one in plain]
    make: Any = {
        "text": str, "decimal": Decimal, "bool": lambda one: one == "True", "int": int, "float": float,
    }[kind]  # fmt: skip
    return [make(one) for one in texts]


def written(loaded: Loaded, file: Any) -> None:
    """Write a run into a file, as an Arrow IPC file.

    Raises
    ------
    ConfigError
    """
    batch, told = encoded(loaded)
    schema = batch.schema.with_metadata({_DESCRIBED: json.dumps(told).encode()})
    with pa.ipc.new_file(file, schema) as out:
        out.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def read_back(buffer: Any) -> Loaded:
    """The run in an Arrow IPC file; its arrays are views of the buffer."""
    with pa.ipc.open_file(pa.py_buffer(buffer)) as file:
        batch = file.get_batch(0)
        return decoded(batch, json.loads(file.schema.metadata[_DESCRIBED]))
