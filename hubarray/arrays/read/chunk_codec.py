"""Chunks to stored bytes and back, with the seconds it takes counted, and their keys in the memory cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import BlobName, blob_hash, key_of
from hubarray.errors import ConfigError, CorruptDataError, HubError
from hubarray.storage.base import Buffer


def decode_into(fetcher: Fetcher, metadata: ArrayMetadata, data: Buffer, out: np.ndarray, name: BlobName) -> None:
    """Decode the bytes of a blob into a contiguous array of the chunk's shape.

    Raises
    ------
    CorruptDataError
        They do not decode; their key is named.
    """
    began = time.perf_counter()
    try:
        metadata.codec.decode(data, out)
    except CorruptDataError as error:
        _, _, offset, length = name
        raise CorruptDataError(
            f"{fetcher.store.where(key_of(name))}: bytes {offset} to {offset + length} are what was stored, and not "
            f"what the array's codec reads: {error}; write these elements again or restore a commit before them"
        ) from None
    fetcher.stages.add("decode", time.perf_counter() - began)


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


def chunk_keys(fetcher: Fetcher, names: Sequence[BlobName], metadata: ArrayMetadata) -> list[tuple[Any, ...]]:
    """:func:`chunk_key` of each of some blobs."""
    return [chunk_key(fetcher, name, metadata) for name in names]
