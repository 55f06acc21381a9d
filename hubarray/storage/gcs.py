"""``gs://``: Google Cloud Storage, through gcsfs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hubarray.storage.base import Buffer
from hubarray.storage.filesystem import UNCACHED_OPTIONS, FilesystemStore


class GcsStore(FilesystemStore):
    """A root in a bucket of GCS, or of a server that speaks as it does."""

    no_store: ClassVar[Mapping[str, Any]] = {"fixed_key_metadata": {"cache_control": "no-store"}}

    def _filesystem(self, options: Mapping[str, Any]) -> Any:
        # The class in gcsfs's own namespace asks each new bucket for its layout first and
        # hangs for a minute where that API is absent; the plain one does all that is needed.
        from gcsfs.core import GCSFileSystem

        return GCSFileSystem(**options, **UNCACHED_OPTIONS)

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        return self._create(key, data)

    def _bucket_is_missing(self, error: Exception) -> bool:
        # GCS answers 404 for a missing object and for a missing bucket alike.
        try:
            self._call("info", self._base.partition("/")[0])
        except FileNotFoundError:
            return True
        return super()._bucket_is_missing(error)
