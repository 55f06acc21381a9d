"""Writing packs: blobs laid back to back in large immutable objects, uploaded as they fill."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import cast

from hubarray.blobs.pools import core_count, pools
from hubarray.blobs.ref import Refs, blob_hash, homes, make_ref, new_id, pack_key
from hubarray.errors import HubError, StorageError
from hubarray.storage.base import Buffer, Store

PACK_BYTES = 16 << 20
OWN_PACK_BYTES = 1 << 20
UPLOADING_BYTES_A_CORE = 32 << 20
MIN_UPLOADING_BYTES, MAX_UPLOADING_BYTES = 64 << 20, 512 << 20


def uploading_bytes(cores: int) -> int:
    """How much may be on its way up at once: more cores encode more, and keep a faster line busy.

    Examples
    --------
    >>> [uploading_bytes(cores) >> 20 for cores in (1, 2, 8, 96)]
    [64, 64, 256, 512]
    """
    return min(max(UPLOADING_BYTES_A_CORE * cores, MIN_UPLOADING_BYTES), MAX_UPLOADING_BYTES)


class PackWriter:
    """Lays the blobs of one transaction into packs.

    Blobs below 1 MiB share packs of about 16 MiB, in the order they are added;
    a larger one is a pack by itself. Refs are known at once, but what they
    point to is durable only after :meth:`finish`. Held are at most one open
    pack and :func:`uploading_bytes` (twice that where fsspec uploads, which
    takes one buffer).

    Parameters
    ----------
    store : Store
    home : str
        ``owner/name`` that the packs belong to.
    max_bytes : int, optional
        How much may be on its way up at once; :func:`uploading_bytes` of the cores by default.

    Attributes
    ----------
    small : (str, list of buffers) or None
        The key and the pieces of the last pack, where it has less than a MiB.
    """

    def __init__(self, store: Store, home: str, *, max_bytes: int | None = None) -> None:
        self._store = store
        self._home = home
        self._home_index = homes.index(home)
        self._begin_pack()
        self._uploads: dict[Future[None], int] = {}
        self._uploading_bytes = 0
        self._max_bytes = max_bytes or uploading_bytes(core_count())
        self._keys: list[str] = []
        self._failure: Exception | None = None
        self.small: tuple[str, list[Buffer]] | None = None

    def add(self, blob: Buffer | Sequence[Buffer], digest: bytes | None = None) -> Refs:
        """Add a blob, whole or in pieces that follow each other; its hash may be known already. Returns its ref."""
        pieces = list(blob) if isinstance(blob, (list, tuple)) else [cast(Buffer, blob)]
        size = sum(map(len, pieces))
        if digest is None:
            digest = blob_hash(*pieces)
        if size >= OWN_PACK_BYTES:
            pack = new_id()
            self._upload(pack, pieces)
            return make_ref(self._home_index, pack, 0, size, digest)
        ref = make_ref(self._home_index, self._open_id, self._open_bytes, size, digest)
        self._open += pieces
        self._open_bytes += size
        if self._open_bytes >= PACK_BYTES:
            self._close_open()
        return ref

    def finish(self) -> None:
        """Wait until everything added is durable.

        Raises
        ------
        StorageError
            An upload failed, now or before: what was to be in it has refs already.
        """
        if self._open and not self._uploads and self._open_bytes < OWN_PACK_BYTES:
            self._put(self._open_id, self._open)
            self.small = pack_key(self._home, self._open_id), self._open
            self._begin_pack()
        elif self._open:
            self._close_open()
        self._wait_below(0)

    def abandon(self) -> None:
        """Give up: stop uploading, and delete what was uploaded if the store lets us.

        Only for packs that no commit record was ever tried with.
        """
        for upload in self._uploads:
            upload.cancel()
        wait([upload for upload in self._uploads if not upload.cancelled()], timeout=1.0)
        self._open.clear()
        with contextlib.suppress(HubError):
            self._store.delete(self._keys)

    def _close_open(self) -> None:
        self._upload(self._open_id, self._open)
        # Only now: interrupted before, its blobs are still to be uploaded.
        self._begin_pack()

    def _begin_pack(self) -> None:
        self._open: list[Buffer] = []
        self._open_bytes = 0
        self._open_id = new_id()

    def _upload(self, pack: str, blobs: list[Buffer]) -> None:
        size = sum(len(blob) for blob in blobs)
        self._wait_below(max(0, self._max_bytes - size))
        upload = pools.io.submit(self._put, pack, blobs)
        self._uploads[upload] = size
        self._uploading_bytes += size

    def _wait_below(self, limit_bytes: int) -> None:
        while self._uploads and self._uploading_bytes > limit_bytes:
            done, _ = wait(self._uploads, return_when=FIRST_COMPLETED)
            for upload in done:
                self._uploading_bytes -= self._uploads.pop(upload)
        if self._failure is not None:
            raise self._failure

    def _put(self, pack: str, blobs: list[Buffer]) -> None:
        key = pack_key(self._home, pack)
        self._keys.append(key)
        try:
            self._store.put(key, blobs, atomic=False)
        except Exception as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = StorageError(f"{self._store.where(key)}: its upload was interrupted; write it again")
            raise
