"""Chunks to stored bytes and back, with the seconds it takes counted, and their keys in the memory cache."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import BlobName, BlobPlace, Refs, blob_hash, blob_names, blob_place
from hubarray.errors import ConfigError, CorruptDataError, HubError
from hubarray.storage.base import Buffer


def decode_into(
    fetcher: Fetcher, metadata: ArrayMetadata, data: Buffer, out: np.ndarray, ref: np.void | Refs | BlobPlace
) -> None:
    """Decode the bytes of a ref into a contiguous array of the chunk's shape.

    Raises
    ------
    CorruptDataError
        They do not decode; their key is named.
    """
    began = time.perf_counter()
    try:
        metadata.codec.decode(data, out)
    except CorruptDataError as error:
        place = ref if isinstance(ref, BlobPlace) else blob_place(ref)
        raise CorruptDataError(
            f"{fetcher.store.where(place.key)}: bytes {place.offset} to {place.offset + place.length} are what was "
            f"stored, and not what the array's codec reads: {error}; write these elements again or restore a commit "
            "before them"
        ) from None
    fetcher.stages.add("decode", time.perf_counter() - began)


def decoded(fetcher: Fetcher, metadata: ArrayMetadata, data: Buffer, ref: np.void | Refs) -> np.ndarray:
    """A chunk in memory of its own, read-only; as :func:`decode_into`."""
    chunk = np.empty(metadata.chunks, metadata.dtype)
    decode_into(fetcher, metadata, data, chunk, ref)
    chunk.setflags(write=False)
    return chunk


class Encoded(NamedTuple):
    """The bytes to store for a chunk, and their hash."""

    blob: Buffer
    digest: bytes


def encoded(fetcher: Fetcher, metadata: ArrayMetadata, chunk: np.ndarray) -> Encoded | None:
    """The blob to store for a contiguous chunk; None where all of it is fill value, which is not stored."""
    began = time.perf_counter()
    result = None
    if not is_all_fill(chunk, metadata.fill):
        codec = metadata.codec
        try:
            blob = codec.encode(chunk)
        except (HubError, MemoryError):
            raise
        except Exception as error:
            # Codecs of others raise what they like.
            raise ConfigError(
                f"the array's codecs do not encode this chunk: {type(error).__name__}: {error}"
            ) from error
        if len(blob) > metadata.max_blob_bytes:
            raise ConfigError(
                f"a chunk of {chunk.nbytes:,} bytes takes {len(blob):,} once encoded, and {metadata.max_blob_bytes:,} "
                "are allowed; choose another codec"
            )
        result = Encoded(blob, blob_hash(blob))
    fetcher.stages.add("encode", time.perf_counter() - began)
    return result


def is_all_fill(chunk: np.ndarray, fill: np.ndarray) -> bool:
    """Whether every element equals the fill value, bit for bit."""
    if chunk.dtype.kind == "T":
        return bool((chunk == fill).all())
    pattern = np.frombuffer(fill.tobytes(), "u1")
    flat = chunk.reshape(-1).view("u1")
    step = max(1, 65536 // len(pattern)) * len(pattern)
    if len(pattern) in (2, 4, 8):
        pattern, flat, step = pattern.view(f"u{len(pattern)}"), flat.view(f"u{len(pattern)}"), 65536
    for begin in range(0, len(flat), step):
        piece = flat[begin : begin + step]
        if not (piece.reshape(-1, len(pattern)) == pattern).all():
            return False
    return True


def chunk_key(fetcher: Fetcher, name: BlobName, metadata: ArrayMetadata) -> tuple[Any, ...]:
    """The key of a decoded chunk in the memory cache, by the name of its blob."""
    return ("chunk", fetcher.identity, name, metadata.decoding)


def chunk_keys(fetcher: Fetcher, refs: Refs, metadata: ArrayMetadata) -> list[tuple[Any, ...]]:
    """:func:`chunk_key` of each ref."""
    return [chunk_key(fetcher, name, metadata) for name in blob_names(refs)]
