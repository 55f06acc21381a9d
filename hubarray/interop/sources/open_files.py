"""Arrays and groups that somebody has open already, in h5py or zarr-python."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.interop.sources.found import Found
from hubarray.interop.sources.hdf5 import (
    hdf5_array,
    hdf5_rows,
    members_of_group,
    refuse_data_elsewhere,
    refuse_external_links,
)
from hubarray.interop.sources.members import Members
from hubarray.interop.sources.sliced import Single, SlicedSource
from hubarray.interop.sources.zarr_files import members_of_zarr, refuse_links_of_store, zarr_array, zarr_rows
from hubarray.redaction import shown_text


def opened_at(source: Any, key: str | None, *, follow_links: bool) -> tuple[Any, str | None]:
    """The array or group that a key names in one that h5py or zarr-python has open; anything else as it is.

    Raises
    ------
    SourceError
        It lies in another file, and ``follow_links`` does not allow that.
    ConfigError
    """
    package = type(source).__module__.partition(".")[0]
    if key is None or package not in ("h5py", "zarr") or hasattr(source, "shape"):
        return source, key
    if package == "h5py" and not follow_links:
        h5py = needed("h5py", extra="hdf5", why="importing HDF5")
        refuse_external_links(h5py, source.file, posixpath.join(source.name, key.strip("/")), source.file.filename)
    if package == "zarr" and not follow_links:
        refuse_links_of_store(source)
    try:
        member = source[key.strip("/")]
    except (KeyError, ValueError):
        raise ConfigError(f"key={shown_text(key)[:80]!r}: there is no such array or group") from None
    if package == "h5py" and hasattr(member, "shape") and not follow_links:
        refuse_data_elsewhere(f"{source.file.filename}:{member.name}", member)
    return member, None


def opened_members(source: Any, *, follow_links: bool, max_decoded_bytes: int) -> Members | None:
    """All arrays of a group that somebody has opened with h5py or zarr-python; None of anything else.

    Raises
    ------
    SourceError, ConfigError
    """
    package = type(source).__module__.partition(".")[0]
    if hasattr(source, "shape") or not hasattr(source, "attrs"):
        return None
    if package == "h5py":
        where = source.file.filename
        if not os.path.isfile(where):
            raise ConfigError("an HDF5 file that is in memory: write it to a folder, and import it by its path")
        h5py = needed("h5py", extra="hdf5", why="importing HDF5")
        _flush(source.file)
        key = source.name.strip("/") or None
        return members_of_group(
            h5py, source, where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes
        )
    if package == "zarr" and hasattr(source, "members"):
        shown = shown_text(str(source.store_path))
        if not follow_links:
            refuse_links_of_store(source)
        return members_of_zarr(shown, source, None, max_decoded_bytes)
    return None


def opened_rows(source: Any, *, follow_links: bool, max_decoded_bytes: int) -> SlicedSource | Single | None:
    """An array that somebody has opened with h5py or zarr-python, by the rules for its path; None of anything else.

    Raises
    ------
    SourceError, ConfigError
    """
    package = type(source).__module__.partition(".")[0]
    if not hasattr(source, "shape"):
        return None
    if package == "h5py" and os.path.isfile(source.file.filename):
        _flush(source.file)
        return hdf5_rows(source.file.filename, source, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
    if package == "zarr":
        if not follow_links:
            refuse_links_of_store(source)
        return zarr_rows(shown_text(str(source.store_path)), source, None, max_decoded_bytes)
    return None


def _flush(file: Any) -> None:
    """Write out what a file still holds in memory: its size bounds what is read, its time tells its states apart."""
    if file.mode != "r":
        file.flush()


def opened_array(source: Any, max_decoded_bytes: int) -> Found:
    """An array that somebody has opened with h5py or zarr-python, whatever it is in; links out of that are refused.

    Raises
    ------
    SourceError, ConfigError
    """
    if type(source).__module__.partition(".")[0] == "zarr":
        named = shown_text(str(source.store_path))
        refuse_links_of_store(source)
        opened = zarr_array(named, source, stored_bytes=None, max_decoded_bytes=max_decoded_bytes)
    else:
        named = shown_text(f"{source.file.filename}:{source.name}")
        refuse_data_elsewhere(named, source)
        opened = hdf5_array(named, source, stored_bytes=None, max_decoded_bytes=max_decoded_bytes)
    return opened if source.shape else Found(Single(named, opened).value, opened.attrs)
