"""zarr-python on obstore (S3) or its LocalStore, blosc(lz4); 64 requests at once, as its performance guide advises."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

from benchmarks.peers import Reader
from benchmarks.places import Place

CODEC = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")


def obstore_of(place: Place) -> Any:
    """An obstore store of a place."""
    from obstore.store import S3Store

    return S3Store(
        place.bucket,
        prefix=f"{place.prefix}/zarr",
        endpoint=place.endpoint,
        access_key_id=place.options["key"],
        secret_access_key=place.options["secret"],
        region="us-east-1",
        client_options={"allow_http": True},
    )


class Zarr:
    """zarr-python."""

    name = "zarr"
    kinds: tuple[str, ...] = ("local", "s3")

    def _store(self, place: Place) -> Any:
        if place.kind == "local":
            return zarr.storage.LocalStore(place.folder / "zarr")
        return zarr.storage.ObjectStore(obstore_of(place))

    def _configured(self) -> Any:
        pipeline = "zarr.core.codec_pipeline.BatchedCodecPipeline"
        return zarr.config.set({"async.concurrency": 64, "codec_pipeline.path": pipeline})

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        with self._configured():
            array = zarr.create_array(
                self._store(place), shape=data.shape, dtype=data.dtype, chunks=chunks, compressors=[CODEC], fill_value=0
            )
            array[...] = data

    def open(self, place: Place) -> Reader:
        with self._configured():
            array = zarr.open_array(self._store(place), mode="r")

        def read(key: Any) -> np.ndarray:
            with self._configured():
                return np.asarray(array[key])

        return read


PEER = Zarr()
