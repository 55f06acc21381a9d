"""What a user would otherwise pick, each set up as its own documentation advises for speed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from benchmarks.places import Place

Reader = Callable[[Any], np.ndarray]

MODULES = {
    "tensorstore": "tensorstore",
    "zarr": "zarr",
    "zarr_fsspec": "zarr",
    "zarrs": "zarrs",
    "icechunk": "icechunk",
    "h5py": "h5py",
    "memmap": "numpy",
    "lance": "lance",
    "deeplake": "deeplake",
    "cloudvolume": "cloudvolume",
}


class Peer(Protocol):
    """One contender.

    ``create`` stores an array, durable when it returns; ``open`` gives a function from an index to values, as a new
    process would open it. ``kinds`` are the places it is measured in.
    """

    name: str
    kinds: tuple[str, ...]

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...]) -> None: ...

    def open(self, place: Place) -> Reader: ...


def peers(kind: str) -> tuple[list[Peer], list[str]]:
    """The peers of a kind of place that are installed, and the names of those that are absent."""
    installed, absent = [], []
    for name, module in MODULES.items():
        try:
            importlib.import_module(module)
        except ImportError:
            absent.append(name)
            continue
        peer = importlib.import_module(f"benchmarks.peers.{name}").PEER
        if kind in peer.kinds:
            installed.append(peer)
    return installed, absent
