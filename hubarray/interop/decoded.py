"""The physical values of a packed array, decoded when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import process
from hubarray.arrays.handle import ArrayHandle
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.interop import blocks
from hubarray.interop.statistics.lazy import LazyView
from hubarray.readers.array_columns import DecodedRows
from hubarray.values import packing

if TYPE_CHECKING:
    import dask.array as da


class DecodedView(LazyView):
    """A part of one commit of a packed array, as the values that its counts stand for: ``a.decoded[0:10]``.

    Integers and slices give further views. ``np.asarray(view)`` reads the values: ``count * scale_factor +
    add_offset``, NaN where ``_FillValue`` or ``missing_value`` stands. Statistics are those of the values.

    Examples
    --------
    >>> import hubarray as hub
    >>> attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999}
    >>> a = hub.array(3, "docs/decoded:v0", dtype="int16", attrs=attrs)
    >>> a[:] = [2, -999, 4]
    >>> np.asarray(a.decoded[0:2]), float(np.nanmean(a.decoded))
    (array([11., nan]), 11.5)
    """

    def __init__(
        self, array: ArrayHandle, axes: tuple[blocks.Axis, ...] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(array, axes)
        self._attrs = dict(self._array.attrs) if attrs is None else attrs
        packing.require_packed(self._attrs, self._array.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the values."""
        return packing.decoded_dtype(self._attrs, self._array.dtype)

    def __repr__(self) -> str:
        return f"<hubarray.DecodedView of {self._array!r}: shape {self.shape}, dtype {self.dtype}>"

    def __getitem__(self, key: Any) -> DecodedView:
        return DecodedView(self._array, blocks.index(self._axes, key), self._attrs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        result = packing.decoded(np.asarray(super().__array__(copy=copy)), self._attrs)
        return result if dtype is None else result.astype(dtype, copy=False)

    def to_dask(self, *, block_bytes: int = 64 << 20) -> da.Array:
        """The values as a Dask array; see :meth:`hubarray.Array.to_dask`."""
        counts = super().to_dask(block_bytes=block_bytes)
        return counts.map_blocks(
            packing.decoded, self._attrs, dtype=self.dtype, meta=np.zeros((0,) * counts.ndim, self.dtype)
        )

    def decoded_rows(self) -> DecodedRows:
        """The rows of the whole array for readers, which take ``a.decoded`` where they take ``a``.

        Raises
        ------
        ConfigError
            It is a part of the array: readers choose rows by ``rows=``.
        """
        if self._axes != tuple(range(n) for n in self._array.shape):
            raise ConfigError("a part of a packed array is not a column: give a.decoded whole, and choose with rows=")
        return DecodedRows(self._array, self._attrs)

    def to_pytorch(self, *others: Any, **options: Any) -> Any:
        """A PyTorch dataset of the values; see :meth:`hubarray.Array.to_pytorch`."""
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.samples import to_pytorch
        view: Any = self
        return to_pytorch(view, others, **options)

    def to_tensorflow(self, *others: Any, **options: Any) -> Any:
        """A ``tf.data.Dataset`` of the values; see :meth:`hubarray.Array.to_tensorflow`."""
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import to_tensorflow
        view: Any = self
        return to_tensorflow(view, others, **options)

    def _from_stored_chunks(self, function: str, options: dict[str, Any]) -> Any | None:
        """Nothing: what was never written is fill value, which stands for a missing value here."""
        return None
