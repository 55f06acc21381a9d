"""zarr-python on s3fs."""

from __future__ import annotations

from typing import Any

import zarr

from benchmarks.peers.zarr import Zarr
from benchmarks.places import Place


class ZarrFsspec(Zarr):
    """zarr-python on fsspec."""

    name = "zarr (fsspec)"
    kinds = ("s3",)

    def _store(self, place: Place) -> Any:
        return zarr.storage.FsspecStore.from_url(f"{place.url}/zarr", storage_options=dict(place.options))


PEER = ZarrFsspec()
