"""fsspec's file systems for Arrow, with the times of their files, which each of them calls otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pyarrow import fs as pafs

from hubarray.storage.refusals import status_of

# What a server says of a file that is not there; None is an exception that says nothing of a server.
_ABSENT = (None, 404, 410)
# Of local files and SFTP; of S3 and HTTP; of Azure; of Google; of memory.
_NAMES = ("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "modified", "created")


class DatedHandler(pafs.FSSpecHandler):
    """Arrow's handler of fsspec, which knows the time of a file by one name alone; and no listing is kept."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> pafs.FileInfo:
        modified = next(
            (modified for modified in (_time(info.get(name)) for name in _NAMES) if modified is not None), None
        )
        return pafs.FSSpecHandler._create_file_info(path, {**info, "mtime": modified})

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Size and time of some files."""
        self.fs.invalidate_cache()
        return [self._file_info(path) for path in paths]

    def _file_info(self, path: str) -> pafs.FileInfo:
        try:
            return self._create_file_info(path, self.fs.info(path))
        except FileNotFoundError as error:
            # fsspec's client of HTTP says so of whatever goes wrong.
            below = error.__cause__ or error.__context__
            if isinstance(below, Exception) and (isinstance(below, OSError) or status_of(below) not in _ABSENT):
                raise below from None
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        """Size and time of the files of a folder."""
        self.fs.invalidate_cache()
        return super().get_file_info_selector(selector)


def _time(value: Any) -> datetime | None:
    """A time as fsspec's file systems have it: a datetime, seconds, or text."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    try:
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value) if value[:4].isdigit() else parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return None
