"""The disk cache's folder: whose it is, how much is in it, and what goes when room is needed.

Space is reserved under a file lock, so the budget holds whatever process is
killed when.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hubarray import process

log = logging.getLogger("hubarray.cache")

TEMPORARY_PREFIX = ".tmp-"
_ABANDONED_SECONDS = 300.0
_FULL_SHARE = 0.9
# How long to wait for the lock, and how long to do without it then.
_PATIENCE_SECONDS, _REST_SECONDS = 5.0, 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.02
_LAYOUT = "v1"
_FOR_GOOD = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOSYS, errno.EOPNOTSUPP}


class CacheSpace:
    """A folder of files that a user's processes share, within a budget.

    Parameters
    ----------
    folder : str or path
        Made when needed, mode 0700.
    budget_bytes : int
        The files never take more, temporary ones included.

    Attributes
    ----------
    writable : bool
        False once writing turned out to be impossible for good.
    failures : int
        How often writing failed.
    """

    def __init__(self, folder: str | os.PathLike[str], budget_bytes: int) -> None:
        self.folder = Path(folder).expanduser() / _LAYOUT
        self.budget_bytes = budget_bytes
        self.writable = True
        self.failures = 0
        self._rests_until = 0.0
        self._trusted: bool | None = None
        self._lock_files: set[int] = set()
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock, self._turn = threading.Lock(), threading.Lock()
        # What a thread of the parent holds would stay held for as long as this child lives, were the parent killed now.
        for descriptor in self._lock_files:
            os.close(descriptor)
        self._lock_files.clear()

    def is_trusted(self) -> bool:
        """Whether the folder is this user's alone; what others may write is not even read. Looked at once."""
        if self._trusted is None:
            try:
                status = os.lstat(self.folder)
            except OSError:
                return True
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            self._trusted = ours and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not self._trusted:
                self.complain(PermissionError(errno.EPERM, "it is another user's, or others may write to it"))
        return self._trusted

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it that are missing, each for this user alone.

        Raises
        ------
        OSError
            Also where the cache's folder is another user's, or others may write to it.
        """
        for made in (False, True):
            # Before anything is made in it, and again once it is there.
            if not self.is_trusted():
                raise PermissionError(errno.EPERM, "it is another user's, or others may write to it")
            if made or os.path.isdir(folder):
                return
            for ancestor in (*reversed(folder.parents), folder):
                if not ancestor.exists():
                    ancestor.mkdir(mode=0o700, exist_ok=True)

    @property
    def used_bytes(self) -> int:
        """Bytes in files now, found by looking at each of them."""
        return sum(status.st_size for _, status in self._files())

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        for folder in sorted(self.folder.glob("[0-9a-f]")):
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.path, entry.stat()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that threads and processes share; who reserves space holds it.

        Raises
        ------
        OSError
            Also where another process does not let go of it.
        """
        self.make_folder(self.folder)
        # One thread at a time waits for the file's lock: whenever it is given up, the kernel wakes all who wait for it.
        with self._turn:
            descriptor = os.open(f"{self.folder}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._lock_files.add(descriptor)
            try:
                self._wait_for(descriptor)
                yield
            finally:
                # Closing is not enough: a child forked meanwhile has the file open too.
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                self._lock_files.discard(descriptor)
                os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        """Take the lock of a file. A process that was stopped may hold it for ever, so there is an end to waiting."""
        began, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            now = time.monotonic()
            if now < self._rests_until or now - began > _PATIENCE_SECONDS:
                self._rests_until = max(self._rests_until, now + _REST_SECONDS)
                raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock, and may be stopped")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def make_room(self, size: int) -> bool:
        """Whether ``size`` bytes more fit the budget, once what was not used for longest is gone; under the lock.

        They count from now on, so the caller gives them to a file at once.
        """
        used = self._read_used()
        if used is None or used + size > self.budget_bytes:
            used = self._evict(size)
        fits = used + size <= self.budget_bytes
        self._write_used(used + size if fits else used)
        return fits

    def _evict(self, size: int) -> int:
        """Remove the least recently used files until ``size`` fits well; returns the bytes left."""
        now = time.time()
        files = []
        used = 0
        for path, status in self._files():
            if os.path.basename(path).startswith(TEMPORARY_PREFIX) and now - status.st_mtime > _ABANDONED_SECONDS:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                continue
            used += status.st_size
            files.append((status.st_mtime_ns, status.st_size, path))
        target = min(int(self.budget_bytes * _FULL_SHARE), self.budget_bytes - size)
        for _, file_size, path in sorted(files):
            if used <= target:
                break
            if os.path.basename(path).startswith(TEMPORARY_PREFIX):
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            used -= file_size
        return used

    def _read_used(self) -> int | None:
        try:
            descriptor = os.open(f"{self.folder}/used", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                used = int(os.read(descriptor, 64))
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return None
        return used if used >= 0 else None

    def _write_used(self, used: int) -> None:
        # Of one length, and not truncated first: ext4 takes that for a file being replaced, and waits for the disk.
        descriptor = os.open(f"{self.folder}/used", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%020d" % max(0, used))
        finally:
            os.close(descriptor)

    def complain(self, error: OSError) -> None:
        """Say once that caching does not work; a full disk may have room again later."""
        with self._lock:
            self.writable = error.errno not in _FOR_GOOD
            self.failures += 1
            first = self.failures == 1
        if first:
            log.warning("the disk cache at %s cannot be written (%s); carrying on without it", self.folder, error)
