"""The queue of one machine's writers of a version: first come, first served, by locks on a small file.

Politeness only. Who commits is decided by the log alone, whatever becomes of the file: a writer that cannot use it goes
ahead without a turn, one that is killed is passed over, as the kernel gives up its locks, and nobody waits for long for
one that makes no headway.

The file begins with 56 bytes: the next ticket, the ticket whose turn it is, the newest commit that this machine's
writers know, and their :class:`hubarray.history.log.backoff.ContentionStats`. All of it is only a hint. Behind it is
the record that was created last, if a writer waited for it. For a moment the next writer may build on that record
without reading the log again. A writer takes the next ticket and locks the byte of that number, far beyond the end of
the file, until it is done. Its turn comes when no byte before its own is locked. Each writer waits for the byte before
its own, so one of them is woken.

A process that commits again at once keeps its turn for a few commits, or as long as these usually take: what they need
is still in its memory and in the processor's caches, which makes them twice as fast as the first one after others'.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hubarray import config, process
from hubarray.blobs.cache_space import CacheSpace
from hubarray.history.log import byte_locks
from hubarray.history.log.backoff import STATE_BYTES, ContentionStats
from hubarray.history.log.byte_locks import LockFile
from hubarray.process import uptime_seconds
from hubarray.threads import start

log = logging.getLogger("hubarray.turns")

STALLED_SECONDS = 3.0
"""How long one waits for writers of which none gets on."""
WITHOUT_SECONDS = 10.0
"""How long one that waited in vain goes without turns."""
MAX_COMMITS = 3
"""How many commits a turn has, where others wait."""
_LINGER_SECONDS = 0.001
_TICKET_ATTEMPTS, _TICKET_PAUSE_SECONDS = 50, 0.0005
_FILES = 4096
_NUMBER = struct.Struct("<Q")
_NEXT, _SERVED, _NEWEST, _TRAFFIC = 0, 8, 16, 24
_FILE_BYTES = _TRAFFIC + STATE_BYTES
# What a record that is handed over begins with: of which version it is, its number, when it was created (by
# `uptime_seconds`), and its length. It ends with its own hash, so one that was cut short is told.
_HANDED = struct.Struct("<16sQdQ")
_HANDED_SECONDS = 2.0
_MAX_HANDED_BYTES = 64 << 10
_FIRST_BYTE, _LAST_BYTE = 1 << 20, 1 << 60
# One for all, as each says once if its folder is another user's.
_shared_space = functools.lru_cache(CacheSpace)


class MachineQueue:
    """Where this machine's writers of one version wait for each other.

    Parameters
    ----------
    identity : str
        What tells the version from every other one. Two may share a file, and then wait for each other.
    space : CacheSpace, optional
        The cache folder; by default that of the settings.

    Attributes
    ----------
    identity : bytes
        A hash of what tells the version from every other one.
    traffic : ContentionStats
        As this process saw it last.
    """

    def __init__(self, identity: str, space: CacheSpace | None = None) -> None:
        self._space = _shared_space(config.current().cache_dir, 0) if space is None else space
        self.identity = hashlib.blake2b(identity.encode(), digest_size=16).digest()
        self._path = f"{self._space.folder}/turns/{int.from_bytes(self.identity[:4], 'little') % _FILES:03x}"
        self._without_until = float("-inf")
        self.traffic = ContentionStats()
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._kept_ticket: _Ticket | None = None
        self._lock = threading.Lock()

    def turn(self) -> CommitTicket:
        """A turn to take."""
        return CommitTicket(self)

    def open(self) -> LockFile | None:
        """The file; None where there cannot be one that is this user's alone."""
        if not byte_locks.AVAILABLE or time.monotonic() < self._without_until:
            return None
        try:
            if self._space.is_trusted():
                with contextlib.suppress(FileNotFoundError):
                    return LockFile(self._path)
            # It says why a folder that is not trusted is not used.
            self._space.make_folder(Path(self._path).parent)
            return LockFile(self._path)
        except OSError as error:
            self.give_up(f"{self._path}: {error}")
            return None

    def give_up(self, why: str) -> None:
        """Go without turns for a while."""
        log.debug("%s; writing without turns", why)
        self._without_until = time.monotonic() + WITHOUT_SECONDS

    def claim(self) -> _Ticket | None:
        """The turn that a commit of this process has just ended, if it was kept."""
        with self._lock:
            handed, self._kept_ticket = self._kept_ticket, None
        return handed

    def done(self, ticket: _Ticket) -> None:
        """End a commit's turn: at once, or in a moment if others wait and nobody here claims it."""
        ticket.commits += 1
        # Whoever was slow, as with its first commit, does not keep others for longer than they would keep it.
        has_taken_long = time.monotonic() - ticket.began > MAX_COMMITS * self.traffic.commit_seconds
        if ticket.commits >= MAX_COMMITS or has_taken_long or not ticket.is_waited_for:
            ticket.leave()
            return
        with self._lock:
            before, self._kept_ticket = self._kept_ticket, ticket
        if before is not None:
            before.leave()
        _releaser.watch(self, ticket)

    def release(self, ticket: _Ticket) -> None:
        """Let the next one go, if the turn was kept and nobody has claimed it."""
        with self._lock:
            if self._kept_ticket is not ticket:
                return
            self._kept_ticket = None
        ticket.leave()


@dataclass
class _Ticket:
    """A place in the queue.

    Attributes
    ----------
    file : LockFile
    byte : int
        The byte that is locked; 0 before it is.
    commits : int
        How many were made at this turn.
    began : float
        When the turn did, in monotonic seconds.
    handing : callable or None
        Gives what precedes a record that is handed over, and the record, once somebody waits for it.
    """

    file: LockFile
    byte: int = 0
    commits: int = 0
    began: float = 0.0
    handing: Callable[[], bytes] | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether others have later places."""
        with contextlib.suppress(OSError):
            return self.file.locked_by_others(self.byte + 1, _LAST_BYTE) is not None
        return False

    def leave(self) -> None:
        """Let the next one go, with what is handed over to it."""
        try:
            if self.handing is not None and self.is_waited_for:
                self.file.write(self.handing(), _FILE_BYTES)
        except Exception as error:
            # The commit is made, whatever becomes of a courtesy.
            log.debug("%s; nothing is handed over", error)
        finally:
            self.file.unlock(self.byte)
            self.file.close()


class CommitTicket:
    """One writer's turn: taken, told how it went, ended. For one thread.

    Attributes
    ----------
    traffic : ContentionStats
        What the machine's writers know once it is taken; before, what this process knew last.
    newest : int
        The number of the newest commit that the machine's writers know; 0 if none is.
    handed : bytes
        The record of that number, where its creator hands it over; else nothing. Of whoever's making.
    """

    def __init__(self, queue: MachineQueue) -> None:
        self._queue = queue
        self._ticket: _Ticket | None = None
        self._taken = False
        self.traffic = queue.traffic
        self.newest = 0
        self.handed = b""

    def take(self) -> None:
        """Wait until it is this writer's turn; not again if it was taken. Never fails."""
        if self._taken:
            return
        self._taken = True
        self._ticket = self._queue.claim()
        if self._ticket is None:
            file = self._queue.open()
            if file is None:
                return
            self._ticket = _Ticket(file)
        why: str | None = None
        try:
            # One that was kept has its byte.
            if not self._ticket.byte:
                why = self._draw(self._ticket) or self._wait(self._ticket)
                self._ticket.began = time.monotonic()
            data = self._ticket.file.read(_FILE_BYTES + _HANDED.size + _MAX_HANDED_BYTES, 0)
        except (OSError, RuntimeError) as error:
            # A process that ends begins no thread.
            why = str(error)
        except BaseException:
            self._leave()
            raise
        if why is not None:
            self._queue.give_up(why)
            self._leave()
        elif len(data) >= _FILE_BYTES:
            self.newest = _NUMBER.unpack_from(data, _NEWEST)[0]
            self.traffic = self._queue.traffic = ContentionStats.decoded(data[_TRAFFIC:_FILE_BYTES])
            self._note_handed(data[_FILE_BYTES:])

    def end(self, newest: int, handing: Callable[[], bytes] | None = None) -> None:
        """Let the next one go, and tell it the newest commit. Never fails.

        Parameters
        ----------
        newest : int
        handing : callable, optional
            Gives the record of that commit, if it was just created. Called only if somebody waits.
        """
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            with contextlib.suppress(OSError):
                ticket.file.write(_NUMBER.pack(newest) + self.traffic.encoded(), _NEWEST)
            ticket.handing = handing and functools.partial(self._handing, newest, uptime_seconds(), handing)
            self._queue.done(ticket)

    def _handing(self, newest: int, created_at: float, handing: Callable[[], bytes]) -> bytes:
        record = handing()
        if len(record) > _MAX_HANDED_BYTES:
            record = b""
        return _HANDED.pack(self._queue.identity, newest, created_at, len(record)) + record

    def _note_handed(self, data: bytes) -> None:
        """Note the record at the file's end, if it is this version's newest one, and was created just now."""
        if len(data) < _HANDED.size:
            return
        identity, number, created_at, length = _HANDED.unpack_from(data)
        is_meant = (identity, number) == (self._queue.identity, self.newest)
        if is_meant and 0 <= uptime_seconds() - created_at <= _HANDED_SECONDS:
            self.handed = data[_HANDED.size : _HANDED.size + min(length, _MAX_HANDED_BYTES)]

    def _leave(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.leave()

    def _draw(self, ticket: _Ticket) -> str | None:
        """Take a number, and lock its byte; says why it cannot."""
        file = ticket.file
        for _ in range(_TICKET_ATTEMPTS):
            if file.lock(_NEXT):
                break
            time.sleep(_TICKET_PAUSE_SECONDS)
        else:
            return "no ticket was to be had"
        head = file.read(_NUMBER.size, _NEXT)
        number = _NUMBER.unpack(head)[0] if len(head) == _NUMBER.size else 0
        if number >= _LAST_BYTE - _FIRST_BYTE:
            number = 0
        ticket.byte = _FIRST_BYTE + number
        is_free = file.lock(ticket.byte)
        file.write(_NUMBER.pack(number + 1), _NEXT)
        file.unlock(_NEXT)
        return None if is_free else "another writer has the same ticket"

    def _wait(self, ticket: _Ticket) -> str | None:
        """Wait until nobody is before this one, for as long as those get on; says why it gave up."""
        file = ticket.file
        if file.locked_by_others(_FIRST_BYTE, ticket.byte) is not None:
            # A lock is waited for without end, so another thread does it, and goes on alone if this one gives up.
            waited = threading.Lock()
            waited.acquire()
            start(_wait_for_others, file.again(), ticket.byte, waited, name="hubarray-turn")
            seen = file.read(_FILE_BYTES, _SERVED)
            while not waited.acquire(timeout=STALLED_SECONDS):
                before, seen = seen, file.read(_FILE_BYTES, _SERVED)
                if seen == before:
                    return "another writer makes no headway"
        file.write(_NUMBER.pack(ticket.byte), _SERVED)
        return None


def _wait_for_others(file: LockFile, byte: int, waited: threading.Lock) -> None:
    """Wait until no byte before one is locked by others, and release a lock then; closes the file."""
    try:
        # The one before is the last of them, unless it was killed.
        ahead: int | None = byte - 1
        while ahead is not None:
            file.wait(ahead)
            file.unlock(ahead)
            ahead = file.locked_by_others(_FIRST_BYTE, byte)
        waited.release()
    except OSError as error:
        log.debug("%s; writing without turns", error)
    finally:
        file.close()


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
        try:
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = start(self._run, name="hubarray-turns")
        except RuntimeError:
            # A process that ends begins no thread.
            of.release(ticket)
            return
        self._watched.put((of, ticket, time.monotonic() + _LINGER_SECONDS))

    def _run(self) -> None:
        while True:
            of, ticket, until = self._watched.get()
            time.sleep(max(0.0, until - time.monotonic()))
            of.release(ticket)
            del of, ticket


_releaser = _Releaser()
