"""zarrs: zarr-python with the Rust codec pipeline."""

from __future__ import annotations

import os
from typing import Any

import zarr
import zarrs  # noqa: F401

from benchmarks.peers.zarr import Zarr
from benchmarks.places import Place


class Zarrs(Zarr):
    """zarr-python, whose chunks zarrs fetches and decodes."""

    name = "zarrs"

    def _store(self, place: Place) -> Any:
        os.environ["AWS_ACCESS_KEY_ID"] = str(place.options.get("key", ""))
        os.environ["AWS_SECRET_ACCESS_KEY"] = str(place.options.get("secret", ""))
        return super()._store(place)

    def _configured(self) -> Any:
        return zarr.config.set({"async.concurrency": 64, "codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})


PEER = Zarrs()
