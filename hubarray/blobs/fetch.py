"""The fetch engine: refs in, verified bytes out, by way of the disk cache and ranged requests.

Every blob that comes from storage or from the disk cache is hashed before
anybody sees it. Threads that want the same blob wait for one fetch of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial

import numpy as np

from hubarray import config, process
from hubarray.blobs.coalesce import RangeRequest, plan_runs
from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.disk_sections import DiskSections
from hubarray.blobs.in_flight import Fetch, InFlight
from hubarray.blobs.local_files import Targets, read_local
from hubarray.blobs.memory_cache import MemoryCache
from hubarray.blobs.pools import pools
from hubarray.blobs.ref import (
    BlobName,
    BlobPlace,
    Check,
    RefBatch,
    Refs,
    blob_hash,
    blob_key,
    blob_names,
    blob_place,
    pack_key,
)
from hubarray.blobs.scheduling import run_all
from hubarray.blobs.slicing import cut
from hubarray.blobs.stats import StageSeconds, Stats, totals
from hubarray.blobs.verified import Consume, VerifiedReads, whole_object
from hubarray.errors import CorruptDataError, ObjectMissingError
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
        self.disk = disk if root.store.remote else None
        self._sections = None if self.disk is None else DiskSections(self.disk, self.identity)
        self._in_flight = InFlight()
        self._reads = VerifiedReads(root)

    @property
    def store(self) -> Store:
        """This process's store of the root."""
        return self.root.store

    def stats(self) -> Stats:
        """Counts of this process's requests to the root, and of its caches."""
        return totals([self.store.stats], [self.memory], [] if self.disk is None else [self.disk], [self.stages])

    def fetch(
        self,
        refs: Refs,
        consume: Consume,
        *,
        keep: bool = True,
        targets: Targets | None = None,
        max_bytes: int | None = None,
        check: Check | None = None,
    ) -> None:
        """Hand each ref's verified bytes to ``consume(position, bytes)``, on whatever thread has them.

        Parameters
        ----------
        refs : array of REF, 1-d
            Present refs.
        consume : callable
            Typically decodes into the result. It uses at most one thread per core. Must not keep the bytes: they may
            lie in memory that is used again; :meth:`blobs` copies them.
        keep : bool
            Whether fetched bytes go into the disk cache.
        targets : Targets, optional
            Buffers for blobs of local files. A blob that is read into its buffer is not consumed.
        max_bytes : int, optional
            Limit of a blob's length. A ref that claims more is damaged, and nothing is fetched.
        check : callable, optional
            Proof of the bytes at each position; by default the hash in its ref.

        Raises
        ------
        CorruptDataError
            Bytes are missing, truncated or altered; the key is named.
        StorageError
        """
        if len(refs) == 0:
            return
        if max_bytes is not None and (refs["length"] > max_bytes).any():
            place = blob_place(refs[refs["length"].argmax()])
            raise CorruptDataError(
                f"{self.store.where(place.key)}: a commit refers to {place.length:,} bytes of it as one chunk, which "
                f"has at most {max_bytes:,}; restore an older commit"
            )
        ref_batch = RefBatch(refs, check)
        if not self.store.remote:
            read_local(self._reads, ref_batch, consume, targets)
            return
        names = blob_names(refs)
        sections = self._sections
        cached = [] if sections is None else sections.present(names)
        is_missing = np.ones(len(refs), np.bool_)
        for indices in cached:
            is_missing[indices] = False
        missing = np.flatnonzero(is_missing).tolist()
        fetches, theirs = self._in_flight.join((i, names[i]) for i in missing)
        positions = list(fetches)
        mine = ref_batch if len(positions) == len(refs) else ref_batch.among(positions)
        try:
            runs = plan_runs(mine.refs)
            work = [
                (
                    sum(ref_batch.lengths[i] for i in indices),
                    partial(self._fetch_cached, sections, indices, ref_batch, consume),
                )
                for indices in cached
                if sections is not None
            ]
            land = partial(self._land, positions, fetches, consume)
            work += [(self._held_bytes(run), partial(self._fetch_run, run, mine, land, keep)) for run in runs]
            if len(work) == 1:
                # A single request runs here: handing it to another thread would only cost time.
                work[0][1]()
            else:
                run_all(work)
        except BaseException as error:
            self._in_flight.fail(list(fetches.values()), error)
            raise
        for i, fetch in theirs:
            data = self._in_flight.wait(fetch)
            if data is None:
                data = self._reads.blob(blob_place(refs[i]), partial(ref_batch.is_intact, i))
            with pools.codec_slots:
                consume(i, data)

    @property
    def can_fetch_ahead(self) -> bool:
        """Whether :meth:`fetch_ahead` does anything: whether blobs are remote, and there is a disk cache."""
        return self._sections is not None and self._sections.writable

    def fetch_ahead(self, refs: Refs) -> None:
        """Have the disk cache hold blobs that are about to be read one by one, by as few requests as :meth:`fetch`.

        Only as many as a quarter of its budget has room for.

        Raises
        ------
        CorruptDataError, StorageError
        """
        if self._sections is None or self.disk is None or not len(refs):
            return
        names = blob_names(refs)
        is_missing = np.ones(len(refs), np.bool_)
        for indices in self._sections.present(names, counted=False):
            is_missing[indices] = False
        is_missing &= np.cumsum(refs["length"] * is_missing, dtype=np.uint64) <= self.disk.budget_bytes // 4
        self.fetch(refs[is_missing], lambda i, data: None)

    def blobs(
        self, refs: Refs, *, keep: bool = False, max_bytes: int | None = None, check: Check | None = None
    ) -> list[bytes]:
        """The verified bytes of each ref, for the caller to hold; by default not put into the disk cache.

        As :meth:`fetch` otherwise.
        """
        whole_blobs: dict[int, bytes] = {}

        def consume(i: int, data: Buffer) -> None:
            whole_blobs[i] = bytes(data)

        self.fetch(refs, consume, keep=keep, max_bytes=max_bytes, check=check)
        return [whole_blobs[i] for i in range(len(refs))]

    def read_local_or_cached(self, blob: BlobPlace, out: memoryview) -> bool:
        """Fill ``out``, as long as the blob, from a local file; False if the right bytes are not there."""
        if not self.store.remote:
            try:
                complete = self.store.read_into(blob.key, blob.offset, out) == blob.length
            except ObjectMissingError:
                return False
            return complete and blob_hash(out) == blob.digest
        if self._sections is None or not self._sections.read_into(blob.key, blob.offset, out):
            return False
        if blob_hash(out) != blob.digest:
            self._sections.reject(blob.key, blob.offset)
            return False
        return True

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

        def fetch() -> Buffer:
            data = whole_object(self.store, key, length, digest)
            if self.disk is not None:
                self.disk.put(cache_key, data)
            return data

        return self._once(cache_key, fetch)

    def blob(self, blob: BlobPlace) -> Buffer:
        """One blob of a remote root, verified, on the calling thread; kept in the disk cache.

        Threads that want the same wait for one request.

        Raises
        ------
        CorruptDataError, StorageError
        """

        def fetch() -> Buffer:
            data = self._reads.blob(blob)
            if self._sections is not None:
                self._sections.put(blob.key, [(blob.offset, data)])
            return data

        return self._once(blob.name, fetch)

    def runs(
        self, runs: Sequence[Sequence[BlobName]], is_intact: Callable[[BlobName, Buffer], bool]
    ) -> dict[BlobName, bytearray] | None:
        """Blobs of a remote root, each in memory of its own: a request for each run of them, without a plan.

        A single run is read on the calling thread, several on those for I/O.

        Parameters
        ----------
        runs : sequence of sequence of BlobName
            Distinct blobs; those of a run follow each other in one pack.
        is_intact : callable
            Proof of the bytes of each.

        Returns
        -------
        dict of BlobName to bytes, or None
            None where :meth:`fetch` is the one to read them: of some the disk cache has the bytes, or another thread is
            fetching them, or what came is not what was stored.

        Raises
        ------
        CorruptDataError, StorageError
        """
        names = [name for run in runs for name in run]
        if not names:
            return {}
        if self._sections is not None and self._sections.present(names, counted=False):
            return None
        mine, theirs = self._in_flight.join(enumerate(names))
        fetches = {names[i]: fetch for i, fetch in mine.items()}
        joined_blobs: dict[BlobName, bytearray] = {}
        error: BaseException = InterruptedError()
        try:
            if not theirs:
                tasks = [
                    (sum(length for *_, length in run), partial(self._read_run, run, fetches, is_intact, joined_blobs))
                    for run in runs
                ]
                if len(tasks) == 1:
                    tasks[0][1]()
                else:
                    run_all(tasks)
        except BaseException as failure:
            error = failure
            raise
        finally:
            self._in_flight.fail([fetch for name, fetch in fetches.items() if name not in joined_blobs], error)
        return joined_blobs if len(joined_blobs) == len(names) else None

    def _read_run(
        self,
        run: Sequence[BlobName],
        fetches: dict[BlobName, Fetch],
        is_intact: Callable[[BlobName, Buffer], bool],
        out: dict[BlobName, bytearray],
    ) -> None:
        home, pack, start, _ = run[0]
        key = pack_key(home, pack.hex())
        data = memoryview(self._reads.unverified(key, start, sum(length for *_, length in run)))
        blobs = [(name, data[name[2] - start : name[2] - start + name[3]]) for name in run]
        if not all(is_intact(name, blob) for name, blob in blobs):
            return
        if self._sections is not None:
            self._sections.count_missed(len(run))
            self._sections.put(key, [(name[2], blob) for name, blob in blobs])
        for name, blob in blobs:
            # The one copy: whoever holds a blob does not hold the request that it came in.
            out[name] = bytearray(blob)
            self._in_flight.complete(fetches[name], blob)

    def keep_object(self, key: str, data: Buffer) -> None:
        """Put an object that was just uploaded, such as :meth:`object` reads, into the disk cache."""
        if self.disk is not None:
            self.disk.put(f"{self.identity} {key}", data)

    def keep(self, key: str, pieces: list[Buffer]) -> None:
        """Put a pack that was just uploaded into the disk cache, for other processes of this machine."""
        if self._sections is not None:
            self._sections.put(key, [(0, b"".join(pieces))])

    def _once(self, name: Hashable, fetch: Callable[[], Buffer]) -> Buffer:
        mine, theirs = self._in_flight.join([(0, name)])
        if theirs:
            data = self._in_flight.wait(theirs[0][1])
            return fetch() if data is None else data
        try:
            data = fetch()
        except BaseException as error:
            self._in_flight.fail(mine.values(), error)
            raise
        self._in_flight.complete(mine[0], data)
        return data

    def _land(
        self,
        positions: list[int],
        fetches: dict[int, Fetch],
        consume: Consume,
        position: int,
        data: Buffer,
    ) -> None:
        """Pass the bytes that this call fetched to other threads that wait for them."""
        i = positions[position]
        consume(i, data)
        # Landed only after it is consumed: before that the caches do not have it, and a thread that asks for it
        # would fetch it again.
        fetch = fetches[i]
        self._in_flight.complete(fetch, data)
        # A fetch holds its bytes. Without it here they are freed before the whole fetch is over.
        del fetches[i]

    def _comes_in_pieces(self, run: RangeRequest) -> bool:
        """Whether blobs are handed over while later ones arrive; a single blob would only be joined from its pieces."""
        return self.store.streams and len(run.members) > 1 and run.length > _LONG_RUN_BYTES

    def _held_bytes(self, run: RangeRequest) -> int:
        """The bytes that the request of a run holds at a time."""
        return min(run.length, _PIECES_HELD * PIECE_BYTES) if self._comes_in_pieces(run) else run.length

    def _fetch_run(self, run: RangeRequest, ref_batch: RefBatch, consume: Consume, keep: bool) -> None:
        """Fetch a run in one ranged request, and hand over its blobs, on no more threads at a time than cores."""
        key = blob_key(ref_batch.refs[run.first])
        if self._comes_in_pieces(run):
            pieces = self._reads.arriving(key, run.start, run.length)
        else:
            pieces = iter([self._reads.unverified(key, run.start, run.length)])
        begins = [ref_batch.offsets[i] - run.start for i in run.members]
        ends = [begin + ref_batch.lengths[i] for begin, i in zip(begins, run.members, strict=True)]
        for blobs in cut(pieces, begins, ends):
            intact: list[tuple[int, Buffer]] = []
            with pools.codec_slots:
                for n, blob in blobs:
                    i = run.members[n]
                    if not ref_batch.is_intact(i, blob):
                        blob = self._reads.blob(blob_place(ref_batch.refs[i]), partial(ref_batch.is_intact, i))
                    consume(i, blob)
                    intact.append((ref_batch.offsets[i], blob))
            if keep and self._sections is not None:
                self._sections.put(key, intact)

    def _fetch_cached(self, sections: DiskSections, members: list[int], ref_batch: RefBatch, consume: Consume) -> None:
        """Blobs of one section of the disk cache."""
        key = blob_key(ref_batch.refs[members[0]])
        offsets, lengths = ([column[i] for i in members] for column in (ref_batch.offsets, ref_batch.lengths))
        blobs = sections.read(key, offsets, lengths)
        with pools.codec_slots:
            for i, blob in zip(members, blobs, strict=True):
                if blob is not None and not ref_batch.is_intact(i, blob):
                    sections.reject(key, ref_batch.offsets[i])
                    blob = None
                if blob is None:
                    blob = self._reads.blob(blob_place(ref_batch.refs[i]), partial(ref_batch.is_intact, i))
                    sections.put(key, [(ref_batch.offsets[i], blob)])
                consume(i, blob)


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
