"""cloud-volume: a precomputed volume; samples lie along z, raw encoding with gzip off, parallel by its threads."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
from cloudfiles.paths import add_alias
from cloudvolume import CloudVolume

from benchmarks.peers import Reader
from benchmarks.places import Place


class Cloudvolume:
    """cloud-volume, for samples of shape (y, x, channels)."""

    name = "cloudvolume (raw)"
    kinds = ("local", "s3")

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
        volume = CloudVolume(
            _url(place), info=info, compress=False, progress=False, parallel=1, secrets=_secrets(place)
        )
        volume.commit_info()
        volume[:, :, :] = data.transpose(2, 1, 0, 3)
        if place.kind == "local":
            os.sync()

    def open(self, place: Place) -> Reader:
        volume = CloudVolume(_url(place), progress=False, parallel=1, cache=False, secrets=_secrets(place))

        def read(key: Any) -> np.ndarray:
            if key is Ellipsis:
                return np.asarray(volume[:, :, :]).transpose(2, 1, 0, 3)
            if isinstance(key, int):
                return np.asarray(volume[:, :, key : key + 1])[:, :, 0].transpose(1, 0, 2)
            raise IndexError(key)

        return read


def _url(place: Place) -> str:
    if place.kind != "s3":
        return f"precomputed://file://{place.folder}/cv"
    # cloud-files wants the token where the keys are in the environment, and they are: TensorStore takes its from there.
    os.environ.setdefault("AWS_SESSION_TOKEN", "")
    # How it is told of a server that is not Amazon's; it keeps connections by this name, so each server has its own.
    server = f"seaweedfs{place.endpoint.rpartition(':')[2]}"
    add_alias(server, f"s3://{place.endpoint}/")
    return f"precomputed://{server}://{place.bucket}/{place.prefix}/cv"


def _secrets(place: Place) -> dict[str, Any] | None:
    if place.kind != "s3":
        return None
    return {"AWS_ACCESS_KEY_ID": place.options["key"], "AWS_SECRET_ACCESS_KEY": place.options["secret"]}


PEER = Cloudvolume()
