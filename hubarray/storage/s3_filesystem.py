"""``s3://`` through s3fs: in a forked child where :mod:`hubarray.storage.forked` cannot help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hubarray.storage.base import Buffer
from hubarray.storage.filesystem import UNCACHED_OPTIONS, FilesystemStore
from hubarray.storage.options import for_s3fs

_LIMITS = {"connect_timeout": 4, "read_timeout": 8, "retries": {"max_attempts": 3}}


class S3FilesystemStore(FilesystemStore):
    """A root in a bucket of S3, or of a server that speaks as it does."""

    no_store: ClassVar[Mapping[str, Any]] = {"CacheControl": "no-store"}

    def _filesystem(self, options: Mapping[str, Any]) -> Any:
        import s3fs

        return s3fs.S3FileSystem(**for_s3fs(options), **UNCACHED_OPTIONS, config_kwargs=_LIMITS)

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        return self._create(key, data)
