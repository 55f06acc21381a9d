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
from hubarray.redaction import named_type

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
    header: dict[str, Any] = {
        "slots": _described_column(loaded.slots, buffers, "slots"),
        "windows": None if loaded.windows is None else _described_column(loaded.windows, buffers, "windows"),
        "counts": [loaded.skipped, loaded.cache_hits, loaded.cache_misses],
        "columns": {name: _described_column(column, buffers, name) for name, column in loaded.columns.items()},
    }
    names = [str(i) for i in range(len(buffers.arrays))]
    return pa.RecordBatch.from_arrays(buffers.arrays, names), header


def _described_column(column: Column, buffers: _Buffers, name: str) -> dict[str, Any]:
    if isinstance(column, np.ndarray) and not column.dtype.hasobject:
        return {"kind": "array", "dtype": column.dtype.str, "shape": list(column.shape), "data": buffers.add(column)}
    values = list(column)
    missing = np.asarray([value is None for value in values], bool)
    present = [value for value in values if value is not None]
    described: dict[str, Any] = {"rows": len(values), "missing": buffers.add(missing) if missing.any() else None}
    if not present:
        return described | {"kind": "nulls"}
    kinds = {type(value) for value in present}
    if len(kinds) == 1 and (kind := next(iter(kinds))) in _PLAIN:
        texts = [value if kind is bytes else str(value).encode() for value in present]
        return described | {"kind": _PLAIN[kind], **_cells(texts, buffers)}
    if all(isinstance(value, np.generic) for value in present):
        dtypes = {value.dtype for value in present}
        if len(dtypes) == 1 and not np.result_type(*dtypes).hasobject:
            return described | {"kind": "scalars", "values": _described_column(np.asarray(present), buffers, name)}
    if all(isinstance(value, np.ndarray) and not value.dtype.hasobject for value in present):
        cells = [np.ascontiguousarray(value).tobytes() for value in present]
        shapes = [list(value.shape) for value in present]
        told_dtypes = [value.dtype.str for value in present]
        alike = told_dtypes[0] if len(set(told_dtypes)) == 1 else told_dtypes
        return described | {"kind": "arrays", "dtype": alike, "shapes": shapes, **_cells(cells, buffers)}
    if all(
        isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1) for value in present
    ):
        inside = [element for value in present for element in value]
        listed = all(isinstance(value, (list, tuple)) for value in present)
        lengths = np.asarray([len(value) for value in present], np.int64)
        return described | {
            "kind": "lists" if listed else "object arrays",
            "lengths": buffers.add(lengths),
            "inside": _described_column(inside, buffers, name),
        }
    if all(isinstance(value, (str, bytes, int, float, bool, np.generic)) for value in present):
        # Of several types: one after the other.
        return described | {"kind": "mixed", "each": [_described_column([value], buffers, name) for value in present]}
    odd = max(present, key=lambda value: not isinstance(value, (np.ndarray, np.generic, str, bytes)))
    raise ConfigError(
        f"field {name!r}: {named_type(odd)} cannot leave a worker process; give arrays, numbers, text or bytes, "
        "or use reader_pool_type='thread'"
    )


def _cells(cells: Sequence[bytes], buffers: _Buffers) -> dict[str, Any]:
    ends = np.cumsum([len(cell) for cell in cells], dtype=np.int64)
    return {"ends": buffers.add(ends), "data": buffers.add(np.frombuffer(b"".join(cells), np.uint8))}


def decoded(batch: pa.RecordBatch, header: dict[str, Any]) -> Loaded:
    """The run that a worker sent."""

    def bytes_of(number: int) -> memoryview:
        column = batch.column(number)
        data = column.buffers()[2]
        return memoryview(data) if data is not None else memoryview(b"")

    windows = None if header["windows"] is None else _column(header["windows"], bytes_of)
    columns = {name: _column(column, bytes_of) for name, column in header["columns"].items()}
    return Loaded(np.asarray(_column(header["slots"], bytes_of)), columns,
                  None if windows is None else np.asarray(windows), *header["counts"])  # fmt: skip


def _array(described: dict[str, Any], bytes_of: Any) -> np.ndarray:
    dtype = np.dtype(described["dtype"])
    if not dtype.itemsize:
        return np.zeros(described["shape"], dtype)
    return np.frombuffer(bytes_of(described["data"]), dtype).reshape(described["shape"])


def _column(described: dict[str, Any], bytes_of: Any) -> Column:
    kind = described["kind"]
    if kind == "array":
        return _array(described, bytes_of)
    present = _present_values(described, kind, bytes_of)
    if described["missing"] is None:
        return present
    missing = np.frombuffer(bytes_of(described["missing"]), bool)
    following = iter(present)
    return [None if gone else next(following) for gone in missing.tolist()]


def _present_values(described: dict[str, Any], kind: str, bytes_of: Any) -> list[Any]:
    if kind == "nulls":
        return [None] * described["rows"] if described["missing"] is None else []
    if kind == "scalars":
        return list(_array(described["values"], bytes_of))
    if kind == "mixed":
        return [_column(cell, bytes_of)[0] for cell in described["each"]]
    if kind in ("lists", "object arrays"):
        inside, values, at = _column(described["inside"], bytes_of), [], 0
        for length in np.frombuffer(bytes_of(described["lengths"]), np.int64).tolist():
            part = list(inside[at : at + length])
            values.append(part if kind == "lists" else as_objects(part))
            at += length
        return values
    ends = np.frombuffer(bytes_of(described["ends"]), np.int64).tolist()
    data = bytes_of(described["data"])
    cells = [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    if kind == "arrays":
        dtypes = described["dtype"] if isinstance(described["dtype"], list) else [described["dtype"]] * len(cells)
        return [
            np.frombuffer(cell, dtype).reshape(shape) if len(cell) else np.zeros(shape, dtype)
            for cell, dtype, shape in zip(cells, dtypes, described["shapes"], strict=True)
        ]
    plain = [bytes(cell) for cell in cells]
    if kind == "bytes":
        return plain
    texts = [text.decode() for text in plain]
    make: Any = {
        "text": str, "decimal": Decimal, "bool": lambda text: text == "True", "int": int, "float": float,
    }[kind]  # fmt: skip
    return [make(text) for text in texts]


def written(loaded: Loaded, file: Any) -> None:
    """Write a run into a file, as an Arrow IPC file.

    Raises
    ------
    ConfigError
    """
    batch, header = encoded(loaded)
    schema = batch.schema.with_metadata({_DESCRIBED: json.dumps(header).encode()})
    with pa.ipc.new_file(file, schema) as out:
        out.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def read_back(buffer: Any) -> Loaded:
    """The run in an Arrow IPC file; its arrays are views of the buffer."""
    with pa.ipc.open_file(pa.py_buffer(buffer)) as file:
        batch = file.get_batch(0)
        return decoded(batch, json.loads(file.schema.metadata[_DESCRIBED]))
