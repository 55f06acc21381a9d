"""Text in chunks: code points are checked where chunks become bytes and bytes chunks.

NumPy keeps text as UTF-32, and checks code points only when an element is read. An invalid code point is then a
SystemError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, CorruptDataError
from hubarray.storage.base import Buffer

_LAST_CODE_POINT = 0x10FFFF


def has_text(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype hold UTF-32 text, in a field or whole."""
    return dtype.kind == "U" or any(dtype[name].kind == "U" for name in dtype.names or ())


def is_text(chunk: np.ndarray) -> bool:
    """Whether all text of a contiguous chunk is code points of Unicode.

    Examples
    --------
    >>> is_text(np.array(["cat"])), is_text(np.array([0x110000], "u4").view("U1"))
    (True, False)
    """
    if chunk.dtype.names is not None:
        return all(is_text(np.ascontiguousarray(chunk[name])) for name in chunk.dtype.names)
    if chunk.dtype.kind != "U" or not chunk.size:
        return True
    return int(chunk.reshape(-1).view("<u4").max()) <= _LAST_CODE_POINT


@dataclass(frozen=True)
class TextCodec:
    """A chain for chunks that hold text; see :class:`hubarray.arrays.codecs.codecs.Codec`."""

    chain: Any

    def encode(self, chunk: np.ndarray) -> Buffer:
        """Refuses what could not be read again."""
        if not is_text(chunk):
            raise ConfigError(
                "text to be written has code points beyond U+10FFFF; such bytes are no text: store them as V"
            )
        encoded: Buffer = self.chain.encode(chunk)
        return encoded

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        """Refuses what NumPy could not show."""
        self.chain.decode(data, out)
        if not is_text(out):
            raise CorruptDataError("its text has code points beyond U+10FFFF")

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        """Never: it is looked at first."""
        return None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        """Never."""
        return False
