"""Writing: everything in a transaction, and one sample at a time."""

from __future__ import annotations

import os
import random
import shutil
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.ours import OURS, cold, root_of
from benchmarks.peers import peers
from benchmarks.places import Place

SIDE = 256


def bulk_write(megabytes: int) -> list[Row]:
    """An array of samples, durable when the call returns, to a local root and to S3."""
    count = max(16, megabytes * 1_000_000 // (SIDE**2 * 3))
    values = data.photographs(count, SIDE)
    chunks = (1, SIDE, SIDE, 3)
    rows = []
    for kind, place in (("local", places.local()), ("s3", places.s3())):
        with place as base:
            hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
            contenders: dict[str, Any] = {"hubarray": lambda base=base: OURS.create(base.corner("hub"), values, chunks)}
            installed, absent = peers(kind)
            for peer in installed:
                contenders[peer.name] = lambda peer=peer, base=base: _durably(peer, base.corner("peer"), values, chunks)
            if kind == "local":
                contenders["limit: encode, write, fsync"] = lambda base=base: limits.local_write(base, values, 1)
                bars = [Bar("limit: encode, write, fsync", "at least", 0.9)]
            else:
                store = limits.s3_store(base)
                contenders["limit: encode, PUT"] = lambda base=base, store=store: limits.s3_write(
                    store, base.corner("limit").prefix, values, 1
                )
                bars = [Bar("limit: encode, PUT", "at least", 0.9)]
            bars.append(Bar("best peer", "at least", 1.0))
            note = "; ".join(f"{name}: is not installed" for name in absent)
            rows.append(
                measure(f"bulk write, {kind}, 197 KB chunks", contenders, size_bytes=values.nbytes, bars=bars, note=note,
                        before=lambda base=base: _swept(base), server=base.server, quick_rounds=0)
            )  # fmt: skip
    return rows


def _swept(place: Place) -> None:
    """Remove what was written before, and let the disk come to rest.

    Memory that the page cache never used yet costs more, whoever's turn it is; and whoever syncs would wait for what
    others left to be written.
    """
    cold()
    if place.kind == "local":
        for path in place.folder.iterdir():
            # Hints are written in the background, after the commit; one may appear or be renamed meanwhile.
            shutil.rmtree(path, ignore_errors=True)
    os.sync()


def _durably(peer: Any, place: Place, values: np.ndarray, chunks: tuple[int, ...]) -> None:
    """Durable is compared with durable: those that do not sync by themselves are followed by one ``os.sync()``."""
    peer.create(place, values, chunks)
    if place.kind == "local" and peer.name in ("zarr", "zarrs", "icechunk"):
        os.sync()


def assignments(megabytes: int) -> list[Row]:
    """One sample assigned at a time to S3, each a commit."""
    values = data.photographs(40, SIDE)
    order = random.Random(0).sample(range(40), 20)
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
        array = hub.array(values.shape, "bench/x:v0", "u1", chunks=(1, SIDE, SIDE, 3), root=root_of(base.corner("h")))
        store = limits.s3_store(base)
        turn = iter(range(10**9))

        def ours() -> None:
            shift = next(turn)
            for i in order:
                array[i] = np.roll(values[i], shift)

        contenders: dict[str, Any] = {
            "hubarray": ours,
            "limit: two dependent PUTs": lambda: _two_puts(store, base, values, order, next(turn)),
        }
        installed, _ = peers("s3")
        if "icechunk" in {peer.name for peer in installed}:
            contenders["icechunk"] = _icechunk(base.corner("icechunk"), values, order, turn)
        return [
            measure("20 assignments of one sample to S3", contenders, size_bytes=20 * values[0].nbytes,
                    bars=[Bar("limit: two dependent PUTs", "at most", 1.5), Bar("icechunk", "at least", 2.5)])
        ]  # fmt: skip


def _two_puts(store: Any, place: Place, values: np.ndarray, order: list[int], shift: int) -> None:
    import obstore

    codec = limits.blosc.Blosc(cname="lz4", clevel=5, shuffle=limits.blosc.SHUFFLE, typesize=1)
    for n, i in enumerate(order):
        blob = codec.encode(np.roll(values[i], shift))
        obstore.put(store, f"limit/{shift}-{n}-pack", blob, use_multipart=False)
        obstore.put(store, f"limit/{shift}-{n}-record", b"x" * 2000, mode="create", use_multipart=False)


def _icechunk(place: Place, values: np.ndarray, order: list[int], turn: Any) -> Any:
    import icechunk
    import zarr

    from benchmarks.peers.icechunk import PEER, storage

    PEER.create(place, values, (1, *values.shape[1:]))
    repository = icechunk.Repository.open(storage(place))

    def work() -> None:
        shift = next(turn)
        for i in order:
            session = repository.writable_session("main")
            zarr.open_array(session.store, mode="r+")[i] = np.roll(values[i], shift)
            session.commit("one sample")

    return work
