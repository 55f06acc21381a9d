"""Arrays that are to be, before they are anywhere: the arguments of :func:`hubarray.array`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.codecs import dtypes
from hubarray.arrays.codecs.codec_chains import chain_of
from hubarray.arrays.codecs.image_codecs import image_chunks, named_image_codec
from hubarray.arrays.indexing import chunking
from hubarray.arrays.metadata.metadata import ArrayMetadata, checked_dims
from hubarray.values.attributes import checked_attrs


@dataclass(frozen=True)
class ArraySpec:
    """An array of a dataset, yet to be made: see :func:`hubarray.dataset`.

    Parameters
    ----------
    shape : int or tuple of int
    dtype, chunks, codec, fill_value
        Same as in :func:`hubarray.array`.
    dims : sequence of (str or None), optional
        Names of the axes. Arrays of a dataset that share a name have the same length there, and grow together.
    attrs : mapping, optional
        JSON values, at most 64 KiB.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.ArraySpec((0, 32, 32), "uint8", dims=("sample", "y", "x")).metadata().chunks
    (256, 32, 32)
    """

    shape: int | tuple[int, ...]
    dtype: Any = "float64"
    chunks: Any = "auto"
    codec: Any = "auto"
    fill_value: Any = 0
    dims: Sequence[str | None] | None = None
    attrs: Mapping[str, Any] | None = None

    def metadata(self) -> ArrayMetadata:
        """The description that it will have.

        Raises
        ------
        ConfigError
        """
        stored = dtypes.checked_dtype(self.dtype)
        lengths = chunking.checked_shape(self.shape, dtypes.planned_bytes(stored))
        fill = dtypes.checked_fill(self.fill_value, stored)
        chunks = chunks_of(self.chunks, self.codec, lengths, stored)
        return ArrayMetadata(
            shape=lengths,
            dtype=stored,
            chunks=chunks,
            fill=dtypes.fill_from_json(dtypes.fill_to_json(fill), stored),
            codecs=tuple(chain_of(self.codec, stored, chunks)),
            dims=checked_dims(self.dims, len(lengths)),
        )

    def matches(self, stored: ArrayMetadata) -> bool:
        """Whether an array is what this asks for; chunks and codec that are left to us may be any."""
        spec_metadata = self.metadata()
        return (
            (stored.shape, stored.dtype, dtypes.fill_bytes(stored.fill))
            == (spec_metadata.shape, spec_metadata.dtype, dtypes.fill_bytes(spec_metadata.fill))
            and (_is_auto(self.chunks) or stored.chunks == spec_metadata.chunks)
            and (_is_auto(self.codec) or stored.codecs == spec_metadata.codecs)
            and (spec_metadata.dims is None or stored.dims == spec_metadata.dims)
        )

    def attributes(self) -> dict[str, Any]:
        """Its attributes, checked."""
        return checked_attrs(self.attrs)


def chunks_of(chunks: Any, codec: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The chunk shape that ``chunks=`` and ``codec=`` mean together: images are chunks by themselves.

    Raises
    ------
    ConfigError
    """
    image = named_image_codec(codec)
    if image is not None and dtype.name in image.dtypes and _is_auto(chunks):
        chunks = image_chunks(image, shape, dtype.itemsize)
    chunk_shape = chunking.checked_chunks(chunks, shape, dtypes.planned_bytes(dtype))
    dtypes.check_texts(chunk_shape, dtype)
    return chunk_shape


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
