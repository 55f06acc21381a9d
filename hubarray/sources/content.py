"""Recognize local files by their first bytes. A name only says what the file should be."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from hubarray.errors import SourceError
from hubarray.redaction import shown_text

HDF5, CLASSIC_NETCDF, NPY, NPZ = "HDF5", "NetCDF", ".npy", ".npz"
TIFF, IMAGE, AUDIO, VIDEO, PARQUET, ARROW = "TIFF", "image", "audio", "video", "Parquet", "Arrow"
# https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html, "Superblock": at 0, 512, 1024, 2048 and so on.
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAX_USER_BLOCK_BYTES = 1 << 20
_BEGINNINGS = (
    (b"\x93NUMPY", NPY), (_HDF5_SIGNATURE, HDF5), (b"CDF\x01", CLASSIC_NETCDF), (b"CDF\x02", CLASSIC_NETCDF),
    (b"CDF\x05", CLASSIC_NETCDF), (b"II*\0", TIFF), (b"MM\0*", TIFF), (b"II+\0", TIFF), (b"MM\0+", TIFF),
    (b"\x89PNG\r\n\x1a\n", IMAGE), (b"\xff\xd8\xff", IMAGE), (b"GIF8", IMAGE), (b"PAR1", PARQUET),
    (b"ARROW1\0\0", ARROW), (b"FEA1", ARROW),
    (b"fLaC", AUDIO), (b"ID3", AUDIO), (b"OggS", AUDIO), (b"\x1aE\xdf\xa3", VIDEO),
)  # fmt: skip
# What RIFF files hold, told by four letters behind their size.
_OF_RIFF = {b"WAVE": AUDIO, b"AVI ": VIDEO, b"WEBP": IMAGE}
_BY_SUFFIX = {
    ".npy": NPY, ".npz": NPZ,
    **dict.fromkeys((".h5", ".hdf5", ".hdf", ".nc", ".nc4", ".he5", ".h5ad", ".mat"), HDF5),
    **dict.fromkeys((".tif", ".tiff", ".btf", ".gtiff", ".lsm", ".svs"), TIFF),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".jfif", ".jpe", ".bmp", ".gif", ".webp", ".apng"), IMAGE),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), IMAGE),
    **dict.fromkeys((".wav", ".flac", ".mp3", ".ogg"), AUDIO),
    **dict.fromkeys((".mp4", ".mkv", ".avi", ".mov", ".webm"), VIDEO),
    **dict.fromkeys((".parquet", ".parq", ".pq"), PARQUET),
    **dict.fromkeys((".feather", ".arrow"), ARROW),
}  # fmt: skip
# Files that lie beside images and are none; the content of others tells.
_COMPANIONS = frozenset(
    (".aux", ".cfg", ".cpg", ".csv", ".dbf", ".hdr", ".html", ".ini", ".jgw", ".json", ".log", ".md", ".pgw", ".prj",
     ".py", ".rst", ".tfw", ".toml", ".tsv", ".txt", ".xml", ".yaml", ".yml")
)  # fmt: skip
# https://netpbm.sourceforge.net/doc/: a number, white space, and a width or a comment.
_NETPBM = re.compile(rb"P[1-6]\s+[\d#]")
# Image formats that hubarray does not read.
_UNREAD_IMAGES = frozenset(
    (".arw", ".avif", ".cr2", ".cr3", ".dcm", ".dib", ".dng", ".exr", ".fits", ".heic", ".heif", ".j2k", ".jp2",
     ".jpf", ".jpx", ".jxl", ".jxr", ".nef", ".pcx", ".psd", ".raf", ".svg", ".tga")
)  # fmt: skip


def kind_of(path: str) -> str | None:
    """The kind of a local file: by its content, else by the suffix of its name; None of what is not known.

    Raises
    ------
    OSError
    """
    with open(path, "rb") as file:
        return kind_of_content(file) or kind_of_name(path)


def kind_of_name(path: str) -> str | None:
    """The kind of file that the suffix of a name, or of a URL, tells.

    Examples
    --------
    >>> kind_of_name("https://host/scan.H5?version=2")
    'HDF5'
    """
    return _BY_SUFFIX.get(Path(path.split("?")[0]).suffix.lower())


def is_image_name(name: str) -> bool:
    """Return whether a name has the suffix of an image format that hubarray reads.

    Examples
    --------
    >>> [is_image_name(name) for name in ("a.PNG", "a.tif", "a.txt", "a.jp2")]
    [True, True, False, False]
    """
    return kind_of_name(name) in (IMAGE, TIFF)


def is_image(path: str) -> bool:
    """Return whether a file in a folder is an image: by its suffix, or by its content if the suffix is not known.

    Raises
    ------
    SourceError
        The file cannot be read.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _BY_SUFFIX or suffix in _UNREAD_IMAGES or suffix in _COMPANIONS or not os.path.isfile(path):
        return is_image_name(path)
    try:
        return kind_of(path) in (IMAGE, TIFF)
    except OSError as error:
        raise SourceError(f"{shown_text(path)}: cannot be read: {error.strerror}") from None


def warn_of_unread_images(where: str, paths: Iterable[str]) -> None:
    """Warn that files of a folder are left out because hubarray does not read their image format.

    Parameters
    ----------
    where : str
        The folder, fit to be shown.
    paths : iterable of str
    """
    unread = [path for path in paths if Path(path).suffix.lower() in _UNREAD_IMAGES]
    if unread:
        warnings.warn(
            f"{where}: {len(unread):,} images are left out, such as {shown_text(os.path.basename(unread[0]))}: "
            "hubarray does not read their format. Convert them to PNG or TIFF.",
            stacklevel=4,
        )


def kind_of_content(file: BinaryIO) -> str | None:
    """The kind that the content of an open file tells, which is read from its beginning; None of what is not known."""
    try:
        return _kind(file)
    finally:
        file.seek(0)


def _kind(file: BinaryIO) -> str | None:
    begin = file.read(16)
    for beginning, kind in _BEGINNINGS:
        if begin.startswith(beginning):
            return kind
    if (begin[:2] == b"BM" and begin[6:10] == bytes(4)) or _NETPBM.match(begin):
        return IMAGE
    if begin[:4] == b"RIFF":
        return _OF_RIFF.get(begin[8:12])
    if begin[4:8] == b"ftyp":
        return VIDEO
    if begin[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return NPZ if _is_npz(file) else None
    at = 512
    while at <= _MAX_USER_BLOCK_BYTES:
        file.seek(at)
        if file.read(len(_HDF5_SIGNATURE)) == _HDF5_SIGNATURE:
            return HDF5
        at *= 2
    return None


def _is_npz(file: BinaryIO) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)
