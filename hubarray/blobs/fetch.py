"""The read engine: the names of blobs in, verified bytes out to a sink, by way of the caches and ranged requests.

Every blob that comes from storage or from the disk cache is checked before
anybody sees it. Threads that want the same blob wait for one fetch of it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial

from hubarray import config, process
from hubarray.blobs.coalesce import RangeRequest, plan_runs
from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.disk_sections import DiskSections
from hubarray.blobs.in_flight import Fetch, InFlight
from hubarray.blobs.local_files import read_local
from hubarray.blobs.memory_cache import MemoryCache
from hubarray.blobs.pools import pools
from hubarray.blobs.ref import BlobName, Blobs, Refs, blob_hash, key_of
from hubarray.blobs.scheduling import run_all
from hubarray.blobs.sinks import Copies, Sink
from hubarray.blobs.slicing import cut
from hubarray.blobs.stats import StageSeconds, Stats, totals
from hubarray.blobs.verified import arriving, read_alone, unverified, whole_object
from hubarray.errors import CorruptDataError
from hubarray.storage.base import PIECE_BYTES, Buffer, Store
from hubarray.storage.url import Root

# Held of one request at most: the piece that blobs are cut from, rests of earlier pieces, bytes in the connection.
_PIECES_HELD = 4
# Every piece wakes a thread, so a shorter request is faster in one piece.
_LONG_RUN_BYTES = 4 << 20


class Fetcher:
    """Reads blobs and nodes of one root through this process's caches.

    Attributes
    ----------
    root : Root
    identity : str
        Text that tells the root's objects from another's in the caches.
    remote : bool
        Whether the root is not a local folder.
    memory : MemoryCache
        Decoded chunks and nodes; shared by all roots of the process.
    disk : DiskCache or None
        Encoded bytes; None where the root itself is a local folder, or the budget is 0.
    """

    def __init__(self, root: Root, memory: MemoryCache, disk: DiskCache | None) -> None:
        self.root = root
        self.identity = root.identity
        self.memory = memory
        self.stages = StageSeconds()
        self.remote = root.store.remote
        self.disk = disk if self.remote else None
        self._sections = None if self.disk is None else DiskSections(self.disk, self.identity)
        self._in_flight = InFlight()

    @property
    def store(self) -> Store:
        """This process's store of the root."""
        return self.root.store

    def stats(self) -> Stats:
        """Counts of this process's requests to the root, and of its caches."""
        return totals([self.store.stats], [self.memory], [] if self.disk is None else [self.disk], [self.stages])

    def read(
        self,
        blobs: Blobs,
        sink: Sink,
        *,
        max_bytes: int | None = None,
        max_kept_bytes: int | None = None,
        recalls: bool = True,
    ) -> None:
        """Hand each blob to a sink: from the memory cache, the disk cache, or storage, in as few requests as it takes.

        A read that takes one request runs on the calling thread.

        Parameters
        ----------
        blobs : Blobs
        sink : Sink
        max_bytes : int, optional
            Limit of a blob's length. A ref that claims more is damaged, and nothing is fetched.
        max_kept_bytes : int, optional
            What is fetched goes into the disk cache if it is no more than this altogether.
        recalls : bool
            Whether to look into the memory cache, which the caller may have done.

        Raises
        ------
        CorruptDataError
            Bytes are missing, truncated or altered; the key is named.
        StorageError
        """
        names = blobs.names
        if max_bytes is not None:
            self._require_short(names, max_bytes)
        positions: Sequence[int] = range(len(names))
        if sink.keys is not None and recalls:
            positions = self._recall(sink.keys, sink)
        if not positions:
            return
        if not self.remote:
            read_local(self.store, blobs, positions, sink)
            return
        cached: list[list[int]] = []
        if self._sections is not None and len(positions) == 1:
            # To look whether it is there would take as long as to read it.
            positions = self._take_cached(self._sections, blobs, positions, sink)
        elif self._sections is not None:
            cached = self._sections.present(names, positions)
        if positions:
            self._fetch(blobs, positions, cached, sink, max_kept_bytes)

    def fetch_to_disk(self, blobs: Blobs, *, max_bytes: int | None = None, budget_bytes: int | None = None) -> None:
        """Have the disk cache hold blobs that are about to be read, where there is one, up to a number of bytes.

        As :meth:`read` otherwise.
        """
        names = blobs.names
        if max_bytes is not None:
            self._require_short(names, max_bytes)
        if self._sections is None or not self._sections.writable:
            return
        present = self._sections.present(names, range(len(names)), counted=False)
        cached = {i for section in present for i in section}
        missing = [i for i in range(len(names)) if i not in cached]
        if budget_bytes is not None:
            sizes = itertools.accumulate(names[i][3] for i in missing)
            missing = [i for i, size in zip(missing, sizes, strict=True) if size <= budget_bytes]
        self._fetch(blobs, missing, [], Sink(), None)

    def blobs(self, blobs: Blobs | Refs, *, keep: bool = False, max_bytes: int | None = None) -> list[Buffer]:
        """The bytes of each blob, for the caller to hold; by default not put into the disk cache. See :meth:`read`."""
        if not isinstance(blobs, Blobs):
            blobs = Blobs.of_refs(blobs)
        copies = Copies(blobs.names)
        self.read(blobs, copies, max_bytes=max_bytes, max_kept_bytes=None if keep else 0)
        return copies.data

    def cached_blob(self, blobs: Blobs) -> Buffer | None:
        """The bytes of a single blob from the disk cache; None if it has not the right ones."""
        if self._sections is None:
            return None
        (data,) = self._sections.read(blobs.names)
        return bytes(data) if data is not None and blobs.is_intact(0, data) else None

    def object(self, key: str, length: int, digest: bytes) -> Buffer:
        """A whole immutable object (a manifest node), verified; kept in the disk cache.

        Threads that want the same wait for one request.

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
                self.disk.reject(cache_key)
        mine: dict[int, Fetch] = {}
        try:
            theirs = self._in_flight.join([(0, cache_key)], mine)
            data = self._in_flight.wait(theirs[0][1]) if theirs else None
            if data is None:
                data = whole_object(self.store, key, length, digest)
                self.keep_object(key, data)
            for fetch in mine.values():
                self._in_flight.complete(fetch, data)
        except BaseException as error:
            self._in_flight.fail(mine.values(), error)
            raise
        return data

    def keep_object(self, key: str, data: Buffer) -> None:
        """Put an object that was just uploaded, such as :meth:`object` reads, into the disk cache."""
        if self.disk is not None:
            self.disk.put(f"{self.identity} {key}", data)

    def keep(self, key: str, pieces: list[Buffer]) -> None:
        """Put a pack that was just uploaded into the disk cache, for other processes of this machine."""
        if self._sections is not None:
            self._sections.put(key, [(0, b"".join(pieces))])

    def _require_short(self, names: Sequence[BlobName], max_bytes: int) -> None:
        for name in names:
            if name[3] > max_bytes:
                raise CorruptDataError(
                    f"{self.store.where(key_of(name))}: a commit refers to {name[3]:,} bytes of it as one chunk, which "
                    f"has at most {max_bytes:,}; restore an older commit"
                )

    def _recall(self, keys: Sequence[Hashable | None], sink: Sink) -> list[int]:
        """Hand over what the memory cache has; returns the positions of the other blobs."""
        missing = []
        for i, key in enumerate(keys):
            value = None if key is None else self.memory.get(key)
            if value is None:
                missing.append(i)
            else:
                sink.recall(i, value)
        return missing

    def _fetch(
        self,
        blobs: Blobs,
        positions: Collection[int],
        cached: list[list[int]],
        sink: Sink,
        max_kept_bytes: int | None,
    ) -> None:
        """Read blobs of a remote root, of which the disk cache seems to have some."""
        names = blobs.names
        if cached:
            in_cache = {i for section in cached for i in section}
            positions = [i for i in positions if i not in in_cache]
        fetches: dict[int, Fetch] = {}
        try:
            theirs = self._in_flight.join(((i, names[i]) for i in positions), fetches)
            keep = max_kept_bytes is None or sum(names[i][3] for i in fetches) <= max_kept_bytes
            work: list[tuple[int, Callable[[], None]]] = [
                (sum(names[i][3] for i in section), partial(self._read_cached, blobs, section, sink))
                for section in cached
            ]
            work += [
                (self._held_bytes(run), partial(self._fetch_run, blobs, run, fetches, sink, keep))
                for run in plan_runs(names, list(fetches))
            ]
            if len(work) == 1:
                # A single request runs here: handing it to another thread would only cost time.
                work[0][1]()
            elif work:
                run_all(work)
        except BaseException as error:
            self._in_flight.fail(list(fetches.values()), error)
            raise
        for i, fetch in theirs:
            data = self._in_flight.wait(fetch)
            if data is None:
                data = read_alone(self.store, blobs, i)
            with pools.codec_slots:
                sink.take(i, data, True)

    def _comes_in_pieces(self, run: RangeRequest) -> bool:
        """Whether blobs are handed over while later ones arrive; a single blob would only be joined from its pieces."""
        return self.store.streams and len(run.members) > 1 and run.length > _LONG_RUN_BYTES

    def _held_bytes(self, run: RangeRequest) -> int:
        """The bytes that the request of a run holds at a time."""
        return min(run.length, _PIECES_HELD * PIECE_BYTES) if self._comes_in_pieces(run) else run.length

    def _fetch_run(self, blobs: Blobs, run: RangeRequest, fetches: dict[int, Fetch], sink: Sink, keep: bool) -> None:
        """Fetch a run in one ranged request, and hand over its blobs, on no more threads at a time than cores."""
        names = blobs.names
        key = key_of(names[run.members[0]])
        if self._comes_in_pieces(run):
            pieces = arriving(self.store, key, run.start, run.length)
        else:
            pieces = iter([unverified(self.store, key, run.start, run.length)])
        begins = [names[i][2] - run.start for i in run.members]
        ends = [begin + names[i][3] for begin, i in zip(begins, run.members, strict=True)]
        for complete in cut(pieces, begins, ends):
            intact: list[tuple[int, Buffer]] = []
            with pools.codec_slots:
                for n, data in complete:
                    i = run.members[n]
                    if not blobs.is_intact(i, data):
                        data = read_alone(self.store, blobs, i)
                    sink.take(i, data, True)
                    # Only now: before it is taken the caches do not have it, and a thread that asks for it would fetch
                    # it again. A fetch holds its bytes, so without it they are freed before the whole read is over.
                    self._in_flight.complete(fetches[i], data)
                    del fetches[i]
                    intact.append((names[i][2], data))
            if keep and self._sections is not None:
                self._sections.put(key, intact)

    def _read_cached(self, blobs: Blobs, section: Sequence[int], sink: Sink) -> None:
        """Blobs of one section of the disk cache; those that are not there any more are fetched."""
        sections, names = self._sections, blobs.names
        assert sections is not None
        for i in self._take_cached(sections, blobs, section, sink):
            data = read_alone(self.store, blobs, i)
            sections.put(key_of(names[i]), [(names[i][2], data)])
            with pools.codec_slots:
                sink.take(i, data, True)

    @staticmethod
    def _take_cached(sections: DiskSections, blobs: Blobs, section: Sequence[int], sink: Sink) -> list[int]:
        """Hand over the blobs of one section that the disk cache has; returns the positions of the others."""
        missing = []
        cached = sections.read([blobs.names[i] for i in section])
        with pools.codec_slots:
            for i, data in zip(section, cached, strict=True):
                if data is not None and blobs.is_intact(i, data):
                    sink.take(i, data, False)
                    continue
                if data is not None:
                    sections.reject(blobs.names[i])
                missing.append(i)
        return missing


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
                disk = None
                if settings.disk_cache_bytes > 0:
                    disk = self._disk.setdefault(disk_key, DiskCache(*disk_key))
                self._fetchers[key] = Fetcher(root, memory, disk)
            return self._fetchers[key]

    def stats(self) -> Stats:
        """The sum over all roots; caches and stores that several share are counted once."""
        with self._lock:
            fetchers = list(self._fetchers.values())
        stores = {id(fetcher.store): fetcher.store.stats for fetcher in fetchers}.values()
        stages = [fetcher.stages for fetcher in fetchers]
        return totals(list(stores), list(self._memory.values()), list(self._disk.values()), stages)


_shared = _Shared()


def stats() -> Stats:
    """Counts of this process's requests and of its caches, all roots together.

    Costs nothing. ``a.stats`` has the same for the root of one array.
    """
    return _shared.stats()


def fetcher_for(root: Root) -> Fetcher:
    """The fetcher of this process for a root, with the caches configured now."""
    return _shared.fetcher(root)
