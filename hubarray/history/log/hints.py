"""The hint ``head.json``: where the log's end was a moment ago.

Rewritten at most once a second for each version, off the writer's path, and
flushed within two seconds of a burst's end and at exit. It may be stale or
missing; it is never ahead of the log, because it is written after the record.
"""

from __future__ import annotations

import atexit
import json
import logging
import multiprocessing
import threading
import time
from dataclasses import dataclass

import xxhash

from hubarray import process
from hubarray.errors import CorruptDataError, HubError
from hubarray.history.records.json_fields import MAX_NUMBER, Fields, parse_json
from hubarray.names import Name
from hubarray.storage.base import Buffer, Store
from hubarray.threads import start

HINT_INTERVAL_SECONDS = 1.0
MAX_HINT_BYTES = 4096

log = logging.getLogger("hubarray.history")


def hint_key(name: Name) -> str:
    """``owner/name/log/<version>/head.json``."""
    return f"{name.home}/log/{name.version}/head.json"


def encode_hint(number: int) -> bytes:
    """A hint's bytes: the number, and XXH3-64 of its decimal digits."""
    digest = _digest(number)
    return json.dumps({"hubarray": 1, "number": number, "xxh3": digest}).encode()


def _digest(number: int) -> str:
    return xxhash.xxh3_64_hexdigest(str(number).encode())


def decode_hint(data: Buffer) -> int | None:
    """The number a hint names; None if the bytes are not a whole hint, which is as good as none."""
    try:
        fields = Fields(parse_json(bytes(data), "the hint"), "the hint")
        number = fields.integer("number", 1, MAX_NUMBER)
        return number if fields.text("xxh3") == _digest(number) else None
    except CorruptDataError:
        return None


@dataclass
class _Hint:
    store: Store
    name: Name
    number: int
    written: int = 0
    written_at: float = float("-inf")

    @property
    def is_done(self) -> bool:
        """Whether the newest number is written."""
        return self.number <= self.written


class HintWriter:
    """One daemon thread that writes the hints that are due."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)
        atexit.register(self.flush)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._hints: dict[tuple[str, Name], _Hint] = {}
        # The main thread takes the lock itself; see hubarray/threads.py.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(self, store: Store, name: Name, number: int) -> None:
        """Record that ``number`` is in the log; returns at once."""
        name = Name(name.owner, name.name, name.version)
        with self._lock:
            hint = self._hints.setdefault((store.url, name), _Hint(store, name, number))
            hint.number = max(hint.number, number)
            hint.store = store
            if self._thread is None or not self._thread.is_alive():
                self._thread = start(self._run, name="hubarray-hints")
                self._flush_with_child()
            self._changed.notify()

    def _flush_with_child(self) -> None:
        """Have multiprocessing flush at the end of its children, where it skips ``atexit``.

        Here and not after the fork, because it forgets what was registered until its child's own work begins.
        """
        if multiprocessing.parent_process() is not None:
            from multiprocessing.util import Finalize

            Finalize(None, self.flush, exitpriority=0)

    def flush(self) -> None:
        """Write every hint that is not written yet, now."""
        for hint in self._due(everything=True):
            self._write(hint)

    def forget(self, store: Store, name: Name) -> None:
        """Drop what is known of a version, so that nothing is written for it any more."""
        with self._lock:
            self._hints.pop((store.url, Name(name.owner, name.name, name.version)), None)

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = self._seconds_to_next()
                if wait is None or wait > 0:
                    self._changed.wait(wait)
            for hint in self._due():
                self._write(hint)

    def _seconds_to_next(self) -> float | None:
        waiting = [hint.written_at for hint in self._hints.values() if not hint.is_done]
        return min(waiting) + HINT_INTERVAL_SECONDS - time.monotonic() if waiting else None

    def _due(self, *, everything: bool = False) -> list[_Hint]:
        with self._lock:
            latest = time.monotonic() - HINT_INTERVAL_SECONDS
            # What is written and may be written again at once need not be known: a process may write many versions.
            for key in [key for key, hint in self._hints.items() if hint.is_done and hint.written_at <= latest]:
                del self._hints[key]
            hints = self._hints.values()
            return [hint for hint in hints if not hint.is_done and (everything or hint.written_at <= latest)]

    def _write(self, hint: _Hint) -> None:
        with self._writing:
            number = hint.number
            if number <= hint.written:
                return
            hint.written_at = time.monotonic()
            try:
                hint.store.put(hint_key(hint.name), encode_hint(number), no_store=True)
            except HubError as error:
                log.info("the hint of %s was not written, which costs readers a few probes: %s", hint.name, error)
            hint.written = number


hint_writer = HintWriter()
