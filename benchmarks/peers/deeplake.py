"""Deep Lake 4: one tensor column of fixed shape, which it stores as it is in memory."""

from __future__ import annotations

import os
from typing import Any

import deeplake
import numpy as np

from benchmarks.peers import Reader
from benchmarks.places import Place

BATCH_ROWS = 256


class DeepLake:
    """Deep Lake. Rows only: an index along the first axis."""

    name = "deeplake (raw)"
    kinds = ("local", "s3")

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        dataset = deeplake.create(_url(place), **_access(place))
        dataset.add_column("x", deeplake.types.Array(str(data.dtype), shape=list(data.shape[1:])))
        for first in range(0, len(data), BATCH_ROWS):
            dataset.append({"x": data[first : first + BATCH_ROWS]})
        dataset.commit()
        if place.kind == "local":
            os.sync()

    def open(self, place: Place) -> Reader:
        dataset = deeplake.open_read_only(_url(place), **_access(place))

        def read(key: Any) -> np.ndarray:
            column = dataset["x"]
            return np.asarray(column[:] if key is Ellipsis else column[key])

        return read


def _url(place: Place) -> str:
    return f"{place.url}/deeplake" if place.kind == "s3" else str(place.folder / "deeplake")


def _access(place: Place) -> dict[str, Any]:
    if place.kind != "s3":
        return {}
    keys = {"aws_access_key_id": place.options["key"], "aws_secret_access_key": place.options["secret"]}
    return {"creds": keys | {"endpoint_url": place.endpoint, "aws_region": "us-east-1"}}


PEER = DeepLake()
