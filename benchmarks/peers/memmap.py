"""A NumPy .npy file, mapped: uncompressed, one machine, the page cache as its cache."""

from __future__ import annotations

import os

import numpy as np

from benchmarks.peers import Reader
from benchmarks.places import Place


class Memmap:
    """np.load(mmap_mode="r")."""

    name = "memmap (raw)"
    kinds = ("local",)

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        place.folder.mkdir(parents=True, exist_ok=True)
        np.save(place.folder / "data.npy", data)
        os.sync()

    def open(self, place: Place) -> Reader:
        data = np.load(place.folder / "data.npy", mmap_mode="r")
        return lambda key: np.array(data[key])


PEER = Memmap()
