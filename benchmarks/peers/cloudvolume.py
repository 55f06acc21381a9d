"""cloud-volume: a precomputed volume; samples lie along z, raw encoding with gzip off, parallel by its threads."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
from cloudvolume import CloudVolume

from benchmarks.peers import Reader
from benchmarks.places import Place


class Cloudvolume:
    """cloud-volume, for samples of shape (y, x, channels)."""

    name = "cloudvolume (raw)"
    kinds = ("local",)

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        if data.ndim != 4:
            raise ValueError("only for samples of shape (y, x, channels)")
        logging.getLogger("cloudvolume").setLevel(logging.ERROR)
        count, height, width, channels = data.shape
        info = CloudVolume.create_new_info(
            num_channels=channels, layer_type="image", data_type=str(data.dtype), encoding="raw",
            resolution=[1, 1, 1], voxel_offset=[0, 0, 0], chunk_size=[chunks[2], chunks[1], chunks[0]],
            volume_size=[width, height, count],
        )  # fmt: skip
        volume = CloudVolume(f"file://{place.folder}/cv", info=info, compress=False, progress=False, parallel=1)
        volume.commit_info()
        volume[:, :, :] = data.transpose(2, 1, 0, 3)
        os.sync()

    def open(self, place: Place) -> Reader:
        volume = CloudVolume(f"file://{place.folder}/cv", progress=False, parallel=1, cache=False)

        def read(key: Any) -> np.ndarray:
            if key is Ellipsis:
                return np.asarray(volume[:, :, :]).transpose(2, 1, 0, 3)
            if isinstance(key, int):
                return np.asarray(volume[:, :, key : key + 1])[:, :, 0].transpose(1, 0, 2)
            raise IndexError(key)

        return read


PEER = Cloudvolume()
