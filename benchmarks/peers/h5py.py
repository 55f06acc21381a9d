"""HDF5 through h5py, chunked, lzf (the fast filter that comes with it) with shuffle.

Its cache of decoded chunks is off: the cases read from files, and a later round would find the samples in memory.

Its documentation advises shuffle for lzf; without it lzf gives a float32 volume up, and stores it as it is.
"""

from __future__ import annotations

import os

import h5py
import numpy as np

from benchmarks.peers import Reader
from benchmarks.places import Place


class HDF5:
    """h5py."""

    name = "h5py"
    kinds = ("local",)

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        place.folder.mkdir(parents=True, exist_ok=True)
        with h5py.File(place.folder / "data.h5", "w") as file:
            file.create_dataset("data", data=data, chunks=chunks, compression="lzf", shuffle=True)
        # It does not sync by itself.
        os.sync()

    def open(self, place: Place) -> Reader:
        data = h5py.File(place.folder / "data.h5", "r", rdcc_nbytes=0)["data"]
        return lambda key: data[key]


PEER = HDF5()
