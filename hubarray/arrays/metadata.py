"""An array's description: what its Zarr v3 metadata says, in NumPy's terms. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hubarray.arrays import dtypes
from hubarray.arrays.codecs import Codec, codec_for
from hubarray.errors import ConfigError
from hubarray.process import cached_property


@dataclass(frozen=True)
class ArrayMetadata:
    """Shape, dtype, chunks, fill value and codecs of an array.

    Attributes
    ----------
    fill : ndarray
        0-d, read-only, of the array's dtype.
    codecs : tuple of dict
        The Zarr v3 codec chain.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    fill: np.ndarray
    codecs: tuple[dict[str, Any], ...]

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
        }

    @staticmethod
    def from_json(fields: dict[str, Any]) -> ArrayMetadata:
        """The inverse of :meth:`to_json`.

        Raises
        ------
        ConfigError
            It describes what this version cannot handle.
        """
        try:
            if fields["chunk_grid"]["name"] != "regular":
                raise ConfigError(
                    f"chunk grid {fields['chunk_grid']['name']!r} is not known to this version of hubarray"
                )
            dtype = dtypes.dtype_from_json(fields["data_type"])
            return ArrayMetadata(
                shape=tuple(fields["shape"]),
                dtype=dtype,
                chunks=tuple(fields["chunk_grid"]["configuration"]["chunk_shape"]),
                fill=dtypes.fill_from_json(fields["fill_value"], dtype),
                codecs=tuple(fields["codecs"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"array metadata cannot be read: {type(error).__name__}: {error}") from None

    def with_shape(self, shape: tuple[int, ...]) -> ArrayMetadata:
        """The same array at another shape."""
        return replace(self, shape=shape)

    @cached_property
    def codec(self) -> Codec:
        """The codec of the chain."""
        return codec_for(list(self.codecs), dtypes.dtype_to_json(self.dtype), self.dtype, self.chunks)

    @cached_property
    def decoding(self) -> tuple[str, tuple[int, ...], str]:
        """What, beside the blob, decides the decoded chunk: part of its key in the memory cache."""
        return str(dtypes.dtype_to_json(self.dtype)), self.chunks, json.dumps(self.codecs)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one decoded chunk."""
        return int(np.prod(self.chunks, dtype=np.int64)) * self.dtype.itemsize

    def stored_like(self, other: ArrayMetadata) -> bool:
        """Whether chunks of both mean the same: equal chunk shape, dtype, codecs and fill value, bit for bit."""
        one, two = ((m.chunks, m.dtype, m.codecs, m.fill.tobytes(), len(m.shape)) for m in (self, other))
        return one == two

    def describe(self) -> str:
        """One line for error messages."""
        names = ", ".join(one["name"] for one in self.codecs)
        return f"shape {self.shape}, dtype {self.dtype}, chunks {self.chunks}, fill {self.fill}, codecs [{names}]"
