"""The fetch engine: refs in, verified bytes out, by way of the disk cache and ranged requests.

Every blob that comes from storage or from the disk cache is hashed before
anybody sees it. Threads that want the same blob wait for one fetch of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import numpy as np

from hubarray import config, process
from hubarray.blobs.coalesce import Run, plan_runs
from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.memory_cache import MemoryCache
from hubarray.blobs.pack import pack_key
from hubarray.blobs.pools import pools, run_all
from hubarray.blobs.ref import BlobPlace, Refs, blob_hash, homes, pack_id
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.storage.base import Buffer, Store
from hubarray.storage.url import Root

Consume = Callable[[int, Buffer], None]

LOCAL_RUN_BYTES = 1 << 20


class Fetcher:
    """Reads blobs and nodes of one root through this process's caches.

    Attributes
    ----------
    root : Root
    identity : str
        What tells the root's objects from another's in the caches.
    memory : MemoryCache
        Decoded chunks and nodes; shared by all roots of the process.
    disk : DiskCache or None
        Encoded bytes; None where the root itself is a local folder.
    """

    def __init__(self, root: Root, memory: MemoryCache, disk: DiskCache | None) -> None:
        self.root = root
        self.identity = root.identity
        self.memory = memory
        self.disk = disk if root.store.remote else None
        self._flights: dict[tuple[int, bytes, int], Future[Buffer]] = {}
        self._lock = threading.Lock()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._flights = {}

    @property
    def store(self) -> Store:
        """This process's store of the root."""
        return self.root.store

    def fetch(self, refs: Refs, consume: Consume, *, keep: bool = True) -> None:
        """Hand each ref's verified bytes to ``consume(position, bytes)``, on whatever thread has them.

        Parameters
        ----------
        refs : array of REF, 1-d
            Present refs.
        consume : callable
            Typically decodes into place. Runs on at most as many threads as cores.
        keep : bool
            Whether fetched bytes go into the disk cache.

        Raises
        ------
        CorruptDataError
            Bytes are missing, truncated or altered; the key is named.
        StorageError
        """
        if len(refs) == 0:
            return
        if self.disk is None and not self.store.remote:
            runs = plan_runs(refs, max_run_bytes=LOCAL_RUN_BYTES)
            if len(runs) == 1:
                self._fetch_run(runs[0], refs, consume)
            else:
                tasks = ((run.length, partial(self._fetch_run, run, refs, consume)) for run in runs)
                run_all(tasks, threads=pools.cpu)
            return
        cached = [i for i in range(len(refs)) if self.disk is not None and self.disk.has(self._cache_key(refs[i]))]
        if len(cached) == len(refs) == 1:
            self._fetch_cached(0, refs, consume)
            return
        missing = np.setdiff1d(np.arange(len(refs)), cached) if cached else np.arange(len(refs))
        mine, theirs = self._board(refs, missing)
        landing = partial(self._land, refs, consume, keep)
        try:
            runs = plan_runs(refs[mine])
            work = [(int(refs["length"][i]), partial(self._fetch_cached, i, refs, consume)) for i in cached]
            work += [
                (run.length, partial(self._fetch_run, run, refs[mine], lambda i, data: landing(int(mine[i]), data)))
                for run in runs
            ]
            run_all(work)
        finally:
            self._disembark(refs, mine)
        for i, flight in theirs:
            try:
                data = flight.result()
            except Exception:
                data = self._fetch_one(refs[i])
            self._consume(consume, i, data)

    def is_at_hand(self, blob: BlobPlace) -> bool:
        """Whether a blob is in a local file: of a local root, or of the disk cache."""
        if not self.store.remote:
            return True
        return self.disk is not None and self.disk.has(self._key_of(blob))

    def read_at_hand(self, blob: BlobPlace, out: memoryview) -> bool:
        """Fill ``out``, as long as the blob, from a local file; False if the right bytes are not there."""
        if not self.store.remote:
            try:
                complete = self.store.read_into(blob.key, blob.offset, out) == blob.length
            except ObjectMissingError:
                return False
        else:
            complete = self.disk is not None and self.disk.read_into(self._key_of(blob), out)
        return complete and blob_hash(out) == blob.digest

    def _key_of(self, blob: BlobPlace) -> str:
        return f"{self.identity} {blob.key} {blob.offset}"

    def object(self, key: str, length: int, digest: bytes) -> Buffer:
        """A whole immutable object (a manifest node), verified; kept in the disk cache.

        Raises
        ------
        CorruptDataError, StorageError
        """
        cache_key = f"{self.identity} {key}"
        if self.disk is not None:
            cached = self.disk.get(cache_key)
            if cached is not None:
                if len(cached) == length and blob_hash(cached) == digest:
                    return cached
                self.disk.drop(cache_key)
        data = self._get(key, None, None)
        if len(data) != length or blob_hash(data) != digest:
            raise CorruptDataError(
                f"{self.store.where(key)}: the object does not match the hash it was stored under "
                f"({len(data)} bytes, {length} expected); restore it from a copy"
            )
        if self.disk is not None:
            self.disk.put(cache_key, data)
        return data

    def _board(self, refs: Refs, wanted: np.ndarray) -> tuple[np.ndarray, list[tuple[int, Future[Buffer]]]]:
        """Split wanted refs into those this call fetches and those another thread is fetching."""
        mine: list[int] = []
        theirs: list[tuple[int, Future[Buffer]]] = []
        with self._lock:
            for i in wanted.tolist():
                key = _flight_key(refs[i])
                flight = self._flights.get(key)
                if flight is None:
                    self._flights[key] = Future()
                    mine.append(i)
                else:
                    theirs.append((i, flight))
        return np.array(mine, np.intp), theirs

    def _land(self, refs: Refs, consume: Consume, keep: bool, i: int, data: Buffer) -> None:
        with self._lock:
            flight = self._flights.pop(_flight_key(refs[i]), None)
        if flight is not None:
            flight.set_result(data)
        consume(i, data)
        if keep and self.disk is not None:
            self.disk.put(self._cache_key(refs[i]), data)

    def _disembark(self, refs: Refs, mine: np.ndarray) -> None:
        """After a failure: let the waiters of what was not fetched fetch it themselves."""
        with self._lock:
            flights = [self._flights.pop(_flight_key(refs[i]), None) for i in mine]
        for flight in flights:
            if flight is not None:
                flight.set_exception(ObjectMissingError("the fetch of this blob was given up"))

    def _fetch_run(self, run: Run, refs: Refs, consume: Consume) -> None:
        key = blob_key(refs[run.first])
        data = memoryview(self._get(key, run.start, run.length))
        for i in run.members.tolist():
            ref = refs[i]
            begin = int(ref["offset"]) - run.start
            blob: Buffer = data[begin : begin + int(ref["length"])]
            if not matches(ref, blob):
                blob = self._fetch_one(ref)
            self._consume(consume, i, blob)

    def _fetch_cached(self, i: int, refs: Refs, consume: Consume) -> None:
        ref = refs[i]
        key = self._cache_key(ref)
        data = self.disk.get(key) if self.disk is not None else None
        if data is None or not matches(ref, data):
            blob = self._fetch_one(ref)
            if self.disk is not None:
                self.disk.drop(key)
                self.disk.put(key, blob)
            self._consume(consume, i, blob)
        else:
            self._consume(consume, i, data)

    def _fetch_one(self, ref: np.void) -> Buffer:
        """One blob by itself. A second look, too: what was altered on the way is sent again."""
        key = blob_key(ref)
        data = self._get(key, int(ref["offset"]), int(ref["length"]))
        if not matches(ref, data):
            begin, end = int(ref["offset"]), int(ref["offset"]) + int(ref["length"])
            raise CorruptDataError(
                f"{self.store.where(key)}: bytes {begin} to {end} do not match the hash they were stored under "
                f"({len(data)} bytes came); restore the object from a copy"
            )
        return data

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        try:
            return self.store.get(key, start, length)
        except ObjectMissingError:
            raise CorruptDataError(
                f"{self.store.where(key)}: a commit names this object and it is gone; restore it from a copy"
            ) from None

    @staticmethod
    def _consume(consume: Consume, i: int, data: Buffer) -> None:
        with pools.codec_slots:
            consume(i, data)

    def _cache_key(self, ref: np.void) -> str:
        return f"{self.identity} {blob_key(ref)} {int(ref['offset'])}"


def blob_key(ref: np.void) -> str:
    """The key of the pack a ref points into."""
    return pack_key(homes.name(int(ref["home"])), pack_id(ref))


def _flight_key(ref: np.void) -> tuple[int, bytes, int]:
    return int(ref["home"]), ref["pack"].tobytes(), int(ref["offset"])


def matches(ref: np.void, data: Buffer) -> bool:
    """Whether bytes are the blob that a ref means: its length and its hash."""
    return len(data) == int(ref["length"]) and blob_hash(data) == ref["hash"].tobytes()


class _Shared:
    """Caches and fetchers of the process, one for each setting in use."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)
        self._memory: dict[int, MemoryCache] = {}
        self._disk: dict[tuple[str, int], DiskCache] = {}
        self._fetchers: dict[tuple[Root, int, str, int], Fetcher] = {}

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def fetcher(self, root: Root) -> Fetcher:
        settings = config.current()
        disk_key = (settings.cache_dir, settings.disk_cache_bytes)
        key = (root, settings.memory_cache_bytes, *disk_key)
        with self._lock:
            if key not in self._fetchers:
                memory = self._memory.setdefault(settings.memory_cache_bytes, MemoryCache(settings.memory_cache_bytes))
                disk = self._disk.setdefault(disk_key, DiskCache(*disk_key))
                self._fetchers[key] = Fetcher(root, memory, disk)
            return self._fetchers[key]


_shared = _Shared()


def fetcher_for(root: Root) -> Fetcher:
    """The fetcher of this process for a root, with the caches configured now."""
    return _shared.fetcher(root)
