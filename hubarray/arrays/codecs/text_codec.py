"""Text in chunks: fixed-width code points, which are checked, and Zarr v3's data type ``string`` of any length.

Text of any length is encoded by the codec ``vlen-utf8`` and one compressor. The format is that of
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8: the number of texts, then the length and
the UTF-8 of each text. Numbers are 4 bytes in little-endian order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numcodecs.vlen import VLenUTF8

from hubarray.arrays.codecs.compressors import COMPRESSORS, Compressor
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.limits import ANNOUNCED, decompressed, max_encoded_bytes
from hubarray.storage.base import Buffer

# NumPy checks code points only when an element is read; an invalid one is then a SystemError.
_LAST_CODE_POINT = 0x10FFFF
TEXT_CODEC = {"name": "vlen-utf8"}
# Of all texts of a chunk, with four bytes for the length of each.
MAX_TEXT_BYTES = 256 << 20
_COUNT_BYTES = 4
_MAX_CODECS = 2


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
                "text to be written has code points beyond U+10FFFF; such bytes are not text; store them as V"
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


def text_codec(chain: Sequence[Mapping[str, Any]]) -> TextsCodec:
    """The codec of a chain for text of any length.

    Raises
    ------
    ConfigError
        It is another chain than ``vlen-utf8`` and one compressor.
    """
    compressors = chain[1:]
    known = chain[0] in (TEXT_CODEC, {**TEXT_CODEC, "configuration": {}}) and len(chain) <= _MAX_CODECS
    rows = [COMPRESSORS.get(compressor["name"]) for compressor in compressors]
    settings = [compressor.get("configuration", {}) for compressor in compressors]
    if known and all(row is not None and row.takes(of) for row, of in zip(rows, settings, strict=True)):
        try:
            made = [(row, row.made(of), of) for row, of in zip(rows, settings, strict=True) if row is not None]
        except (KeyError, ValueError):
            made = None
        if made is not None:
            return TextsCodec(*made[0]) if made else TextsCodec()
    raise ConfigError(f"text of any length takes the codec vlen-utf8 and one of {', '.join(COMPRESSORS)} behind it")


class TextsCodec:
    """``vlen-utf8``, and maybe a compressor; see :class:`hubarray.arrays.codecs.codecs.Codec`."""

    def __init__(
        self, row: Compressor | None = None, compressor: Any = None, configuration: Mapping[str, Any] | None = None
    ) -> None:
        self._row, self._compressor, self._configuration = row, compressor, configuration or {}
        self._texts = VLenUTF8()

    def encode(self, chunk: np.ndarray) -> Buffer:
        """Refuses more than a chunk may hold."""
        data: bytearray = self._texts.encode(chunk.reshape(-1).astype(object))
        if len(data) > MAX_TEXT_BYTES:
            raise ConfigError(
                f"a chunk of {chunk.size:,} texts has {len(data):,} bytes, and {MAX_TEXT_BYTES:,} are allowed; choose "
                "smaller chunks"
            )
        return memoryview(self._compressor.encode(data)) if self._row is not None else memoryview(data)

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        """See :class:`hubarray.arrays.codecs.codecs.Codec`."""
        try:
            plain = self._decompressed(data)
            count = int.from_bytes(plain[:_COUNT_BYTES], "little")
            # Room is made for as many as it says.
            if len(plain) < _COUNT_BYTES or count != out.size:
                raise CorruptDataError(f"a chunk declares {count:,} texts, and {out.size:,} were expected")
            out[...] = self._texts.decode(plain).reshape(out.shape)
        except (ValueError, RuntimeError, TypeError) as error:
            raise CorruptDataError(f"a chunk does not decode: {error}") from None

    def _decompressed(self, data: Buffer) -> bytes | np.ndarray:
        """The bytes behind the compressor, which are bounded first.

        Raises
        ------
        ValueError, RuntimeError, TypeError
        """
        if self._row is None:
            return bytes(data)
        name = self._row.name.removeprefix("numcodecs.")
        if name not in ANNOUNCED:
            return decompressed(name, data, MAX_TEXT_BYTES, self._configuration)
        size = ANNOUNCED[name](data)
        if size > MAX_TEXT_BYTES:
            raise ValueError(f"it declares {size:,} bytes, and {MAX_TEXT_BYTES:,} are allowed")
        plain = np.empty(size, "u1")
        if self._row.decode_into(self._compressor, data, plain) != size:
            raise ValueError("it holds another number of bytes than it declares")
        return plain

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        """Never: text has no place in memory that is filled from outside."""
        return None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        """Never."""
        return False


def max_text_blob_bytes() -> int:
    """How long an encoded chunk of text may be."""
    return max_encoded_bytes(MAX_TEXT_BYTES)


def held_bytes(chunk: np.ndarray) -> int:
    """Bytes that a chunk takes in memory, with its text."""
    if chunk.dtype.kind != "T":
        return chunk.nbytes
    return chunk.nbytes + 4 * int(np.strings.str_len(chunk).sum())
