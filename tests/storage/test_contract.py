"""What every storage engine promises, run over all of them against real servers."""

import concurrent.futures
import multiprocessing
import uuid

import pytest

import hubarray as hub
from hubarray.errors import ObjectMissingError
from hubarray.storage.filesystem import FilesystemStore
from hubarray.storage.s3_filesystem import S3FilesystemStore
from hubarray.storage.url import open_store
from tests.rounds import rounds

ENGINES = ("local", "memory", "s3 obstore", "s3 s3fs", "gs gcsfs")


@pytest.fixture(params=ENGINES)
def store(request, make_root):
    return store_of(request.param, make_root)


def store_of(engine, make_root):
    """A store on a new root, by one of ENGINES."""
    kind, _, library = engine.partition(" ")
    root = make_root(kind)
    return S3FilesystemStore(root.url, root._options) if library == "s3fs" else open_store(root)


def test_what_is_put_is_got_whole_and_in_ranges(store):
    store.put("a/b", b"0123456789")
    assert bytes(store.get("a/b")) == b"0123456789"
    assert bytes(store.get("a/b", 3, 4)) == b"3456"
    assert bytes(store.get("a/b", 0, 10)) == b"0123456789"


def test_a_range_past_the_end_gives_what_there_is(store):
    store.put("short", b"0123456789")
    assert bytes(store.get("short", 8, 100)) == b"89"
    assert bytes(store.get("short", 50, 100)) == b""
    assert bytes(store.get("short", 5, 0)) == b""


def test_put_replaces_and_empty_objects_exist(store):
    store.put("x", b"one")
    store.put("x", b"")
    assert bytes(store.get("x")) == b""
    assert store.head("x").size_bytes == 0


def test_buffers_of_any_kind_are_stored(store):
    store.put("view", memoryview(bytearray(b"abc")))
    store.put_if_absent("array", bytearray(b"def"))
    assert bytes(store.get("view")) == b"abc"
    assert bytes(store.get("array")) == b"def"


@pytest.mark.parametrize("atomic", [True, False])
def test_several_buffers_are_laid_back_to_back_however_many(store, atomic):
    pieces = [b"one", memoryview(bytearray(b"two")), b""] + [b"%d," % i for i in range(3000)]
    store.put("pieces", b"something longer" * 2000)
    store.put("pieces", pieces, atomic=atomic)
    assert bytes(store.get("pieces")) == b"".join(pieces)


def test_large_objects_come_back(store):
    data = bytes(range(256)) * (20 << 12)
    store.put("large", data)
    assert bytes(store.get("large")) == data
    assert bytes(store.get("large", 7_000_001, 5_000_000)) == data[7_000_001:12_000_001]


def test_a_range_comes_in_pieces_and_is_one_request(store):
    data = bytes(range(251)) * (20 << 10)
    store.put("large", data)
    before = store.stats.counts()
    pieces = list(store.pieces("large", 1_000_001, 4_000_000))
    assert b"".join(pieces) == data[1_000_001:5_000_001]
    spent = store.stats.counts() - before
    assert (spent["get"], spent["read_bytes"]) == (1, 4_000_000)
    assert b"".join(store.pieces("large", len(data) - 3, 100)) == data[-3:]
    assert b"".join(store.pieces("large", len(data) + 3, 100)) == b""
    assert b"".join(store.pieces("large", 3, 0)) == b""
    assert len(pieces) > 2 or not store.streams


def test_of_pieces_given_up_those_taken_are_counted(store):
    store.put("large", bytes(20 << 20))
    before = store.stats.counts()
    pieces = store.pieces("large", 0, 20 << 20)
    first = next(pieces)
    pieces.close()
    assert (store.stats.counts() - before)["read_bytes"] == len(first)


def test_bytes_are_read_into_buffers_one_after_the_other(store):
    data = bytes(range(200)) * 10
    store.put("a", data)
    buffers = [memoryview(bytearray(size)) for size in (3, 0, 500, 7)]
    assert store.read_into("a", 4, buffers) == 510
    assert b"".join(buffers) == data[4:514]
    beyond = [memoryview(bytearray(5)), memoryview(bytearray(5))]
    assert store.read_into("a", len(data) - 7, beyond) == 7
    assert bytes(beyond[0]) + bytes(beyond[1][:2]) == data[-7:]
    assert store.read_into("a", 0, memoryview(bytearray(9))) == 9


@pytest.mark.parametrize("verb", ["get", "head", "ranged", "in pieces"])
def test_a_missing_key_is_named(store, verb):
    calls = {
        "get": lambda: store.get("no/such"),
        "head": lambda: store.head("no/such"),
        "ranged": lambda: store.get("no/such", 1, 2),
        "in pieces": lambda: list(store.pieces("no/such", 1, 2)),
    }
    with pytest.raises(ObjectMissingError, match="no/such"):
        calls[verb]()


def test_a_folder_is_not_an_object(store):
    store.put("folder/file", b"1")
    with pytest.raises(ObjectMissingError):
        store.head("folder")


def test_put_if_absent_creates_once(store):
    assert store.put_if_absent("one", b"first") is True
    assert store.put_if_absent("one", b"second") is False
    assert bytes(store.get("one")) == b"first"


def test_head_tells_size_and_time(store):
    store.put("x", b"12345")
    info = store.head("x")
    assert (info.key, info.size_bytes) == ("x", 5)
    assert info.modified is not None
    assert info.modified.tzinfo is not None


def test_listing_goes_deep_or_shallow_and_stays_in_its_folder(store):
    for key in ("a/1", "a/2", "a/b/3", "ab/4", "5"):
        store.put(key, b"x")
    assert sorted(info.key for info in store.list("a/")) == ["a/1", "a/2", "a/b/3"]
    assert sorted(info.key for info in store.list("a/", shallow=True)) == ["a/1", "a/2", "a/b/"]
    assert sorted(info.key for info in store.list("", shallow=True)) == ["5", "a/", "ab/"]
    assert sorted(info.key for info in store.list("")) == ["5", "a/1", "a/2", "a/b/3", "ab/4"]
    assert list(store.list("nothing/")) == []
    assert list(store.list("nothing/", shallow=True)) == []


def test_listing_takes_folders_only(store):
    with pytest.raises(ValueError, match="folder"):
        list(store.list("a"))


def test_delete_takes_absent_keys_and_leaves_others(store):
    for key in ("d/1", "d/2", "d2"):
        store.put(key, b"x")
    store.delete(["d/1", "never/was", "d/2"])
    assert [info.key for info in store.list("")] == ["d2"]
    store.delete([])


def test_requests_and_bytes_are_counted(store):
    before = store.stats.counts()
    store.put("x", b"12345")
    store.get("x", 1, 2)
    counts = store.stats.counts() - before
    assert (counts["put"], counts["get"], counts["written_bytes"], counts["read_bytes"]) == (1, 1, 5, 2)


def test_of_eight_threads_that_create_one_key_exactly_one_wins(store):
    for round_ in range(rounds(5, 200)):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            wins = list(pool.map(lambda i, r=round_: store.put_if_absent(f"race/{r}", b"%d" % i), range(8)))
        assert wins.count(True) == 1
        assert bytes(store.get(f"race/{round_}")) == b"%d" % wins.index(True)


def _create_many(root: hub.Root, worker: int, count: int, queue) -> None:
    store = root.store
    queue.put([store.put_if_absent(f"race/{i}", b"%d" % worker) for i in range(count)])


@pytest.mark.parametrize("kind", ["local", "s3", "gs"])
def test_of_four_processes_that_create_one_key_exactly_one_wins(kind, make_root):
    root, count = make_root(kind), rounds(20, 200)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_create_many, args=(root, i, count, queue)) for i in range(4)]
    for worker in workers:
        worker.start()
    outcomes = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert [sum(wins) for wins in zip(*outcomes, strict=True)] == [1] * count


def test_a_scheme_that_cannot_create_atomically_refuses_commits(tmp_path):
    store = FilesystemStore(f"local://{tmp_path}/{uuid.uuid4().hex}", {})
    store.put("x", b"1")
    with pytest.raises(hub.errors.UnsafeStoreError, match="local://"):
        store.put_if_absent("y", b"1")
