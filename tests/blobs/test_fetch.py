"""Fetches that several threads make of the same blobs at once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.disk_sections import TABLE_BYTES
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.memory_cache import MemoryCache
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.pools import CodecSlots
from hubarray.blobs.ref import REF, Blobs, blob_hash
from hubarray.blobs.sinks import Sink
from hubarray.errors import CorruptDataError, UnavailableError
from tests.ctrl_c import interrupt_at
from tests.rounds import rounds

SMALL = 1000


def fetcher_of(root, length):
    packs = PackWriter(root.store, "lab/blobs")
    refs = np.array([packs.add(bytes([65 + i]) * length) for i in range(3)], REF)
    packs.finish()
    return Fetcher(root, MemoryCache(0), None), refs


@pytest.fixture
def stored(make_root):
    """A fetcher of a remote root without caches, and the refs of three blobs."""
    return fetcher_of(make_root("s3"), 1 << 20)


@pytest.fixture
def neighbours(make_root):
    """As ``stored``, side by side in a pack."""
    return fetcher_of(make_root("s3"), SMALL)


class Calls(Sink):
    """Calls a function for each blob."""

    def __init__(self, function):
        self.take = function


def gate(fetcher, monkeypatch):
    """Holds every request until it is opened; gives the number of requests."""
    opened, requests, real = threading.Event(), [], fetcher.store.get

    def get(*arguments):
        requests.append(arguments)
        assert opened.wait(10)
        return real(*arguments)

    monkeypatch.setattr(fetcher.store, "get", get)
    return opened, requests


def test_threads_that_want_the_same_blob_make_one_request(stored, monkeypatch):
    fetcher, refs = stored
    opened, requests = gate(fetcher, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        reads = [pool.submit(fetcher.blobs, refs[:1]) for _ in range(8)]
        threading.Timer(0.3, opened.set).start()
        result = [bytes(*read.result()) for read in reads]
    assert set(result) == {b"A" * (1 << 20)}
    assert len(requests) == 1


def test_a_blob_that_is_wanted_again_while_the_rest_of_a_fetch_goes_on_is_fetched_undisturbed(stored, monkeypatch):
    fetcher, refs = stored
    landed, finished = threading.Event(), threading.Event()
    real, again = fetcher.store.get, []

    def get(*arguments):
        if threading.current_thread().name == "again":
            # The second request for the blob is under way until the first fetch is over and has cleaned up.
            assert finished.wait(10)
        return real(*arguments)

    def consume(position, data, is_fetched):
        if position == 0:
            landed.set()

    def once_more():
        assert landed.wait(10)
        again.append(bytes(*fetcher.blobs(refs[:1])))

    monkeypatch.setattr(fetcher.store, "get", get)
    thread = threading.Thread(target=once_more, name="again")
    thread.start()
    sink = Calls(lambda *blob: (consume(*blob), landed.wait(1), thread.join(0.3)))
    fetcher.read(Blobs.of_refs(refs), sink)
    finished.set()
    thread.join(10)
    assert again == [b"A" * (1 << 20)]


def test_blobs_side_by_side_are_one_request_and_whoever_wants_one_of_them_waits_for_it(neighbours, monkeypatch):
    fetcher, refs = neighbours
    refs = refs[:2]
    opened, requests = gate(fetcher, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetcher.blobs, refs)
        while not requests:
            time.sleep(0.01)
        second = pool.submit(fetcher.blobs, refs[1:])
        time.sleep(0.2)
        opened.set()
        assert first.result(10) == [b"A" * SMALL, b"B" * SMALL]
        assert second.result(10) == [b"B" * SMALL]
    assert len(requests) == 1


def test_a_blob_that_is_wanted_twice_is_fetched_once(neighbours):
    fetcher, refs = neighbours
    assert fetcher.blobs(refs[[2, 0, 2]]) == [b"C" * SMALL, b"A" * SMALL, b"C" * SMALL]
    assert fetcher.store.stats.counts()["get"] == 1


@pytest.mark.parametrize("engine", ["s3", "local"])
def test_what_was_given_out_is_nobody_elses(make_root, engine):
    fetcher, refs = fetcher_of(make_root(engine), SMALL)
    first, second = fetcher.blobs(refs[[0, 0]])
    first[:] = bytes(SMALL)
    assert second == b"A" * SMALL
    assert fetcher.blobs(refs[:1]) == [b"A" * SMALL]


@pytest.mark.parametrize("engine", ["s3", "local"])
def test_what_a_sink_made_is_recalled_from_the_memory_cache_without_a_request(make_root, engine):
    uncached, refs = fetcher_of(make_root(engine), SMALL)
    fetcher = Fetcher(uncached.root, MemoryCache(1 << 20), None)

    class Texts(Sink):
        def __init__(self):
            self.keys = ["a", None, "c"]
            self.taken, self.recalled = {}, {}

        def recall(self, i, value):
            self.recalled[i] = value

        def take(self, i, data, is_fetched):
            self.taken[i] = bytes(data).decode()
            if self.keys[i]:
                fetcher.memory.put(self.keys[i], self.taken[i], len(data))

    first, second = Texts(), Texts()
    fetcher.read(Blobs.of_refs(refs), first)
    before = fetcher.store.stats.counts()["get"]
    fetcher.read(Blobs.of_refs(refs), second)
    texts = {0: "A" * SMALL, 1: "B" * SMALL, 2: "C" * SMALL}
    assert (first.taken, first.recalled) == (texts, {})
    assert (second.taken, second.recalled) == ({1: texts[1]}, {0: texts[0], 2: texts[2]})
    assert fetcher.store.stats.counts()["get"] == before + 1


def test_a_blob_that_its_check_refuses_is_asked_for_again_and_then_an_error(neighbours, monkeypatch):
    fetcher, refs = neighbours
    blobs = Blobs(Blobs.of_refs(refs[:1]).names, lambda i, pieces: False)
    with pytest.raises(CorruptDataError, match="bytes 0 to 1000"):
        fetcher.blobs(blobs)
    real, lengths = fetcher.store.get, iter([SMALL - 1, SMALL])
    monkeypatch.setattr(fetcher.store, "get", lambda key, start, length: real(key, start, next(lengths)))
    assert fetcher.blobs(refs[:1]) == [b"A" * SMALL]


def test_when_a_fetch_fails_those_who_waited_for_it_fetch_for_themselves(neighbours, monkeypatch):
    fetcher, refs = neighbours
    real, begun, waiting = fetcher.store.get, threading.Event(), threading.Event()

    def get(*arguments):
        if not begun.is_set():
            begun.set()
            assert waiting.wait(10)
            raise UnavailableError("the server went away")
        return real(*arguments)

    monkeypatch.setattr(fetcher.store, "get", get)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetcher.blobs, refs[:2])
        assert begun.wait(10)
        second = pool.submit(fetcher.blobs, refs[:1])
        threading.Timer(0.2, waiting.set).start()
        with pytest.raises(UnavailableError):
            first.result(10)
        assert second.result(10) == [b"A" * SMALL]


def test_threads_that_want_the_same_node_make_one_request(make_root, monkeypatch):
    root = make_root("s3")
    root.store.put("node", b"x" * 100)
    fetcher = Fetcher(root, MemoryCache(0), None)
    opened, requests = gate(fetcher, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(fetcher.object, "node", 100, blob_hash(b"x" * 100)) for _ in range(8)]
        time.sleep(0.2)
        opened.set()
        assert {bytes(answer.result(10)) for answer in answers} == {b"x" * 100}
    assert len(requests) == 1


def test_a_damaged_file_of_the_disk_cache_counts_as_a_miss_and_is_told_once(stored, tmp_path, caplog):
    uncached, refs = stored
    fetcher = Fetcher(uncached.root, MemoryCache(0), DiskCache(tmp_path, 64 << 20))
    fetcher.read(Blobs.of_refs(refs), Sink())
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    assert len(files) == 3
    for path in files[:2]:
        path.write_bytes(path.read_bytes()[:TABLE_BYTES] + b"?" * (1 << 20))
    before = fetcher.stats()
    assert fetcher.blobs(refs) == uncached.blobs(refs)
    spent = fetcher.stats() - before
    assert (spent.disk_hits, spent.disk_misses) == (1, 2)
    assert sum("is damaged" in record.getMessage() for record in caplog.records) == 1


@pytest.fixture
def in_one_request(make_root):
    """Forty blobs that one long request to S3 takes."""
    root = make_root("s3")
    packs = PackWriter(root.store, "lab/blobs")
    blobs = [np.random.default_rng(i).bytes(300_000) for i in range(40)]
    refs = np.array([packs.add(blob) for blob in blobs], REF)
    packs.finish()
    return Fetcher(root, MemoryCache(0), None), blobs, refs


def test_blobs_of_a_long_request_are_handed_over_while_it_is_still_arriving(in_one_request, monkeypatch):
    fetcher, blobs, refs = in_one_request
    events, real = [], fetcher.store._pieces

    def pieces(*arguments):
        for piece in real(*arguments):
            events.append("piece")
            yield piece

    result = {}

    def consume(i, data, is_fetched):
        events.append("blob")
        result[i] = bytes(data)

    monkeypatch.setattr(fetcher.store, "_pieces", pieces)
    order = np.random.default_rng(0).permutation(40)
    fetcher.read(Blobs.of_refs(refs[order]), Calls(consume))
    assert [result[i] for i in range(40)] == [blobs[i] for i in order]
    assert fetcher.store.stats.counts()["get"] == 1
    assert events.index("blob") < 3
    assert events.count("piece") > 5


def test_a_damaged_blob_in_a_long_request_is_asked_for_again_by_itself(in_one_request, monkeypatch):
    fetcher, blobs, refs = in_one_request
    real = fetcher.store._pieces

    def damaged(*arguments):
        for n, piece in enumerate(real(*arguments)):
            yield bytes(len(piece)) if n == 2 else piece

    monkeypatch.setattr(fetcher.store, "_pieces", damaged)
    assert fetcher.blobs(refs) == blobs
    assert 2 < fetcher.store.stats.counts()["get"] < 10


@pytest.mark.parametrize("disk_cache_bytes", [0, 64 << 20])
@pytest.mark.parametrize("order", [[0], [2, 0]], ids=["one request", "two requests"])
def test_ctrl_c_anywhere_in_a_read_leaves_nothing_that_others_wait_for(make_root, tmp_path, order, disk_cache_bytes):
    uncached, refs = fetcher_of(make_root("s3"), 400_000)
    # Held: what nobody holds is taken apart by calls, which are not to be interrupted.
    fetchers, count = [], 0
    while True:
        count += rounds(3, 1)
        disk = DiskCache(tmp_path / str(count), disk_cache_bytes) if disk_cache_bytes else None
        fetcher = Fetcher(uncached.root, MemoryCache(0), disk)
        fetchers.append(fetcher)
        if not interrupt_at(count, partial(fetcher.blobs, refs[order])):
            break
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(fetcher.blobs, refs[order]).result(30) == [bytes([65 + i]) * 400_000 for i in order]
    assert count > 20


def test_ctrl_c_anywhere_in_a_read_of_a_node_leaves_nothing_that_others_wait_for(make_root):
    root = make_root("s3")
    root.store.put("node", b"x" * 100)
    fetcher = Fetcher(root, MemoryCache(0), None)
    read = partial(fetcher.object, "node", 100, blob_hash(b"x" * 100))
    count = 0
    while True:
        count += 1
        if not interrupt_at(count, read):
            break
        with ThreadPoolExecutor(1) as pool:
            assert bytes(pool.submit(read).result(30)) == b"x" * 100
    assert count > 20


def test_as_many_threads_decode_as_there_are_cores_and_the_main_thread_at_any_time():
    slots, running, most, lock = CodecSlots(2), [0], [0], threading.Lock()

    def decode(_):
        with slots:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.01)
            with lock:
                running[0] -= 1

    with ThreadPoolExecutor(8) as pool, slots, slots, slots:
        list(pool.map(decode, range(16)))
    assert most[0] == 2


def test_a_file_that_is_cut_short_is_noticed_even_if_memory_holds_the_right_bytes(make_root):
    fetcher, refs = fetcher_of(make_root("local"), SMALL)
    (pack,) = (info.key for info in fetcher.store.list("lab/blobs/packs/"))

    class Filled(Sink):
        def buffers(self, i):
            return [memoryview(bytearray([65 + i]) * SMALL)]

    fetcher.read(Blobs.of_refs(refs), Filled())
    fetcher.store.put(pack, b"A" * (SMALL - 1))
    for some in (refs[:1], refs):
        with pytest.raises(CorruptDataError, match=pack):
            fetcher.read(Blobs.of_refs(some), Filled())


def test_repeated_blobs_of_a_folder_are_not_taken_for_neighbours(make_root):
    fetcher, refs = fetcher_of(make_root("local"), SMALL)
    before = fetcher.stats()
    assert fetcher.blobs(refs[[0, 0, 2]]) == [b"A" * SMALL, b"A" * SMALL, b"C" * SMALL]
    assert (fetcher.stats() - before).gets == 1


def test_only_what_is_fetched_counts_against_the_limit_of_what_goes_to_disk(stored, tmp_path):
    uncached, refs = stored
    fetcher = Fetcher(uncached.root, MemoryCache(0), DiskCache(tmp_path, 64 << 20))
    fetcher.read(Blobs.of_refs(refs[:2]), Sink())
    fetcher.read(Blobs.of_refs(refs), Sink(), max_kept_bytes=1 << 20)
    before = fetcher.stats()
    fetcher.read(Blobs.of_refs(refs), Sink())
    assert (fetcher.stats() - before).gets == 0


def test_a_budget_of_a_fetch_to_disk_counts_only_what_is_not_there(stored, tmp_path):
    uncached, refs = stored
    fetcher = Fetcher(uncached.root, MemoryCache(0), DiskCache(tmp_path, 64 << 20))
    fetcher.read(Blobs.of_refs(refs[:2]), Sink())
    fetcher.fetch_to_disk(Blobs.of_refs(refs), budget_bytes=1 << 20)
    before = fetcher.stats()
    fetcher.read(Blobs.of_refs(refs), Sink())
    assert (fetcher.stats() - before).gets == 0
