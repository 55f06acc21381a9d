"""Files of audio and video: which container they are, and how long they say that they are. Pure, given an open file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_BEGINNINGS = (
    (b"fLaC", "flac"), (b"OggS", "ogg"), (b"ID3", "mp3"), (b"\xff\xfb", "mp3"), (b"\xff\xf3", "mp3"),
    (b"\xff\xf2", "mp3"), (b"\x1aE\xdf\xa3", "matroska"),
)  # fmt: skip
_OF_RIFF = {b"WAVE": "wav", b"AVI ": "avi"}
_BY_SUFFIX = {
    ".wav": "wav", ".flac": "flac", ".mp3": "mp3", ".ogg": "ogg", ".mp4": "mov", ".mov": "mov", ".mkv": "matroska",
    ".webm": "matroska", ".avi": "avi",
}  # fmt: skip
_MATROSKA_SEGMENT = b"\x18S\x80g"
_UNKNOWN_32_BITS = (0, 0xFFFFFFFF)
_MAX_BOXES = 1 << 16


def container_of(file: BinaryIO, name: str) -> str | None:
    """The name that FFmpeg has for the container of an open file: by its content, else by the suffix of its name."""
    begin = _read_at(file, 0, 12)
    if begin[:4] == b"RIFF":
        return _OF_RIFF.get(begin[8:12])
    if begin[4:8] == b"ftyp":
        return "mov"
    recognised = next((container for beginning, container in _BEGINNINGS if begin.startswith(beginning)), None)
    return recognised or _BY_SUFFIX.get(Path(name).suffix.lower())


def declared_bytes(file: BinaryIO, container: str) -> int | None:
    """How long a file says that it is; None if its container does not say, or its writer did not get to it.

    Parameters
    ----------
    file : binary file
    container : str
        As :func:`container_of` names it.

    References
    ----------
    RIFF: Microsoft, "Resource Interchange File Format Services". Matroska: RFC 9559, RFC 8794. MP4: ISO/IEC 14496-12.
    """
    if container in ("wav", "avi"):
        begin = _read_at(file, 0, 8)
        size = int.from_bytes(begin[4:], "little")
        return None if begin[:4] != b"RIFF" or size in _UNKNOWN_32_BITS else size + 8
    if container == "matroska":
        return _matroska_bytes(file)
    return _mp4_bytes(file) if container == "mov" else None


def _read_at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


def _matroska_bytes(file: BinaryIO) -> int | None:
    """The end of the segment, which follows the header."""
    width, size = _matroska_size(_read_at(file, 4, 8))
    if size is None:
        return None
    at = 4 + width + size
    begin = _read_at(file, at, 12)
    if begin[:4] != _MATROSKA_SEGMENT:
        return None
    width, size = _matroska_size(begin[4:])
    return None if size is None else at + 4 + width + size


def _matroska_size(data: bytes) -> tuple[int, int | None]:
    """The width and the value of a size: as many leading zero bits as further bytes; all ones means unknown."""
    if not data or not data[0]:
        return 0, None
    width = 9 - data[0].bit_length()
    if len(data) < width:
        return 0, None
    most = (1 << 7 * width) - 1
    size = int.from_bytes(data[:width], "big") & most
    return width, None if size == most else size


def _mp4_bytes(file: BinaryIO) -> int | None:
    """The end of the last box at the top."""
    total = file.seek(0, 2)
    at = 0
    for _ in range(_MAX_BOXES):
        if at + 8 > total:
            return at
        header = _read_at(file, at, 16)
        size = int.from_bytes(header[:4], "big")
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        # The last one may go to the end of the file.
        if size < 8:
            return total if size == 0 else None
        at += size
    return None
