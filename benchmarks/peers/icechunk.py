"""Icechunk: a repository of its own, blosc(lz4), zarr-python with 64 requests at once."""

from __future__ import annotations

from typing import Any

import icechunk
import numpy as np
import zarr

from benchmarks.peers import Reader
from benchmarks.peers.zarr import CODEC
from benchmarks.places import Place


def storage(place: Place) -> Any:
    """Where the repository lives."""
    if place.kind == "local":
        return icechunk.local_filesystem_storage(str(place.folder / "icechunk"))
    return icechunk.s3_storage(
        bucket=place.bucket,
        prefix=f"{place.prefix}/icechunk",
        region="us-east-1",
        endpoint_url=place.endpoint,
        allow_http=True,
        access_key_id=str(place.options["key"]),
        secret_access_key=str(place.options["secret"]),
        force_path_style=True,
    )


class Icechunk:
    """Icechunk."""

    name = "icechunk"
    kinds = ("local", "s3")

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        session = icechunk.Repository.create(storage(place)).writable_session("main")
        with zarr.config.set({"async.concurrency": 64}):
            array = zarr.create_array(
                session.store, shape=data.shape, dtype=data.dtype, chunks=chunks, compressors=[CODEC], fill_value=0
            )
            array[...] = data
        session.commit("written")

    def open(self, place: Place) -> Reader:
        array = zarr.open_array(icechunk.Repository.open(storage(place)).readonly_session("main").store, mode="r")

        def read(key: Any) -> np.ndarray:
            with zarr.config.set({"async.concurrency": 64}):
                return np.asarray(array[key])

        return read


PEER = Icechunk()
