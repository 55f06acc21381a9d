"""The contract of a store: six verbs, their errors, and the counts users and tests read.

Every engine (``_ENGINES`` in :mod:`hubarray.storage.url`) implements the
underscored methods; the public verbs add what is the same for all of them:
request counts, one DEBUG line a request, and refusing to write where only
reading is possible. ``tests/storage/test_contract.py`` runs over every engine that can
be written to.
"""

from __future__ import annotations

import abc
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar

from hubarray import config, process
from hubarray.bounded_dict import BoundedDict
from hubarray.errors import ReadOnlyError, StorageError, UnavailableError
from hubarray.redaction import shown_text
from hubarray.storage.patience import UnansweredError, retried

Buffer: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

# What one vectored read or write of the operating system takes.
MAX_BUFFERS = 1024
# How often a request is made of a server that asks to try later.
BUSY_ATTEMPTS = 6
_REQUEST_SECONDS = 20.0
_MAX_REMEMBERED_KEYS = 1 << 18
_SLOWEST_BYTES_PER_SECOND = 256 * 1024
# What a piece of a range that is still arriving has at least.
PIECE_BYTES = 512 << 10

# A part that is empty, "." or "..", and what cannot stand in a file's name: such a key could lead out of its root.
_LEADS_AWAY = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f\\]")

log = logging.getLogger("hubarray.storage")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object, or (``is_folder``) one common prefix of a shallow listing."""

    key: str
    size_bytes: int
    modified: datetime | None
    is_folder: bool = False


_MAX_HARMLESS = 8192


def max_seconds(payload_bytes: int) -> float:
    """Return the time limit of a request with this number of bytes."""
    return _REQUEST_SECONDS + payload_bytes / _SLOWEST_BYTES_PER_SECOND


def escapes_root(key: str) -> bool:
    """Whether a key could lead out of its root.

    Examples
    --------
    >>> [escapes_root(key) for key in ("lab/x/packs/0a", ".probe/0a", "lab/../../etc", "lab//x", "/etc", "")]
    [False, False, True, True, True, True]
    """
    # Nearly all keys have nothing to look at; this is done for every request.
    if "/." not in key and "//" not in key and "\\" not in key and key.isprintable() and key[:1] not in "/.":
        return key[-1:] in ("", "/")
    return _LEADS_AWAY.search(key) is not None


class RequestStats:
    """Counts of requests by verb and of bytes moved; thread-safe.

    ``get`` and ``put`` count bytes too; ``seconds`` is what all took together. A request that found its key absent,
    or failed, is a request all the same.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.seconds = 0.0
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def add(self, verb: str, *, began: float | None = None, read_bytes: int = 0, written_bytes: int = 0) -> None:
        """Count one request that began at a ``time.perf_counter()`` and ends now."""
        seconds = 0.0 if began is None else time.perf_counter() - began
        with self._lock:
            self._counts[verb] += 1
            self.seconds += seconds
            self._counts["read_bytes"] += read_bytes
            self._counts["written_bytes"] += written_bytes

    def counts(self) -> Counter[str]:
        """A copy of the counts so far: verbs, ``read_bytes`` and ``written_bytes``."""
        with self._lock:
            return Counter(self._counts)

    @property
    def requests(self) -> int:
        """All requests so far, of whatever verb."""
        counts = self.counts()
        return sum(n for what, n in counts.items() if not what.endswith("_bytes"))


class Store(abc.ABC):
    """A flat space of keys, as every engine offers it.

    Keys are relative to the root, use ``/``, and are never empty. Those with an empty part, ``.`` or ``..``, a
    backslash or a control character are refused, and skipped in listings, because such keys indicate a path traversal
    attempt. Errors are those of :mod:`hubarray.errors` and name the key and the root.

    Attributes
    ----------
    url : str
        The root's URL, without credentials.
    remote : bool
        Whether requests cross a network, so that caching on disk pays.
    read_only : bool
        Whether writing is refused.
    streams : bool
        Whether :meth:`pieces` gives bytes as they arrive, rather than all of them at the end.
    proven_create : bool
        Whether ``put_if_absent`` is atomic by construction. Otherwise it is
        proven by a probe before the first commit.
    """

    remote = True
    read_only = False
    streams = False
    proven_create = False
    # How long a server that asks to try later is asked again; None is what the setting says.
    retry_timeout_seconds: float | None = None

    def __init__(self, url: str) -> None:
        self.url = url
        self.stats = RequestStats()
        # Packs are read again and again, and looking at their keys takes longer than remembering them.
        self._harmless: dict[str, bool] = BoundedDict(_MAX_HARMLESS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def get(self, key: str, start: int | None = None, length: int | None = None) -> Buffer:
        """The object's bytes, or ``length`` of them from ``start``.

        A range past the end gives the bytes there are, possibly none; never more than
        ``length``, and no more memory, whatever a server sends.

        Raises
        ------
        ObjectMissingError, AccessDeniedError, UnavailableError, StorageError
        """
        self._refuse_leading_away(key)
        began = time.perf_counter()
        size = 0
        try:
            data = self._patiently_done(lambda: self._get(key, start, length), key)
            size = len(data)
            return data
        finally:
            self.stats.add("get", began=began, read_bytes=size)
            self._log("GET", key, size, began)

    def pieces(self, key: str, start: int, length: int) -> Iterator[Buffer]:
        """A range as :meth:`get` gives it, in pieces as they arrive: of ``PIECE_BYTES`` or more, or all at once.

        One ``get`` request, which counts the bytes that were taken.

        Raises
        ------
        ObjectMissingError, AccessDeniedError, UnavailableError, StorageError
        """
        self._refuse_leading_away(key)
        seconds, size = 0.0, 0
        pieces = self._pieces(key, start, length)

        def following() -> Buffer | None:
            nonlocal pieces
            try:
                return next(pieces, None)
            except UnansweredError:
                # What came stays; a generator that raised has ended.
                pieces = self._pieces(key, start + size, length - size)
                raise

        try:
            while True:
                began = time.perf_counter()
                try:
                    piece = self._patiently_done(following, key)
                finally:
                    seconds += time.perf_counter() - began
                if piece is None:
                    return
                size += len(piece)
                yield piece
        finally:
            began = time.perf_counter() - seconds
            self.stats.add("get", began=began, read_bytes=size)
            self._log("GET", key, size, began)

    def read_into(self, key: str, start: int, out: memoryview | Sequence[memoryview]) -> int:
        """Fill ``out`` with bytes from ``start``; returns how many there were. One ``get`` request.

        Several buffers, up to ``MAX_BUFFERS``, are filled one after the other.

        Raises
        ------
        ObjectMissingError, AccessDeniedError, UnavailableError, StorageError
        """
        self._refuse_leading_away(key)
        began = time.perf_counter()
        size = 0
        try:
            buffers = [out] if isinstance(out, memoryview) else out
            size = self._patiently_done(lambda: self._read_into(key, start, buffers), key)
            return size
        finally:
            self.stats.add("get", began=began, read_bytes=size)
            self._log("GET", key, size, began)

    def put(self, key: str, data: Buffer | Sequence[Buffer], *, no_store: bool = False, atomic: bool = True) -> None:
        """Create or replace an object; durable when it returns.

        Several buffers are laid back to back, which spares the caller a copy.

        Parameters
        ----------
        no_store : bool
            For objects that are overwritten: no HTTP cache is to keep them.
        atomic : bool
            Whether the object must appear all at once. Without it, a killed process may leave a part of the object
            under the key, so nobody may look for the key before this returns.
        """
        self._refuse_if_read_only(key)
        self._refuse_leading_away(key)
        began = time.perf_counter()
        pieces = data if isinstance(data, (list, tuple)) else (data,)
        size = sum(len(piece) for piece in pieces)
        try:
            self._patiently_done(lambda: self._put(key, pieces, no_store, atomic), key)
        finally:
            self.stats.add("put", began=began, written_bytes=size)
            self._log("PUT", key, size, began)

    def put_if_absent(self, key: str, data: Buffer) -> bool:
        """Create an object atomically; durable when it returns True.

        Returns
        -------
        bool
            False when the key exists already (which may be this very call's
            first attempt, resent by the client after a lost reply).

        Raises
        ------
        UnsafeStoreError
            The store cannot do this.
        UnavailableError
            The outcome is unknown.
        """
        self._refuse_if_read_only(key)
        self._refuse_leading_away(key)
        began = time.perf_counter()
        try:
            return self._patiently_done(lambda: self._put_if_absent(key, data), key)
        finally:
            self.stats.add("put_if_absent", began=began, written_bytes=len(data))
            self._log("CREATE", key, len(data), began)

    def head(self, key: str) -> ObjectInfo:
        """Size and modification time, or ObjectMissingError."""
        self._refuse_leading_away(key)
        began = time.perf_counter()
        try:
            return self._patiently_done(lambda: self._head(key), key)
        finally:
            self.stats.add("head", began=began)
            self._log("HEAD", key, 0, began)

    def list(self, prefix: str, *, shallow: bool = False) -> Iterator[ObjectInfo]:
        """Objects in the folder ``prefix`` (empty, or ending in ``/``), in no particular order.

        ``shallow`` gives the folder's own objects and its folders (their key
        ends in ``/``) instead of everything below.
        """
        if prefix and not prefix.endswith("/"):
            raise ValueError(f"a listing's prefix is a folder, ending in '/': {prefix!r}")
        if prefix:
            self._refuse_leading_away(prefix[:-1])
        began = time.perf_counter()
        self.stats.add("list")
        for info in self._listed(prefix, shallow):
            if not escapes_root(info.key[:-1] if info.is_folder else info.key):
                yield info
        self._log("LIST", prefix, 0, began)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. Missing objects are not an error."""
        keys = list(keys)
        if not keys:
            return
        self._refuse_if_read_only(keys[0])
        for key in keys:
            self._refuse_leading_away(key)
        began = time.perf_counter()
        try:
            self._patiently_done(lambda: self._delete(keys), keys[0])
        finally:
            self.stats.add("delete", began=began)
            self._log("DELETE", f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0], 0, began)

    def leftovers(self, prefix: str) -> Iterator[ObjectInfo]:
        """Remains of interrupted writes in the folder ``prefix`` and below, which no other verb shows.

        Their keys may be given to :meth:`delete`. Most stores have none.
        """
        return iter(())

    def where(self, key: str) -> str:
        """How messages name a key: its full URL."""
        return f"{self.url}/{key}"

    def _listed(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        """Iterate over a listing, and start again if a server breaks it off, without repeating entries.

        Not all servers list in an order, so the entries are remembered, up to a number of keys. Beyond that, a listing
        that breaks off is an error.
        """
        if not self.remote:
            yield from self._list(prefix, shallow)
            return
        passed: set[str] = set()
        entries = self._list(prefix, shallow)

        def following() -> ObjectInfo | None:
            nonlocal entries
            try:
                return next(entries, None)
            except UnansweredError as error:
                if len(passed) > _MAX_REMEMBERED_KEYS:
                    raise UnavailableError(*error.args) from None
                entries = self._list(prefix, shallow)
                raise

        while (info := self._patiently_done(following, prefix)) is not None:
            if info.key not in passed:
                if len(passed) <= _MAX_REMEMBERED_KEYS:
                    passed.add(info.key)
                yield info

    def _patiently_done(self, call: Callable[[], T], key: str) -> T:
        """Make a call, and again, after longer and longer waits, while a server asks to try later.

        Raises
        ------
        UnavailableError
            It still asked to when the time was up, or the setting ``offline`` forbids requests.
        """
        if self.remote and config.is_offline():
            raise UnavailableError(f"{self.where(key)}: offline is set, so the store is not asked for it")
        return retried(call, self.url, self.retry_timeout_seconds)

    def _refuse_leading_away(self, key: str) -> None:
        if key in self._harmless:
            return
        if escapes_root(key):
            raise StorageError(
                f"{self.url}: {shown_text(key)!r} is not a valid key, because it could lead out of the root; its "
                "writer is not to be trusted"
            )
        self._harmless[key] = True

    def _refuse_if_read_only(self, key: str) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self.where(key)}: this root can only be read; write under another root")

    def _log(self, verb: str, key: str, size: int, began: float) -> None:
        if log.isEnabledFor(logging.DEBUG):
            milliseconds = (time.perf_counter() - began) * 1e3
            log.debug("%s %s %d bytes %.1f ms", verb, self.where(key), size, milliseconds)

    @abc.abstractmethod
    def _get(self, key: str, start: int | None, length: int | None) -> Buffer: ...

    def _pieces(self, key: str, start: int, length: int) -> Iterator[Buffer]:
        yield self._get(key, start, length)

    def _read_into(self, key: str, start: int, out: Sequence[memoryview]) -> int:
        data = memoryview(self._get(key, start, sum(map(len, out))))
        done = 0
        for buffer in out:
            piece = data[done : done + len(buffer)]
            buffer[: len(piece)] = piece
            done += len(piece)
        return done

    @abc.abstractmethod
    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None: ...

    @abc.abstractmethod
    def _put_if_absent(self, key: str, data: Buffer) -> bool: ...

    @abc.abstractmethod
    def _head(self, key: str) -> ObjectInfo: ...

    @abc.abstractmethod
    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]: ...

    @abc.abstractmethod
    def _delete(self, keys: Sequence[str]) -> None: ...
