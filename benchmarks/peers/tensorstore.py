"""TensorStore: the zarr3 driver, blosc(lz4); concurrency as its defaults have it, one thread a core and 64 requests."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorstore as ts

from benchmarks.peers import Reader
from benchmarks.places import Place


def kvstore(place: Place) -> dict[str, Any]:
    """Where TensorStore reads and writes."""
    if place.kind == "local":
        return {"driver": "file", "path": f"{place.folder}/tensorstore/"}
    os.environ["AWS_ACCESS_KEY_ID"] = str(place.options["key"])
    os.environ["AWS_SECRET_ACCESS_KEY"] = str(place.options["secret"])
    return {
        "driver": "s3",
        "bucket": place.bucket,
        "path": f"{place.prefix}/tensorstore/",
        "endpoint": place.endpoint,
        "aws_region": "us-east-1",
        "aws_credentials": {"type": "environment"},
    }


class TensorStore:
    """Without a cache pool: every read goes to the store, as ours does where caches are off."""

    name = "tensorstore"
    kinds = ("local", "s3")

    def __init__(self, cache_bytes: int = 0) -> None:
        self._cache_bytes = cache_bytes

    def _spec(self, place: Place) -> dict[str, Any]:
        context = {
            "cache_pool": {"total_bytes_limit": self._cache_bytes},
            "s3_request_concurrency": {"limit": 64},
        }
        return {"driver": "zarr3", "kvstore": kvstore(place), "context": context, "recheck_cached_data": False}

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        codecs = [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}},
        ]
        array = ts.open(
            self._spec(place),
            create=True,
            dtype=str(data.dtype),
            shape=data.shape,
            chunk_layout=ts.ChunkLayout(chunk_shape=chunks),
            codec=ts.CodecSpec({"driver": "zarr3", "codecs": codecs}),
        ).result()
        array.write(data).result()

    def open(self, place: Place) -> Reader:
        array = ts.open(self._spec(place), open=True, read=True).result()
        return lambda key: array[key].read().result()


PEER = TensorStore()
