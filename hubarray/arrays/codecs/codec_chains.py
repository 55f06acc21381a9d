"""Codec chains: the list that a user's ``codec`` means, and what a chain must not be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.codecs.codecs import LITTLE_ENDIAN, codec_for, common_codec
from hubarray.arrays.codecs.dtypes import dtype_to_json, is_ml
from hubarray.arrays.codecs.image_codecs import (
    IMAGE_CODECS,
    image_chain,
    image_codec,
    is_image_codec,
    named_image_codec,
)
from hubarray.arrays.codecs.text_codec import TEXT_CODEC, text_codec
from hubarray.errors import ConfigError

_ONE_BYTE_KINDS = "bSV"
_TRIAL_BYTES = 16 << 20
_MAX_CODECS = 16
_MAX_INNER_CHUNKS = 1 << 16
_INDEX_ENTRY_BYTES = 16
# What they decode says how many elements it has, and room is made for as many.
_OF_ANY_LENGTH = ("vlen-utf8", "vlen-bytes")


@dataclass(frozen=True)
class NamedChain:
    """The chain that a codec's name stands for.

    Attributes
    ----------
    name, about : str
        The name for users, and its purpose.
    compressor : callable
        The Zarr v3 codecs after ``bytes``, of a dtype.
    """

    name: str
    about: str
    compressor: Callable[[np.dtype[Any]], list[dict[str, Any]]]


def _blosc(name: str, level: int) -> Callable[[np.dtype[Any]], list[dict[str, Any]]]:
    def make(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
        # Blosc keeps the element size in one byte; longer elements are shuffled as bytes, that is not at all.
        size = dtype.itemsize if dtype.itemsize < 256 and dtype.kind != "T" else 1
        configuration = {"typesize": size, "cname": name, "clevel": level, "shuffle": "shuffle", "blocksize": 0}
        return [{"name": "blosc", "configuration": configuration}]

    return make


def _zstd(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    return [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}]


def _auto(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    return _zstd(dtype) if dtype.kind == "T" else _blosc("lz4", 5)(dtype)


NAMED_CHAINS = {
    entry.name: entry
    for entry in (
        NamedChain("auto", "blosc-lz4, or zstd for text of any length", _auto),
        NamedChain("blosc-lz4", "fast, and small if neighbors are alike", _blosc("lz4", 5)),
        NamedChain("blosc-zstd", "smaller and slower", _blosc("zstd", 3)),
        NamedChain("zstd", "small, without shuffling bytes", _zstd),
        NamedChain("gzip", "readable everywhere", lambda dtype: [{"name": "gzip", "configuration": {"level": 5}}]),
        NamedChain(
            "lz4",
            "fast, without shuffling bytes",
            lambda dtype: [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
        ),
        NamedChain("none", "uncompressed", lambda dtype: []),
    )
}


def chain_of(codec: Any, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> list[dict[str, Any]]:
    """The Zarr v3 ``codecs`` list that the ``codec`` argument means.

    Parameters
    ----------
    codec : str, mapping or list
        A name among :data:`NAMED_CHAINS` or :data:`IMAGE_CODECS`, ``{"name": ..., "quality": ...}`` of the latter, or
        a Zarr v3 list of codecs.
    dtype, chunks
        Of the array; images and lists are checked against them.

    Raises
    ------
    ConfigError
        An unknown name, or a list that zarr-python does not accept.
    MissingPackageError
        A codec of images needs imagecodecs.
    """
    if isinstance(codec, Mapping) or named_image_codec(codec):
        return image_chain(codec, dtype, chunks)
    if isinstance(codec, str):
        if codec not in NAMED_CHAINS:
            known = ", ".join([*NAMED_CHAINS, *IMAGE_CODECS])
            raise ConfigError(f"codec {codec!r} is not known; give one of {known}, or a Zarr v3 list")
        return [_bytes_codec(dtype), *NAMED_CHAINS[codec].compressor(dtype)]
    if not isinstance(codec, Sequence) or not codec:
        raise ConfigError("codec is a name or a non-empty list of Zarr v3 codecs")
    try:
        chain = [{"name": link} if isinstance(link, str) else dict(link) for link in codec]
    except (TypeError, ValueError):
        raise ConfigError("codec: each of a Zarr v3 list is a name, or a mapping of name and configuration") from None
    chain = [_bytes_codec(dtype) if link == {"name": "bytes"} else link for link in chain]
    check_chain(chain, chunks, dtype)
    if dtype.kind == "T":
        text_codec(chain)
        return chain
    if image_codec(chain, dtype, chunks) is not None:
        return chain
    if common_codec(chain) is None:
        _check_with_zarr(chain, dtype, chunks)
    _check_by_trial(chain, dtype, chunks)
    return chain


def check_chain(chain: Any, chunks: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Refuse a value that is not a list of codecs, or shards whose index is larger than the shard.

    Raises
    ------
    ConfigError
    """
    if not isinstance(chain, list) or not 0 < len(chain) <= _MAX_CODECS:
        raise ConfigError(f"codecs are a list of 1 to {_MAX_CODECS}")
    for codec_dict in chain:
        configuration = codec_dict.get("configuration", {}) if isinstance(codec_dict, dict) else None
        if not isinstance(configuration, dict) or not isinstance(codec_dict.get("name"), str):
            raise ConfigError("a codec is a name and a configuration")
        if codec_dict["name"] in _OF_ANY_LENGTH and (dtype.kind != "T" or codec_dict["name"] != TEXT_CODEC["name"]):
            raise ConfigError(f"codec {codec_dict['name']!r} is for elements of any length; {dtype} has a fixed length")
        if is_image_codec(codec_dict["name"]) and len(chain) > 1:
            raise ConfigError(f"codec {codec_dict['name']!r}: an image is a chunk by itself, and takes no other codecs")
        if codec_dict["name"] == "sharding_indexed":
            _check_shards(configuration, chunks, dtype)


def _check_shards(configuration: dict[str, Any], chunks: Sequence[int], dtype: np.dtype[Any]) -> None:
    inner = configuration.get("chunk_shape")
    if not isinstance(inner, (list, tuple)) or len(inner) != len(chunks):
        raise ConfigError("sharding_indexed: chunk_shape has one length per axis")
    if not all(type(n) is int and 1 <= n <= outer for n, outer in zip(inner, chunks, strict=True)):
        raise ConfigError("sharding_indexed: its chunk_shape is larger than the shard, or below 1")
    count = math.prod(-(-outer // n) for n, outer in zip(inner, chunks, strict=True))
    if count > _MAX_INNER_CHUNKS or count * _INDEX_ENTRY_BYTES > math.prod(chunks) * dtype.itemsize + (1 << 20):
        raise ConfigError(
            f"sharding_indexed: {count:,} chunks a shard; {_MAX_INNER_CHUNKS:,} are allowed, and fewer of small ones"
        )
    for part in ("codecs", "index_codecs"):
        if part in configuration:
            check_chain(configuration[part], inner, dtype)
            if is_image_codec(configuration[part][0]["name"]):
                raise ConfigError("sharding_indexed: images are chunks by themselves, and are not stored in shards")


def _check_with_zarr(chain: list[dict[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
    try:
        codec_for(chain, dtype_to_json(dtype), dtype, chunks)
    except Exception as error:
        names = [link.get("name") for link in chain]
        raise ConfigError(f"codec {names}: zarr does not accept this chain: {type(error).__name__}: {error}") from None


def _check_by_trial(chain: list[dict[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
    """Refuse a chain that cannot encode a chunk and decode it again, before anything depends on it."""
    shape = chunks if math.prod(chunks) * dtype.itemsize <= _TRIAL_BYTES else tuple(min(1, n) for n in chunks)
    try:
        codec = codec_for(chain, dtype_to_json(dtype), dtype, shape)
        out = np.empty(shape, dtype)
        codec.decode(codec.encode(np.zeros(shape, dtype)), out)
        is_zero = not out.reshape(-1).view("u1").any()
    except Exception as error:
        names = [link.get("name") for link in chain]
        raise ConfigError(f"codec {names}: cannot encode {dtype}: {type(error).__name__}: {error}") from None
    if not is_zero:
        raise ConfigError(f"codec {[link.get('name') for link in chain]}: does not give {dtype} back as it was")


def _bytes_codec(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.kind == "T":
        return TEXT_CODEC
    if dtype.itemsize == 1 or (dtype.kind in _ONE_BYTE_KINDS and not is_ml(dtype)):
        return {"name": "bytes"}
    return LITTLE_ENDIAN
