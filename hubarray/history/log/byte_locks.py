"""Locks on single bytes of a file, which the kernel gives up when their holder dies.

They are those of an open file (Linux, ``F_OFD_SETLK`` in fcntl(2)), so that the threads of a process exclude each other
too. The bytes need not be there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import sys

from hubarray import process

# Elsewhere the structure is another, or there are no such locks.
AVAILABLE = sys.platform == "linux" and struct.calcsize("P") == 8
_SET, _WAIT, _GET = (fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW, fcntl.F_OFD_GETLK) if AVAILABLE else (0, 0, 0)
_FLOCK = struct.Struct("@hhqqi4x")


class LockFile:
    """An open file, made when it is not there. A forked child closes it: it would hold the locks of its parent.

    Parameters
    ----------
    path : str

    Raises
    ------
    OSError
        Also if it is not a file, or belongs to another user.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._hold(os.open(path, flags, 0o600))
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            self.close()
            raise PermissionError(f"{path} does not belong to this user")

    def _hold(self, descriptor: int) -> None:
        self._descriptor = descriptor
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self.close()

    def again(self) -> LockFile:
        """The same open file, with the same locks, to be closed by itself."""
        other = LockFile.__new__(LockFile)
        other._hold(os.dup(self._descriptor))
        return other

    def close(self) -> None:
        """Close it; again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def read(self, length: int, start: int) -> bytes:
        """Bytes that are there, of so many."""
        return os.pread(self._descriptor, length, start)

    def write(self, data: bytes, start: int) -> None:
        """Put bytes somewhere."""
        os.pwrite(self._descriptor, data, start)

    def lock(self, byte: int) -> bool:
        """Lock a byte, if nobody has it."""
        try:
            fcntl.fcntl(self._descriptor, _SET, _flock(fcntl.F_WRLCK, byte, 1))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def wait(self, byte: int) -> None:
        """Lock a byte once nobody else has it, however long that takes."""
        fcntl.fcntl(self._descriptor, _WAIT, _flock(fcntl.F_WRLCK, byte, 1))

    def unlock(self, byte: int) -> None:
        """Give up a byte. Closing is not enough while a forked child has the file open too."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._descriptor, _SET, _flock(fcntl.F_UNLCK, byte, 1))

    def locked_by_others(self, begin: int, end: int) -> int | None:
        """A byte of a stretch that somebody else has locked; None if there is none."""
        if begin == end:
            return None
        answer = fcntl.fcntl(self._descriptor, _GET, _flock(fcntl.F_WRLCK, begin, end - begin))
        kind, _, start, _, _ = _FLOCK.unpack(answer)
        return None if kind == fcntl.F_UNLCK else start


def _flock(kind: int, start: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
