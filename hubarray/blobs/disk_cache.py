"""The disk cache: encoded bytes in files, shared by all processes of a user, within a budget.

Keys name immutable bytes, but for those that say which record of a version was the newest; nothing else in it can be
stale. The reader hashes the bytes. Space is reserved under a file lock by creating the temporary file at its full size,
so the budget holds whatever process is killed when. Nothing here ever fails a read or write of the user: a full disk or
a read-only folder means carrying on uncached, and so does a folder that another user owns or may write to.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import stat
import threading
import time
from pathlib import Path

from hubarray import process
from hubarray.blobs.cache_space import TEMPORARY_PREFIX, CacheSpace
from hubarray.storage.base import Buffer

log = logging.getLogger("hubarray.cache")

_TOUCH_SECONDS = 60.0


class DiskCache:
    """Byte strings by key, in files.

    Parameters
    ----------
    folder : str or path
        Made when needed, mode 0700; files are 0600.
    budget_bytes : int
        The files never take more, temporary ones included.

    Attributes
    ----------
    space : CacheSpace
        The folder, and the room in it.
    hits, misses : int
        Of this process.
    """

    def __init__(self, folder: str | os.PathLike[str], budget_bytes: int) -> None:
        self.space = CacheSpace(folder, budget_bytes)
        self._found_damage = False
        self.hits = self.misses = 0
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    @property
    def budget_bytes(self) -> int:
        """The bytes that the files may take."""
        return self.space.budget_bytes

    def get(self, key: str, *, counted: bool = True) -> bytes | None:
        """The bytes, or None. Marks them as used, and counts a hit or a miss."""
        data = None
        descriptor = self.open(key)
        if descriptor is not None:
            try:
                size = os.fstat(descriptor).st_size
                # Nothing larger is put, so it was not put by us.
                data = os.read(descriptor, size) if size <= self.budget_bytes // 4 else None
            except OSError:
                pass
            finally:
                os.close(descriptor)
        if counted:
            self.count(hits=data is not None, misses=data is None)
        return data

    def open(self, key: str) -> int | None:
        """A descriptor to read the file of a key, for the caller to close; None if there is none. Marks it as used."""
        if not self.space.is_trusted():
            return None
        try:
            descriptor = os.open(self.path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            return None
        self._touch(descriptor, status)
        return descriptor

    @staticmethod
    def _touch(descriptor: int, status: os.stat_result) -> None:
        """Mark a file as used; to the minute is enough."""
        if time.time() - status.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(descriptor)

    def has(self, key: str) -> bool:
        """Whether a file is there for a key; it may be gone a moment later."""
        return self.space.is_trusted() and os.path.exists(self.path(key))

    def put(self, key: str, data: Buffer, *, replace: bool = False) -> None:
        """Keep bytes, unless they are more than a quarter of the budget; with ``replace`` in place of those there."""
        size = len(data)
        if not self.space.writable or size > self.budget_bytes // 4:
            return
        path = self.path(key)
        temporary = f"{os.path.dirname(path)}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            self.space.make_folder(Path(path).parent)
            descriptor = self._reserve(path, temporary, size, replace)
            if descriptor is None:
                return
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.rename(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            self.space.complain(error)

    def forget(self, key: str) -> None:
        """Remove what is kept for a key, if anything is."""
        if self.space.is_trusted():
            with contextlib.suppress(OSError):
                os.unlink(self.path(key))

    def reject(self, key: str) -> None:
        """Forget a file whose bytes turned out to be wrong: a miss after all."""
        self.count(hits=-1, misses=1)
        with self._lock:
            was_found, self._found_damage = self._found_damage, True
        if not was_found:
            log.warning("%s: a cached file is damaged, and is fetched again; check the disk", self.path(key))
        self.forget(key)

    def path(self, key: str) -> str:
        """The file of a key; its folder is made when something is put."""
        digest = hashlib.blake2b(key.encode(), digest_size=20).hexdigest()
        return f"{self.space.folder}/{digest[0]}/{digest[1:]}"

    def _reserve(self, path: str, temporary: str, size: int, replace: bool) -> int | None:
        with self.space.locked():
            if not replace and os.path.exists(path):
                return None
            if not self.space.make_room(size):
                return None
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, size)
            except BaseException:
                os.close(descriptor)
                os.unlink(temporary)
                raise
            return descriptor

    def count(self, *, hits: int = 0, misses: int = 0) -> None:
        """Add to the counters."""
        with self._lock:
            self.hits += hits
            self.misses += misses
