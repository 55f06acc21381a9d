"""Sources of rows, and the rules for all of them: errors in our terms, no links out, bounded rows."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import stat
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from hubarray.errors import ConfigError, HubError, SourceError
from hubarray.limits import Budget
from hubarray.redaction import hidden_urls, shown_text

log = logging.getLogger("hubarray.interop")

MAX_ROW_BYTES = 512 << 20
MAX_SOURCE_BYTES = 1 << 50
# What a file may stand for beyond what it holds: more than compression makes of anything but constants.
MAX_UNPACKED = 10_000
_TEXT_BYTES = 4096
ALWAYS_BYTES = 16 << 30
# Each chunk that is stored takes a byte at least; so many may be missing.
_ALWAYS_CHUNKS = 1 << 20
_SHOWN_KEYS = 20


class ImportSource(Protocol):
    """Rows to import.

    Attributes
    ----------
    where : str
        For messages, fit to be shown.
    rows : int or None
        How many, if it is known before they are read.
    row_shape : tuple of int
    dtype : dtype
    attrs : dict
        JSON values that came along.
    dims : tuple of (str or None), or None
        Names of all axes.
    fingerprint : list or None
        JSON that changes when the source does, or None if that is unknown or the source can only be read once.
    """

    where: str
    rows: int | None
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attrs: dict[str, Any]
    dims: tuple[str | None, ...] | None
    fingerprint: list[Any] | None

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """Iterate over rows from ``start``, with at most this number at a time."""

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """Iterate over the parts of a row that is too large for memory: their positions in the row, and their values.

        Raises
        ------
        SourceError
            This source has rows whole only, and this one is larger than 512 MiB.
        """


def whole_parts(source: ImportSource, row: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
    """:meth:`ImportSource.parts` of a source that has rows whole only."""
    for rows in source.blocks(row, 1):
        yield (), rows[0]
        return


def row_bytes(source: ImportSource) -> int:
    """Bytes of one row, at least 1; of text of any length a guess."""
    element_bytes = _TEXT_BYTES if source.dtype.kind == "T" else source.dtype.itemsize
    return max(1, math.prod(source.row_shape) * element_bytes)


def check_sizes(source: ImportSource, *, whole_rows: bool, stored_bytes: int | None = None) -> None:
    """Refuse, by what is declared alone, what would take more memory or time than can be meant.

    Parameters
    ----------
    source : Source
    whole_rows : bool
        Whether only whole rows can be read.
    stored_bytes : int, optional
        The size of its files, if known.

    Raises
    ------
    SourceError
    """
    if not source.dtype.itemsize:
        raise SourceError(f"{source.where}: its elements, of dtype {source.dtype.str!r}, have no bytes")
    size = row_bytes(source)
    if whole_rows and size > MAX_ROW_BYTES:
        raise SourceError(
            f"{source.where}: a row of it takes {size:,} bytes and can only be read whole, which is done up to "
            f"{MAX_ROW_BYTES:,}; make the array with hub.array, and assign it in parts"
        )
    if source.rows is not None and source.rows * size > MAX_SOURCE_BYTES:
        raise SourceError(
            f"{source.where}: declares {source.rows:,} rows of {size:,} bytes, more than can be copied; make "
            "the array with hub.array, and assign what is there"
        )
    if source.rows is None or stored_bytes is None:
        return
    if source.rows * size > max(ALWAYS_BYTES, MAX_UNPACKED * stored_bytes):
        raise SourceError(
            f"{source.where}: declares {source.rows:,} rows of {size:,} bytes, and its files have "
            f"{stored_bytes:,} bytes in all; make the array with hub.array, and assign what is there"
        )


def check_chunks(where: str, array: Any, stored_bytes: int | None, max_decoded_bytes: int) -> None:
    """Refuse, by what is declared, chunks that are too large to be decoded whole, or too many to be looked for.

    Parameters
    ----------
    where : str
    array : h5py.Dataset or zarr.Array
    stored_bytes : int or None
        The size of its files, or None if unknown.
    max_decoded_bytes : int

    Raises
    ------
    SourceError
    ConfigError
        A dataset of HDF5 has no shape at all.
    """
    if array.shape is None:
        raise ConfigError(f"{where}: is a null dataset, which has neither elements nor a shape")
    chunks = array.chunks or array.shape
    decoded = getattr(array, "shards", None) or array.chunks or ()
    Budget(max_decoded_bytes, f"{where}: a chunk").take(math.prod(decoded) * array.dtype.itemsize)
    count = math.prod(-(-n // max(1, size)) for n, size in zip(array.shape, chunks, strict=True))
    if stored_bytes is not None and count > max(_ALWAYS_CHUNKS, stored_bytes):
        raise SourceError(
            f"{where}: declares {count:,} chunks, and its files have {stored_bytes:,} bytes in all; make the "
            "array with hub.array, and assign what is there"
        )


@contextlib.contextmanager
def readable(where: str) -> Iterator[None]:
    """Whatever goes wrong in a library that reads a source, in our terms; ``where`` is fit to be shown."""
    try:
        yield
    except (HubError, MemoryError):
        raise
    except FileNotFoundError as error:
        below = error.__cause__ or error.__context__
        if below is not None and _is_of_the_network(below):
            # fsspec says that a file is missing whatever went wrong on the way to it.
            raise SourceError(f"{where}: the server cannot be reached: {_said(below)}") from None
        raise SourceError(f"{where}: there is no such file ({_said(error)})") from None
    except Exception as error:
        raise SourceError(f"{where}: cannot be read: {type(error).__name__}: {_said(error)}") from None


def _is_of_the_network(error: BaseException) -> bool:
    reached = getattr(error, "status", None) is not None
    return not reached and (isinstance(error, OSError) or type(error).__module__.startswith("aiohttp"))


def _said(error: BaseException) -> str:
    return shown_text(hidden_urls(str(error)))[:500]


def stamp(path: str) -> list[Any]:
    """A mark that changes when a local file does."""
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


def chosen(where: str, key: str | None, keys: list[str]) -> str:
    """The one of several arrays that is meant."""
    if key is None and len(keys) == 1:
        return keys[0]
    if key not in keys:
        choice = "choose one with key= (--key)" if key is None else f"not {key!r}"
        shown = ", ".join(sorted(map(shown_text, keys))[:_SHOWN_KEYS]) or "no array"
        more = f" and {len(keys) - _SHOWN_KEYS:,} more" if len(keys) > _SHOWN_KEYS else ""
        raise ConfigError(f"{where}: holds {shown}{more}; {choice}")
    return key


def require_file(path: str) -> None:
    """Refuse a path that would block forever, or is not a file, before it is opened.

    Raises
    ------
    SourceError
    """
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SourceError(f"{path}: is neither a file nor a folder, so it is not opened")


def refuse_links_out(folder: str, paths: Iterator[str] | list[str]) -> None:
    """Refuse paths below a folder that a link has led out of it: they may be any file of this machine.

    Raises
    ------
    SourceError
    """
    inside = os.path.join(os.path.realpath(folder), "")
    for path in paths:
        require_file(path)
        real = os.path.realpath(path)
        if not real.startswith(inside):
            raise link_refused(path, f"leads out of {folder}")


def link_refused(what: str, why: str) -> SourceError:
    """The error for data that lies elsewhere than in the source that was named."""
    return SourceError(
        f"{what}: {why}, so it could be any file on this machine; pass follow_links=True (--follow-links) to the "
        "import if that is meant"
    )


def tree(folder: str) -> list[str]:
    """Every file below a folder, sorted; folders that are links are entered only if they stay inside it."""
    paths = []
    for inner, folders, names in os.walk(folder):
        paths += [os.path.join(inner, name) for name in names]
        paths += [os.path.join(inner, name) for name in folders if os.path.islink(os.path.join(inner, name))]
    return sorted(paths)
