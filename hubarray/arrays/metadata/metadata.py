"""An array's description: what its Zarr v3 metadata says, in NumPy's terms. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hubarray.arrays.codecs import dtypes
from hubarray.arrays.codecs.codec_chains import check_chain
from hubarray.arrays.codecs.codecs import LITTLE_ENDIAN, Codec, codec_for
from hubarray.arrays.codecs.text_codec import max_text_blob_bytes
from hubarray.arrays.indexing import chunking, numbering
from hubarray.errors import ConfigError, CorruptDataError, FormatVersionError
from hubarray.history.records.descriptions import Descriptions
from hubarray.history.records.json_fields import MAX_INT64, Fields
from hubarray.history.records.record import Record, record_key
from hubarray.limits import max_encoded_bytes
from hubarray.process import cached_property
from hubarray.redaction import shown_text

MAX_DIM_LETTERS = 256
_MAX_AXES = 64


@dataclass(frozen=True)
class ArrayMetadata:
    """Shape, dtype, chunks, fill value and codecs of an array.

    Attributes
    ----------
    fill : ndarray
        0-d, read-only, of the array's dtype.
    codecs : tuple of dict
        The Zarr v3 codec chain.
    dims : tuple of (str or None), or None
        Names of the axes, Zarr's ``dimension_names``.
    where : str
        The key of the record that says so, for errors.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    fill: np.ndarray
    codecs: tuple[dict[str, Any], ...]
    dims: tuple[str | None, ...] | None = None
    where: str = field(default="", compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The array's ``zarr.json``, without attributes."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": dtypes.dtype_to_json(self.dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": dtypes.fill_to_json(self.fill),
            "codecs": list(self.codecs),
            **({} if self.dims is None else {"dimension_names": list(self.dims)}),
        }

    @staticmethod
    def from_json(fields: dict[str, Any], where: str = "") -> ArrayMetadata:
        """The inverse of :meth:`to_json`, for untrusted JSON. Everything that other code relies on is checked.

        Raises
        ------
        UnknownTypeError
            It describes what this version cannot handle.
        ConfigError
            The JSON does not describe an array, or describes one that :func:`hubarray.array` does not make.
        """
        try:
            if fields["chunk_grid"]["name"] != "regular":
                name = shown_text(str(fields["chunk_grid"]["name"]))[:80]
                raise dtypes.UnknownTypeError(f"chunk grid {name!r} is not known to this version of hubarray")
            dtype = dtypes.dtype_from_json(fields["data_type"])
            shape = chunking.checked_shape(tuple(fields["shape"]), dtypes.planned_bytes(dtype))
            chunk_shape = tuple(fields["chunk_grid"]["configuration"]["chunk_shape"])
            chunks = chunking.checked_chunks(chunk_shape, shape, dtypes.planned_bytes(dtype))
            dtypes.check_texts(chunks, dtype)
            check_chain(fields["codecs"], chunks, dtype)
            return ArrayMetadata(
                shape=shape,
                dtype=dtype,
                chunks=chunks,
                fill=dtypes.fill_from_json(fields["fill_value"], dtype),
                codecs=tuple(fields["codecs"]),
                dims=checked_dims(fields.get("dimension_names"), len(shape)),
                where=where,
            )
        except dtypes.UnknownTypeError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            what = shown_text(str(error))[:300]
            raise ConfigError(f"array metadata cannot be read: {type(error).__name__}: {what}") from None

    def with_shape(self, shape: tuple[int, ...]) -> ArrayMetadata:
        """The same array at another shape."""
        return replace(self, shape=shape)

    @cached_property
    def codec(self) -> Codec:
        """The codec of the chain.

        Raises
        ------
        FormatVersionError
            zarr-python knows no such chain.
        """
        try:
            return codec_for(list(self.codecs), dtypes.dtype_to_json(self.dtype), self.dtype, self.chunks)
        except Exception as error:
            # zarr-python and the authors of codecs raise what they like of a chain that they do not accept.
            names = shown_text(", ".join(codec["name"] for codec in self.codecs))[:200]
            raise FormatVersionError(
                f"{self.where or 'this array'}: its codecs [{names}] cannot be used here "
                f"({type(error).__name__}: {shown_text(str(error))[:300]}); install the package that has them, or "
                "upgrade hubarray"
            ) from None

    @cached_property
    def decoding(self) -> tuple[str, tuple[int, ...], str]:
        """What, beside the blob, decides the decoded chunk: part of its key in the memory cache."""
        return str(dtypes.dtype_to_json(self.dtype)), self.chunks, json.dumps(self.codecs)

    @cached_property
    def chunk_bytes(self) -> int:
        """Bytes of one decoded chunk; of text of any length a guess."""
        return int(np.prod(self.chunks, dtype=np.int64)) * dtypes.planned_bytes(self.dtype)

    @cached_property
    def max_blob_bytes(self) -> int:
        """How long an encoded chunk may be."""
        return max_text_blob_bytes() if self.dtype.kind == "T" else max_encoded_bytes(self.chunk_bytes)

    def stored_like(self, other: ArrayMetadata) -> bool:
        """Whether chunks of both mean the same: equal chunk shape, dtype, codecs and fill value, bit for bit."""
        first, second = (
            (m.chunks, m.dtype, _without_defaults(m.codecs), dtypes.fill_bytes(m.fill), len(m.shape))
            for m in (self, other)
        )
        return first == second

    def describe(self) -> str:
        """One line for error messages."""
        names = shown_text(", ".join(codec["name"] for codec in self.codecs))
        named = "" if self.dims is None else f", dims {self.dims}"
        return (
            f"shape {self.shape}, dtype {self.dtype}, chunks {self.chunks}, fill {self.fill}, codecs [{names}]{named}"
        )


def _without_defaults(codecs: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Return codecs without empty configurations and little-endian bytes, which some writers leave out."""
    plain = [{"name": "bytes"} if codec == LITTLE_ENDIAN else codec for codec in codecs]
    return [{key: value for key, value in codec.items() if key != "configuration" or value} for codec in plain]


def checked_dims(dims: Any, ndim: int) -> tuple[str | None, ...] | None:
    """Names of axes, as ``hub.array(dims=...)`` takes them: one an axis, distinct, None for those without.

    Raises
    ------
    ConfigError
    """
    if dims is None:
        return None
    names = (dims,) if isinstance(dims, str) else tuple(dims) if isinstance(dims, Iterable) else None
    if names is None or len(names) != ndim or not all(dim is None or isinstance(dim, str) for dim in names):
        raise ConfigError(f"dims={shown_text(repr(dims))[:200]}: give one name for each of the {ndim} axes")
    dim_names = [dim for dim in names if dim is not None]
    if len(set(dim_names)) != len(dim_names) or any(len(dim) > MAX_DIM_LETTERS for dim in dim_names):
        raise ConfigError(
            f"dims={shown_text(repr(dims))[:200]}: names are distinct, and have up to {MAX_DIM_LETTERS} letters"
        )
    return names if dim_names else None


def metadata_of(record: Record) -> ArrayMetadata:
    """The description that a record of an array has.

    Raises
    ------
    FormatVersionError
        It is of another kind, or describes what this version cannot handle; the record's key is named.
    CorruptDataError
        It describes no array.
    """
    return _described.of(record)


def _read(record: Record) -> ArrayMetadata:
    where = record_key(record.name, record.head.number)
    if record.head.kind != "array":
        raise FormatVersionError(f"{where}: is a {record.head.kind}, not an array; upgrade hubarray if it is to be one")
    _check_numbering(Fields(record.description, where, "array"), record.grid)
    try:
        return ArrayMetadata.from_json(record.description, where)
    except dtypes.UnknownTypeError as error:
        raise FormatVersionError(
            f"{where}: {error}; upgrade hubarray, or install the package that has it (bfloat16 and float8: ml_dtypes)"
        ) from None
    except ConfigError as error:
        raise CorruptDataError(f"{where}: its field 'array' cannot be read ({error}); restore it from a copy") from None


_described = Descriptions(_read)


def _check_numbering(description: Fields, grid: tuple[int, ...]) -> None:
    """Refuse a description whose chunks have no numbers; data types and codecs are for arrays to check."""
    shape = description.integers("shape", _MAX_AXES, 0, MAX_INT64)
    configuration = description.inner("chunk_grid").inner("configuration")
    chunks = configuration.integers("chunk_shape", _MAX_AXES, 1, MAX_INT64)
    if len(chunks) != len(shape) or len(grid) != max(0, len(shape) - 1):
        configuration.refuse("chunk_shape", "or the numbering grid has another number of axes than the shape")
    counts = numbering.chunk_counts(shape, chunks)
    if not numbering.fits(grid, counts) or numbering.number_limit(counts, grid) > 1 << 64:
        description.refuse("shape", "has chunks that the numbering grid cannot number")
