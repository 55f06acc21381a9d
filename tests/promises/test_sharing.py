"""Several processes, each with its own caches, one bucket between them."""

import json
import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

import hubarray as hub

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")

WRITER = """
import json, sys
import numpy as np
import hubarray as hub

url, options, cache = json.loads(sys.argv[1])
hub.configure(root=url, storage_options=options, cache_dir=cache)
array = hub.array((8, 40, 30), "lab/shared:v0", dtype="int32")
for line in sys.stdin:
    index = int(line)
    array[index] = np.full((40, 30), index + 100)
    print("written", index, flush=True)
"""


@pytest.mark.parametrize("kind", ["s3", "gs", "local"])
def test_one_process_writes_by_name_and_another_reads_each_write_by_name(kind, make_root, tmp_path):
    root = make_root(kind)
    arguments = json.dumps([root.url, root._options, str(tmp_path / "writers-cache")])
    command = [sys.executable, "-c", WRITER, arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        reader = None
        for index in range(8):
            writer.stdin.write(f"{index}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == f"written {index}\n"
            fresh = hub.load("lab/shared:v0", root=root)
            assert (fresh[index] == index + 100).all()
            reader = fresh if reader is None else reader.refresh()
            assert (reader[index] == index + 100).all()
            assert not reader[index + 1 :].any()
        writer.stdin.close()
    assert writer.returncode == 0


def test_an_open_array_sees_other_processes_writes_after_the_allowed_staleness(make_root):
    root = make_root("local")
    hub.configure(max_staleness_seconds=0)
    array = hub.array(4, "t/x", "i8", root=root)
    _in_process(SPAWN, _set, root, 2, 7)
    assert array[2] == 7


def _set(root, index, value):
    hub.load("t/x", root=root)[index] = value


def _sum(array, queue):
    queue.put(int(array[...].sum()))


def _in_process(context, function, *args):
    worker = context.Process(target=function, args=args)
    worker.start()
    worker.join(60)
    if worker.is_alive():
        worker.kill()
        raise AssertionError("the worker hangs")
    assert worker.exitcode == 0


@pytest.mark.parametrize(
    ("kind", "context"),
    # Memory is each process's own: a spawned child has an empty one, so there is nothing to see there.
    [(kind, context) for kind in ("local", "s3", "gs") for context in (SPAWN, FORK)] + [("memory", FORK)],
    ids=lambda value: value if isinstance(value, str) else value.get_start_method(),
)
def test_an_array_works_in_a_child_of_a_process_that_used_it(kind, context, make_root, forget):
    root = make_root(kind)
    array = hub.array((20, 1000), "t/x", "i8", chunks=(1, 1000), root=root)
    array[...] = np.arange(20_000).reshape(20, 1000)
    forget()
    assert array[3, 0] == 3000
    queue = context.Queue()
    _in_process(context, _sum, array, queue)
    assert queue.get() == sum(range(20_000))


def _write_in_child(array):
    array[5] = 55


@pytest.mark.parametrize("kind", ["local", "s3", "gs"])
def test_a_forked_child_writes_and_the_parent_sees_it(kind, make_root):
    array = hub.array(20, "t/x", "i8", root=make_root(kind))
    array[0] = 1
    _in_process(FORK, _write_in_child, array)
    assert array.refresh()[...].tolist() == [1, 0, 0, 0, 0, 55] + [0] * 14


def test_a_public_dataset_is_read_over_plain_http(tmp_path, root):
    from tests.servers import static_http

    array = hub.array((50, 20), "lab/public:v0", "f4", chunks=(5, 20), root=root)
    array[...] = np.random.default_rng(0).random((50, 20))
    hub.flush()
    with static_http(root.store.folder) as url:
        public = hub.load(f"{url}/lab/public:v0")
        assert np.array_equal(public[...], array[...])
        assert np.array_equal(hub.load("lab/public:v0@2", root=url)[3:7], array[3:7])
        assert [commit.number for commit in public.log()] == [2, 1]
        for write in (
            lambda: public.__setitem__(0, 1),
            lambda: hub.freeze("lab/public:v0", root=url),
            lambda: hub.array(3, "lab/new", root=url),
        ):
            with pytest.raises(hub.errors.ReadOnlyError, match="only be read"):
                write()
        with pytest.raises(hub.errors.NotFoundError):
            hub.load("lab/nothing", root=url)


def test_what_is_frozen_or_numbered_and_cached_reads_without_a_server(tmp_path):
    from tests.servers import seaweedfs

    with seaweedfs(tmp_path / "server") as server:
        root = hub.Root(f"{server.url}/hub", storage_options=server.options)
        array = hub.array((30, 20), "lab/x:v0", "f4", chunks=(5, 20), root=root)
        array[...] = np.random.default_rng(0).random((30, 20))
        expected = array[...]
        hub.freeze("lab/x:v0", root=root)
        assert np.array_equal(hub.load("lab/x:v0", root=root)[...], expected)
        assert np.array_equal(hub.load("lab/x:v0@2", root=root)[...], expected)
    program = (
        "import json, sys; import hubarray as hub; url, options, cache = json.loads(sys.argv[1]);"
        "hub.configure(root=url, storage_options=options, cache_dir=cache);"
        "print(float(hub.load('lab/x:v0@2')[...].sum()), float(hub.load('lab/x:v0')[...].sum()))"
    )
    arguments = json.dumps([root.url, server.options, hub.config.current().cache_dir])
    run = subprocess.run([sys.executable, "-c", program, arguments], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(float(expected.sum()))] * 2


def test_two_servers_with_buckets_of_one_name_are_not_mistaken_for_each_other(tmp_path):
    from tests.servers import seaweedfs

    with seaweedfs(tmp_path / "one") as first, seaweedfs(tmp_path / "two") as second:
        for i, server in enumerate((first, second), 1):
            root = hub.Root(f"{server.url}/hub", storage_options=server.options)
            hub.array(3, "t/x", "i8", root=root)[...] = i
        for i, server in enumerate((first, second), 1):
            root = hub.Root(f"{server.url}/hub", storage_options=server.options)
            for _ in range(2):
                assert hub.load("t/x@2", root=root)[...].tolist() == [i] * 3
