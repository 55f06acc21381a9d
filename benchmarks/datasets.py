"""Several arrays that belong together: appended, read in an epoch, opened by the thousand, and through xarray."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Row, measure
from benchmarks.ours import root_of
from benchmarks.places import Place
from hubarray.blobs import fetch

OURS = "hubarray"
SIDE, BATCH, APPENDS = 64, 256, 4
ARRAYS = 1000
NAME = "bench/x:v0"

Images = np.ndarray
Labels = np.ndarray


class _Hub:
    """A dataset."""

    kinds = ("local", "s3")

    def __init__(self, place: Place) -> None:
        self._root = root_of(place)

    def _forget(self) -> None:
        fetch._shared._memory.clear()

    def create(self, images: Images) -> None:
        specs = {
            "image": hub.ArraySpec((0, *images.shape[1:]), "u1", dims=("sample", "y", "x", "c")),
            "label": hub.ArraySpec(0, "i8", dims=("sample",)),
        }
        self._pairs = hub.dataset(specs, NAME, root=self._root)

    def append(self, images: Images, labels: Labels) -> None:
        self._pairs.append({"image": images, "label": labels})

    def epoch(self) -> Iterator[tuple[Images, Labels]]:
        self._forget()
        ds = hub.load(NAME, root=self._root)
        for first in range(0, len(ds["label"]), BATCH):
            rows = ds.rows(slice(first, first + BATCH))
            yield rows["image"], rows["label"]

    def create_many(self) -> None:
        many = hub.dataset({f"a{i}": hub.ArraySpec(8, "i8") for i in range(ARRAYS)}, "bench/many:v0", root=self._root)
        with many.transaction() as t:
            for i in range(ARRAYS):
                t[f"a{i}"][:] = i

    def last_of_many(self) -> Any:
        self._forget()
        return hub.load("bench/many:v0", root=self._root)[f"a{ARRAYS - 1}"][0]

    def create_climate(self, climate: Any) -> None:
        hub.store(climate, "bench/climate:v0", root=self._root)

    def mean_of_climate(self) -> float:
        self._forget()
        return float(hub.load("bench/climate:v0", root=self._root).to_xarray()["t2m"].mean())


class _ZarrGroup:
    """A Zarr group: appended array by array, which nothing holds together."""

    kinds = ("local", "s3")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._corners = {what: place.corner(what) for what in ("pairs", "many", "climate")}

    def _store(self, what: str) -> Any:
        import zarr

        from benchmarks.peers.zarr import obstore_of

        below = self._corners[what]
        if below.kind == "local":
            return zarr.storage.LocalStore(below.folder)
        return zarr.storage.ObjectStore(obstore_of(below))

    def _committed(self, message: str) -> None:
        """Written is written, here; in a folder once it is synced."""
        if self._place.kind == "local":
            os.sync()

    def _writable(self, what: str) -> Any:
        return self._store(what)

    _readable = _writable

    def create(self, images: Images) -> None:
        _group_of_pairs(self._writable("pairs"), images)
        self._committed("create")

    def append(self, images: Images, labels: Labels) -> None:
        import zarr

        group = zarr.open_group(self._writable("pairs"), mode="r+")
        group["image"].append(images)
        group["label"].append(labels)
        self._committed("append")

    def epoch(self) -> Iterator[tuple[Images, Labels]]:
        import zarr

        group = zarr.open_group(self._readable("pairs"), mode="r")
        for first in range(0, group["label"].shape[0], BATCH):
            yield group["image"][first : first + BATCH], group["label"][first : first + BATCH]

    def create_many(self) -> None:
        import zarr

        group = zarr.create_group(self._writable("many"))
        for i in range(ARRAYS):
            group.create_array(f"a{i}", data=np.full(8, i))
        self._committed("many")

    def last_of_many(self) -> Any:
        import zarr

        return zarr.open_group(self._readable("many"), mode="r")[f"a{ARRAYS - 1}"][0]

    def create_climate(self, climate: Any) -> None:
        climate.to_zarr(self._writable("climate"), consolidated=False, zarr_format=3)
        self._committed("climate")

    def mean_of_climate(self) -> float:
        import xarray as xr

        return float(xr.open_zarr(self._readable("climate"), consolidated=False)["t2m"].mean())


class _Icechunk(_ZarrGroup):
    """A Zarr group in an Icechunk repository, a commit each."""

    def __init__(self, place: Place) -> None:
        import icechunk

        from benchmarks.peers.icechunk import storage

        super().__init__(place)
        self._open = {what: icechunk.Repository.create(storage(corner)) for what, corner in self._corners.items()}

    def _writable(self, what: str) -> Any:
        self._session = self._open[what].writable_session("main")
        return self._session.store

    def _readable(self, what: str) -> Any:
        return self._open[what].readonly_session("main").store

    def _committed(self, message: str) -> None:
        self._session.commit(message)
        super()._committed(message)


class _DeepLake:
    """A Deep Lake dataset of images as they are in memory and labels; it has no groups of a thousand arrays."""

    kinds = ("local",)

    def __init__(self, place: Place) -> None:
        self._path = str(place.folder / "deeplake")

    def create(self, images: Images) -> None:
        import deeplake

        self._pairs = deeplake.create(self._path)
        self._pairs.add_column("image", deeplake.types.Array("uint8", shape=list(images.shape[1:])))
        self._pairs.add_column("label", deeplake.types.Int64())
        self._pairs.commit()

    def append(self, images: Images, labels: Labels) -> None:
        self._pairs.append({"image": images, "label": labels})
        self._pairs.commit()
        os.sync()

    def epoch(self) -> Iterator[tuple[Images, Labels]]:
        import deeplake

        dataset = deeplake.open_read_only(self._path)
        for first in range(0, len(dataset), BATCH):
            last = min(len(dataset), first + BATCH)
            yield dataset["image"][first:last], dataset["label"][first:last]


_CONTENDERS: dict[str, tuple[str, Callable[[Place], Any]]] = {
    OURS: ("hubarray", _Hub),
    "zarr group": ("zarr", _ZarrGroup),
    "icechunk": ("icechunk", _Icechunk),
    "deeplake (raw)": ("deeplake", _DeepLake),
}


def _group_of_pairs(store: Any, images: Images) -> None:
    import zarr

    from benchmarks.peers.zarr import CODEC

    group = zarr.create_group(store)
    rows = max(1, (256 << 10) // images[0].nbytes)
    group.create_array("image", shape=(0, *images.shape[1:]), dtype="u1", chunks=(rows, *images.shape[1:]),
                       compressors=[CODEC])  # fmt: skip
    group.create_array("label", shape=(0,), dtype="i8", chunks=(32768,), compressors=[CODEC])


def datasets(megabytes: int) -> list[Row]:
    """Pairs appended and read, a thousand arrays opened, and a mean by xarray: in a folder and on S3."""
    count = max(APPENDS * BATCH, megabytes * 1_000_000 // (SIDE * SIDE * 3) // (APPENDS * BATCH) * (APPENDS * BATCH))
    images = data.photographs(count, SIDE)
    labels = np.arange(count)
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    rows: list[Row] = []
    for where, kind, place in (("a folder", "local", places.local), ("S3", "s3", places.s3)):
        with place() as base:
            rows += _cases(where, kind, base, images, labels)
    return rows


def _cases(where: str, kind: str, base: Place, images: Images, labels: Labels) -> list[Row]:
    contenders, absent = {}, []
    for name, (package, make) in _CONTENDERS.items():
        if kind not in make.kinds:  # type: ignore[attr-defined]
            continue
        try:
            importlib.import_module(package)
        except ImportError:
            absent.append(name)
            continue
        contenders[name] = make(base.corner(package))
    note = f"not installed: {', '.join(absent)}" if absent else ""
    append_images = len(images) // APPENDS
    for contender in contenders.values():
        contender.create(images)

    def appends(contender: Any) -> Callable[[], None]:
        turns = itertools.count()

        def work() -> None:
            first = next(turns) % APPENDS * append_images
            contender.append(images[first : first + append_images], labels[first : first + append_images])

        return work

    def epoch(contender: Any) -> Callable[[], int]:
        # All have appended as often, but for the rounds of one that failed.
        return lambda: sum(int(batch.sum()) for _, batch in itertools.islice(contender.epoch(), len(images) // BATCH))

    rows = [
        measure(f"an append of {append_images:,} images and labels to {where}", {name: appends(contender) for name, contender in contenders.items()},
                size_bytes=images.nbytes // APPENDS, note=note, rounds=APPENDS + 1),
        measure(f"an epoch over {len(images):,} images and labels from {where}",
                {name: epoch(contender) for name, contender in contenders.items()}, size_bytes=images.nbytes, note=note, rounds=3),
    ]  # fmt: skip
    groups = {name: contender for name, contender in contenders.items() if hasattr(contender, "create_many")}
    climate = _climate(images.nbytes // 4)
    for contender in groups.values():
        contender.create_many()
        contender.create_climate(climate)
    rows.append(measure(f"opening {ARRAYS:,} arrays in {where}, and an element of the last",
                        {name: contender.last_of_many for name, contender in groups.items()}, size_bytes=8, note=note))  # fmt: skip
    expected = float(climate["t2m"].mean())
    for name, contender in groups.items():
        assert abs(contender.mean_of_climate() - expected) < 1e-3, name
    rows.append(measure(f"xarray opens {climate.nbytes >> 20} MB in {where}, and a mean",
                        {name: contender.mean_of_climate for name, contender in groups.items()}, size_bytes=climate.nbytes,
                        note=note, rounds=3))  # fmt: skip
    return rows


def _climate(size_bytes: int) -> Any:
    import pandas as pd
    import xarray as xr

    days = max(8, size_bytes // (180 * 360 * 4))
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(size=(days, 180, 360)).astype("f4"), axis=0) + 280
    coords = {
        "time": pd.date_range("2020-01-01", periods=days),
        "lat": np.arange(180.0) - 89.5,
        "lon": np.arange(360.0),
    }
    return xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, coords=coords)
