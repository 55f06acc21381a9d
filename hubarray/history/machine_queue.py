"""The queue of one machine's writers of a version: first come, first served, by locks on a small file.

Politeness only. Who commits is decided by the log alone, whatever becomes of the file: a writer that cannot use it goes
ahead without a turn, one that is killed is passed over, as the kernel gives up its locks, and nobody waits for long for
one that makes no headway.

The file has 64 bytes: the next ticket, the one whose turn it is, the newest commit that this machine's writers know,
and what they know of the traffic (:class:`hubarray.history.turns.Traffic`). Nothing in it is believed but as a hint. A
writer takes the next ticket, and has the byte with that number, far beyond the file's end, locked until it is done; it
is a writer's turn when no byte before its own is locked. Each waits for the byte before its own, so that one is woken.

A process that commits again at once keeps its turn for a few commits: what they need is still in its memory and in the
processor's caches, which makes them twice as fast as the first one after others'.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import queue
import stat
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from hubarray import config, process
from hubarray.history.turns import STATE_BYTES, Traffic

# Locks of an open file rather than of a process; elsewhere their structure is another, and there are no turns.
_LOCKS = sys.platform == "linux" and struct.calcsize("P") == 8
_SET, _WAIT, _GET = (fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW, fcntl.F_OFD_GETLK) if _LOCKS else (0, 0, 0)

log = logging.getLogger("hubarray.turns")

STALLED_SECONDS = 1.0
"""How long one waits for writers of which none gets on."""
WITHOUT_SECONDS = 10.0
"""How long one that waited in vain goes without turns."""
MOST_COMMITS = 3
"""How many commits a turn has, where others wait."""
_LINGER_SECONDS = 0.001
_KEPT_OPEN_SECONDS = 5.0
_TICKET_ATTEMPTS = 50
_FILES = 4096
_HEAD = struct.Struct("<QQQ")
_NUMBER = struct.Struct("<Q")
_FILE_BYTES = _HEAD.size + STATE_BYTES
_FLOCK = struct.Struct("@hhqqi4x")
_FIRST_BYTE = 1 << 20
_LAST_BYTE = 1 << 60


class MachineQueue:
    """Where this machine's writers of one version wait for each other.

    Parameters
    ----------
    identity : str
        What tells the version from every other one.
    """

    def __init__(self, identity: str) -> None:
        digest = hashlib.blake2b(identity.encode(), digest_size=4).digest()
        self._number = int.from_bytes(digest, "little") % _FILES
        self._without_until = float("-inf")
        self._idle: tuple[int, float] | None = None
        self._kept: _Ticket | None = None
        self.traffic = Traffic()
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        # Its descriptors are among those that the child closes.
        self._idle = self._kept = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self._close_idle()

    def claim(self) -> _Ticket | None:
        """The turn that a commit of this process has just ended, if it was kept."""
        with self._lock:
            kept, self._kept = self._kept, None
        return kept

    def done(self, ticket: _Ticket) -> None:
        """End a commit's turn: at once, or in a moment if nobody here claims it."""
        ticket.commits += 1
        if ticket.commits < MOST_COMMITS and _first_locked(ticket.descriptor, ticket.byte + 1, _LAST_BYTE) is not None:
            with self._lock:
                before, self._kept = self._kept, ticket
            _releaser.watch(self, ticket)
            if before is not None:
                self.leave(before)
        else:
            self.leave(ticket)

    def release(self, ticket: _Ticket) -> None:
        """Leave the queue, if the turn was kept and nobody has claimed it."""
        with self._lock:
            if self._kept is not ticket:
                return
            self._kept = None
        self.leave(ticket)

    def leave(self, ticket: _Ticket) -> None:
        """Let the next one go."""
        if _open.has(ticket.descriptor):
            # Closing is not enough: a child forked meanwhile has the file open too.
            with contextlib.suppress(OSError):
                _unlock(ticket.descriptor, ticket.byte)
            self.keep(ticket.descriptor)

    def turn(self) -> Turn:
        """A turn to take."""
        return Turn(self)

    def open(self) -> int | None:
        """A descriptor of the file; None where there cannot be one that is this user's alone."""
        now = time.monotonic()
        if not _LOCKS or now < self._without_until:
            return None
        idle, self._idle = self._idle, None
        if idle is not None:
            if now - idle[1] < _KEPT_OPEN_SECONDS:
                return idle[0]
            _open.close(idle[0])
        path = Path(config.current().cache_dir).expanduser() / "turns" / f"{self._number:03x}"
        try:
            try:
                descriptor = _open.open(path)
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = _open.open(path)
        except OSError as error:
            self.give_up(f"{path}: {error.strerror}")
            return None
        status = os.fstat(descriptor)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
        if not ours or status.st_size > _FILE_BYTES:
            _open.close(descriptor)
            self.give_up(f"{path}: not a file that this user's writers made")
            return None
        return descriptor

    def keep(self, descriptor: int) -> None:
        """Have a descriptor for the next one who asks for one soon."""
        self._close_idle()
        self._idle = descriptor, time.monotonic()

    def give_up(self, why: str) -> None:
        """Go without turns for a while."""
        log.debug("%s; writing without turns", why)
        self._without_until = time.monotonic() + WITHOUT_SECONDS

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            _open.close(idle[0])


@dataclass
class _Ticket:
    """A place in the queue: the byte that is locked, and how many commits were made at this turn."""

    descriptor: int
    byte: int = 0
    commits: int = 0


class Turn:
    """One writer's turn: taken, told how it went, ended. For one thread.

    Attributes
    ----------
    traffic : Traffic
        What the machine's writers know, or this process's where there is no queue.
    newest : int
        The number of the newest commit that the machine's writers know; 0 if none is.
    """

    def __init__(self, queue: MachineQueue) -> None:
        self._queue = queue
        self._ticket: _Ticket | None = None
        self._taken = False
        self.traffic = queue.traffic
        self.newest = 0

    def take(self) -> None:
        """Wait until it is this writer's turn; not again if it was taken. Never fails."""
        if self._taken:
            return
        self._taken = True
        self._ticket = self._queue.claim()
        try:
            if self._ticket is None:
                descriptor = self._queue.open()
                if descriptor is None:
                    return
                self._ticket = _Ticket(descriptor)
                if not self._draw(self._ticket) or not self._wait(self._ticket):
                    self._give_up()
                    return
                os.pwrite(descriptor, _NUMBER.pack(self._ticket.byte), _NUMBER.size)
            data = os.pread(self._ticket.descriptor, _FILE_BYTES, 0)
        except OSError as error:
            self._queue.give_up(str(error.strerror))
            self._give_up()
            return
        except BaseException:
            self._give_up()
            raise
        if len(data) == _FILE_BYTES:
            self.newest = _HEAD.unpack_from(data)[2]
            self.traffic = Traffic.decoded(data[_HEAD.size :])

    @property
    def others_wait(self) -> bool:
        """Whether other writers of this machine queue."""
        ticket = self._ticket
        return ticket is not None and _first_locked(ticket.descriptor, ticket.byte + 1, _LAST_BYTE) is not None

    def end(self, newest: int) -> None:
        """Let the next one go, and tell it the newest commit. Never fails."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            with contextlib.suppress(OSError):
                os.pwrite(ticket.descriptor, _NUMBER.pack(newest) + self.traffic.encoded(), 2 * _NUMBER.size)
            self._queue.done(ticket)

    def _give_up(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._queue.leave(ticket)

    def _draw(self, ticket: _Ticket) -> bool:
        """Take a ticket, and lock its byte."""
        descriptor = ticket.descriptor
        for _ in range(_TICKET_ATTEMPTS):
            if _lock(descriptor, 0):
                break
            time.sleep(0.0005)
        else:
            self._queue.give_up("no ticket was to be had")
            return False
        head = os.pread(descriptor, _NUMBER.size, 0)
        number = _NUMBER.unpack(head)[0] if len(head) == _NUMBER.size else 0
        if number >= _LAST_BYTE - _FIRST_BYTE:
            number = 0
        ticket.byte = _FIRST_BYTE + number
        locked = _lock(descriptor, ticket.byte)
        os.pwrite(descriptor, _NUMBER.pack(number + 1), 0)
        _unlock(descriptor, 0)
        return locked

    def _wait(self, ticket: _Ticket) -> bool:
        """Wait until nobody is before this one, for as long as that changes; whether it is so."""
        descriptor = ticket.descriptor
        if _first_locked(descriptor, _FIRST_BYTE, ticket.byte) is None:
            return True
        # A lock is waited for without end, so another thread does it, and goes on alone if this one gives up.
        waiting, done = _open.duplicate(descriptor), threading.Event()
        threading.Thread(target=_wait_for_locks, args=(waiting, ticket.byte, done), daemon=True).start()
        served = b""
        while not done.wait(STALLED_SECONDS):
            before, served = served, os.pread(descriptor, _NUMBER.size, _NUMBER.size)
            if served == before:
                self._queue.give_up("another writer makes no headway")
                return False
        return True


class _Open:
    """The descriptors of this process, which a forked child closes: it would go on holding the locks of its parent."""

    def __init__(self) -> None:
        self._descriptors: set[int] = set()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def open(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        self._descriptors.add(descriptor)
        return descriptor

    def duplicate(self, descriptor: int) -> int:
        other = os.dup(descriptor)
        self._descriptors.add(other)
        return other

    def has(self, descriptor: int) -> bool:
        return descriptor in self._descriptors

    def close(self, descriptor: int) -> None:
        if descriptor in self._descriptors:
            self._descriptors.discard(descriptor)
            os.close(descriptor)


_open = _Open()


class _Releaser:
    """One daemon thread that ends the turns which nobody claimed."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._watched: queue.SimpleQueue[tuple[MachineQueue, _Ticket, float]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def watch(self, of: MachineQueue, ticket: _Ticket) -> None:
        """Have a turn that was kept end in a moment."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="hubarray-turns", daemon=True)
                self._thread.start()
        self._watched.put((of, ticket, time.monotonic() + _LINGER_SECONDS))

    def _run(self) -> None:
        while True:
            of, ticket, until = self._watched.get()
            time.sleep(max(0.0, until - time.monotonic()))
            of.release(ticket)
            del of, ticket


_releaser = _Releaser()


def _wait_for_locks(descriptor: int, byte: int, done: threading.Event) -> None:
    """Wait until no byte before one is locked by others; closes the descriptor."""
    try:
        # The one before is the last of them, unless it was killed.
        ahead: int | None = byte - 1
        while ahead is not None:
            fcntl.fcntl(descriptor, _WAIT, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, ahead, 1, 0))
            _unlock(descriptor, ahead)
            ahead = _first_locked(descriptor, _FIRST_BYTE, byte)
        done.set()
    except OSError as error:
        log.debug("%s; writing without turns", error.strerror)
    finally:
        _open.close(descriptor)


def _lock(descriptor: int, byte: int) -> bool:
    """Lock a byte, if nobody has it."""
    try:
        fcntl.fcntl(descriptor, _SET, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(descriptor: int, byte: int) -> None:
    fcntl.fcntl(descriptor, _SET, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0))


def _first_locked(descriptor: int, begin: int, end: int) -> int | None:
    """A byte in a stretch that another one has locked; None if there is none."""
    if begin == end:
        return None
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, begin, end - begin, 0)
    kind, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, _GET, asked))
    return None if kind == fcntl.F_UNLCK else start
