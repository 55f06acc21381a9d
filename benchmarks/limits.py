"""What the hardware and the libraries below allow: the same bytes, without hubarray. No hash is checked here."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numcodecs import blosc

from benchmarks.ours import Blob, ranges
from benchmarks.places import Place

blosc.use_threads = False
CORES = len(os.sched_getaffinity(0))


def _path(place: Place, key: str) -> str:
    return f"{place.folder}/hub/{key}"


class _Output:
    """Fresh memory that chunks are decoded into: in place where a chunk's place is contiguous, else by way of scratch."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...], count: int) -> None:
        self.array = np.empty(shape, dtype)
        self._chunks = chunks
        self._whole_rows = chunks[1:] == shape[1:]
        self._rows = self.array.reshape(count, -1).view("u1") if self._whole_rows else None
        self._counts = tuple(n // c for n, c in zip(shape, chunks, strict=True))

    def decode(self, i: int, data: Any) -> None:
        if self._rows is not None:
            blosc.decompress(data, self._rows[i])
            return
        scratch = getattr(_scratch, "chunk", None)
        if scratch is None or scratch.shape != self._chunks:
            scratch = _scratch.chunk = np.empty(self._chunks, self.array.dtype)
        blosc.decompress(data, scratch)
        coords = np.unravel_index(i, self._counts)
        self.array[tuple(slice(c * n, (c + 1) * n) for c, n in zip(coords, self._chunks, strict=True))] = scratch


_scratch = threading.local()
_cpu = ThreadPoolExecutor(CORES)
_io = ThreadPoolExecutor(32)


def local_read(
    place: Place, blobs: list[Blob], out_shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...] | None = None
) -> np.ndarray:
    """Open, pread and blosc-decode each blob into fresh memory, over all cores; blobs are in order, rows if not said."""
    out = _Output(out_shape, dtype, chunks or _rows(out_shape, blobs), len(blobs))

    def work(part: range) -> None:
        descriptors: dict[str, int] = {}
        for i in part:
            blob = blobs[i]
            if blob.key not in descriptors:
                descriptors[blob.key] = os.open(_path(place, blob.key), os.O_RDONLY)
            out.decode(i, os.pread(descriptors[blob.key], blob.length, blob.offset))
        for descriptor in descriptors.values():
            os.close(descriptor)

    if len(blobs) == 1:
        work(range(1))
        return out.array
    step = max(1, len(blobs) // (CORES * 16))
    list(_cpu.map(work, (range(i, min(i + step, len(blobs))) for i in range(0, len(blobs), step))))
    return out.array


def local_readinto(place: Place, blobs: list[Blob], out_shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Open and read each raw blob into its place in fresh memory, over all cores."""
    out = np.empty(out_shape, dtype)
    rows = out.reshape(len(blobs), -1).view("u1")

    def work(part: range) -> None:
        for i in part:
            descriptor = os.open(_path(place, blobs[i].key), os.O_RDONLY)
            os.preadv(descriptor, [rows[i].data], blobs[i].offset)
            os.close(descriptor)

    step = max(1, len(blobs) // (CORES * 16))
    list(_cpu.map(work, (range(i, min(i + step, len(blobs))) for i in range(0, len(blobs), step))))
    return out


def _rows(shape: tuple[int, ...], blobs: list[Blob]) -> tuple[int, ...]:
    return (shape[0] // len(blobs), *shape[1:]) if len(blobs) > 1 else shape


def s3_store(place: Place) -> Any:
    """A bare obstore store of the root."""
    from obstore.store import S3Store

    return S3Store(
        place.bucket,
        prefix=f"{place.prefix}/hub",
        endpoint=place.endpoint,
        access_key_id=place.options["key"],
        secret_access_key=place.options["secret"],
        region="us-east-1",
        client_options={"allow_http": True},
    )


def s3_read(
    store: Any,
    blobs: list[Blob],
    out_shape: tuple[int, ...],
    dtype: Any,
    chunks: tuple[int, ...] | None = None,
    *,
    max_bytes: int = 16 << 20,
) -> np.ndarray:
    """Bare GETs of the same ranges, 32 at once as we make, and the decode on the threads that have the bytes."""
    import obstore

    out = _Output(out_shape, dtype, chunks or _rows(out_shape, blobs), len(blobs))
    places = {id(blob): i for i, blob in enumerate(blobs)}
    slots = threading.BoundedSemaphore(CORES)

    def work(blobs: list[Blob]) -> None:
        start = blobs[0].offset
        data = memoryview(obstore.get_range(store, blobs[0].key, start=start, end=blobs[-1].offset + blobs[-1].length))
        with slots:
            for blob in blobs:
                begin = blob.offset - start
                out.decode(places[id(blob)], data[begin : begin + blob.length])

    pieces = list(ranges(blobs, max_bytes))
    if len(pieces) == 1:
        work(pieces[0])
    else:
        list(_io.map(work, pieces))
    return out.array


def local_write(place: Place, data: np.ndarray, chunk_rows: int) -> None:
    """Encode over all cores, and durable files of 16 MiB; the folder is made before."""
    codec = blosc.Blosc(cname="lz4", clevel=5, shuffle=blosc.SHUFFLE, typesize=data.itemsize)
    folder = place.corner("limit").folder
    folder.mkdir(parents=True)

    def encode(first: int) -> bytes:
        return codec.encode(data[first : first + chunk_rows])

    def put(number: int, blobs: list[bytes]) -> None:
        descriptor = os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT)
        for blob in blobs:
            os.write(descriptor, blob)
        os.fsync(descriptor)
        os.close(descriptor)

    _encode_and_put(len(data), chunk_rows, encode, put)


def s3_write(store: Any, prefix: str, data: np.ndarray, chunk_rows: int) -> None:
    """Encode over all cores, and PUTs of 16 MiB, as many at once as we make."""
    import obstore

    codec = blosc.Blosc(cname="lz4", clevel=5, shuffle=blosc.SHUFFLE, typesize=data.itemsize)

    def encode(first: int) -> bytes:
        return codec.encode(data[first : first + chunk_rows])

    def put(number: int, blobs: list[bytes]) -> None:
        obstore.put(store, f"{prefix}/{number}", b"".join(blobs), use_multipart=False)

    _encode_and_put(len(data), chunk_rows, encode, put)


def _encode_and_put(count: int, chunk_rows: int, encode: Any, put: Any) -> None:
    with ThreadPoolExecutor(CORES) as encoders, ThreadPoolExecutor(32) as uploads:
        held: list[bytes] = []
        size = number = 0
        waiting = []
        for blob in encoders.map(encode, range(0, count, chunk_rows)):
            held.append(blob)
            size += len(blob)
            if size >= 16 << 20 or len(blob) >= 1 << 20:
                waiting.append(uploads.submit(put, number, held))
                held, size, number = [], 0, number + 1
        if held:
            waiting.append(uploads.submit(put, number, held))
        for upload in waiting:
            upload.result()
