"""Text of any length that lies in a source, read in parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import ALWAYS_BYTES, MAX_UNPACKED
from hubarray.values.foreign import TEXT

_ONLY_TEXT = np.dtypes.StringDType(coerce=False)
# Of texts that are all as long as the file: what is read at a time; and of all that one call gives.
_TEXTS_BYTES = 128 << 20
_TEXTS_AT_A_TIME = (16, 4096, 65536)
_MAX_BLOCK_BYTES = 1 << 30


class Texts:
    """Text of any length, as NumPy's StringDType.

    Parameters
    ----------
    source : array
        Of ``str`` objects, or what NumPy turns into them.
    shape : tuple of int
    stored_bytes : int or None
        The size of the source, which limits the length of a text, the texts per read and their total, so that a file
        cannot repeat one long text endlessly.
    """

    dtype = TEXT

    def __init__(self, where: str, source: Any, shape: tuple[int, ...], stored_bytes: int | None) -> None:
        least, usual, most = _TEXTS_AT_A_TIME
        texts = usual if stored_bytes is None else min(max(_TEXTS_BYTES // max(1, stored_bytes), least), most)
        self.shape = shape
        self.chunks = getattr(source, "chunks", None)
        self._where, self._source, self._found_bytes = where, source, 0
        self._max_bytes = math.inf if stored_bytes is None else max(ALWAYS_BYTES, MAX_UNPACKED * stored_bytes)
        self._texts_at_a_time = texts

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray:
        if not isinstance(key, slice):
            return self._texts(key)
        first, end, _ = key.indices(self.shape[0])
        out = np.empty((end - first, *self.shape[1:]), TEXT)
        held = 0
        for box in _boxes(out.shape, self._texts_at_a_time):
            begin = box[0]
            part = self._texts((slice(first + begin.start, first + begin.stop), *box[1:]))
            held += 4 * int(np.strings.str_len(part).sum())
            if held > _MAX_BLOCK_BYTES:
                raise SourceError(
                    f"{self._where}: its texts take more than {_MAX_BLOCK_BYTES:,} bytes in {end - first:,} rows; "
                    "make the array with hub.array, and assign them in parts"
                )
            out[box] = part
        return out

    def _texts(self, key: Any) -> np.ndarray:
        values = np.asarray(self._source[key])
        try:
            texts = values.astype(_ONLY_TEXT).astype(TEXT)
        except ValueError:
            raise ConfigError("text of any length among other things; give all of it one type") from None
        self._found_bytes += 4 * int(np.strings.str_len(texts).sum())
        if self._found_bytes > self._max_bytes:
            raise SourceError(
                f"{self._where}: its texts have more than {self._found_bytes:,} bytes, and its file {MAX_UNPACKED} "
                "times fewer; make the array with hub.array, and assign what is there"
            )
        return texts


def _boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Iterate over boxes with at most this number of elements, which together cover the shape.

    Examples
    --------
    >>> list(_boxes((3, 2), 4))
    [(slice(0, 2, None), slice(0, 2, None)), (slice(2, 3, None), slice(0, 2, None))]
    """
    steps = list(shape)
    for axis, length in enumerate(shape):
        steps[axis] = max(1, min(length, most // max(1, math.prod(shape[axis + 1 :]))))
    begins = (range(0, length, step) for length, step in zip(shape, steps, strict=True))
    for corner in itertools.product(*begins):
        yield tuple(slice(at, min(at + step, n)) for at, step, n in zip(corner, steps, shape, strict=True))
