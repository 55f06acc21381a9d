"""``s3://`` through s3fs: in a forked child where :mod:`hubarray.storage.forked` cannot help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hubarray.storage.base import Buffer, ObjectInfo
from hubarray.storage.filesystem import UNCACHED_OPTIONS, FilesystemStore, is_past_the_end
from hubarray.storage.options import for_s3fs

_LIMITS = {"connect_timeout": 4, "read_timeout": 8, "retries": {"max_attempts": 3}}


class S3FilesystemStore(FilesystemStore):
    """A root in a bucket of S3, or of a server that speaks as it does."""

    no_store: ClassVar[Mapping[str, Any]] = {"CacheControl": "no-store"}

    def _filesystem(self, options: Mapping[str, Any]) -> Any:
        import s3fs

        # Else a whole object is asked for its size first, by a HEAD, whose reply cannot say why it is refused.
        at_once = {"max_concurrency": 1}
        return s3fs.S3FileSystem(**for_s3fs(options), **UNCACHED_OPTIONS, **at_once, config_kwargs=_LIMITS)

    def _head(self, key: str) -> ObjectInfo:
        # By a GET of a byte: a reply to a HEAD has no body that could say that the bucket is gone.
        bucket, _, path = self._path(key).partition("/")
        try:
            response = self._call("call_s3", "get_object", Bucket=bucket, Key=path, Range="bytes=0-0")
        except Exception as error:
            if is_past_the_end(error):
                # An empty object has no first byte.
                return super()._head(key)
            raise self._error(error, key) from None
        response["Body"].close()
        size = response["ContentRange"].rpartition("/")[2] if "ContentRange" in response else response["ContentLength"]
        return ObjectInfo(key, int(size), response["LastModified"])

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        return self._create(key, data)
