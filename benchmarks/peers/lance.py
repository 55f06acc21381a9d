"""Lance: one row a sample, a fixed-size list of bytes; read with ``take``."""

from __future__ import annotations

import math
import os
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.peers import Reader
from benchmarks.places import Place

BATCH_ROWS = 256


class Lance:
    """Lance datasets. Rows only: an index along the first axis."""

    name = "lance"
    kinds = ("local", "s3")

    def _where(self, place: Place) -> dict[str, Any]:
        if place.kind == "local":
            return {"uri": str(place.folder / "lance")}
        options = {
            "aws_access_key_id": str(place.options["key"]),
            "aws_secret_access_key": str(place.options["secret"]),
            "aws_endpoint": place.endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        return {"uri": f"{place.url}/lance", "storage_options": options}

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        width = math.prod(data.shape[1:]) * data.itemsize
        schema = pa.schema([("x", pa.list_(pa.uint8(), width))])

        def batches() -> Any:
            for first in range(0, len(data), BATCH_ROWS):
                rows = data[first : first + BATCH_ROWS].reshape(-1).view("u1")
                yield pa.record_batch([pa.FixedSizeListArray.from_arrays(pa.array(rows), width)], schema=schema)

        where = self._where(place)
        options = {key: value for key, value in where.items() if key != "uri"}
        lance.write_dataset(batches(), where["uri"], schema=schema, mode="create", **options)
        if place.kind == "local":
            os.sync()
        (self._shapes)[place.url] = (data.shape, data.dtype)

    _shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {}  # noqa: RUF012

    def open(self, place: Place) -> Reader:
        data = lance.dataset(**self._where(place))
        shape, dtype = self._shapes[place.url]

        def read(key: Any) -> np.ndarray:
            rows = np.arange(shape[0])[key if not isinstance(key, tuple) else key[0]]
            if rows.ndim == 0:
                table = data.take([int(rows)])
            elif len(rows) == shape[0]:
                table = data.to_table()
            else:
                table = data.take(rows.tolist())
            values = table["x"].combine_chunks().values.to_numpy(zero_copy_only=False).view(dtype)
            return values.reshape((*rows.shape, *shape[1:]))

        return read


PEER = Lance()
