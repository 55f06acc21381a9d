"""Ctrl-C while a store is silent, or asks to try later: whatever waits for the store ends within two seconds."""

import json
import select
import signal
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest

import hubarray as hub

PROGRAM = """
import json, signal, sys
from functools import partial
import numpy as np
import hubarray as hub

# A background job of a shell begins with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
url, options, cache, what = json.loads(sys.argv[1])
hub.configure(root=url, storage_options=options, cache_dir=cache, memory_cache_bytes=0, disk_cache_bytes=0)
parquet = {"storage_options": options}
schema = hub.petastorm.Unischema("rows", [hub.petastorm.UnischemaField("x", np.int64, ())])


def rest_of(reader):
    next(reader)
    return lambda: list(reader)


def written(writer):
    return lambda: [writer.write({"x": i}) for i in range(9)]


# Each is prepared while the store answers, and gives what is called when it does not.
prepared = {
    "element": lambda: partial(hub.load("t/array:v0").__getitem__, (0, 0)),
    "slice": lambda: partial(hub.load("t/array:v0").__getitem__, slice(None)),
    "commit": lambda: partial(hub.load("t/array:v0").__setitem__, 0, 1),
    "append": lambda: partial(hub.load("t/dataset:v0").append, {"a": np.ones((2, 3), "i8")}),
    "row": lambda: partial(hub.load("t/table:v0").__getitem__, 0),
    "new": lambda: partial(hub.array, (3,), "t/new:v0", "i8"),
    "names": lambda: hub.list,
    "transfer": lambda: partial(hub.transfer, "t/array:v0", cache + "/there"),
    "import": lambda: partial(hub.import_, f"{url}/file.npy", "t/imported:v0", root=cache + "/here"),
    "parquet": lambda: partial(hub.make_reader, f"{url}/other", **parquet),
    "parquet rows": lambda: rest_of(iter(hub.make_reader(f"{url}/parquet", workers_count=2, **parquet))),
    "rows": lambda: rest_of(iter(hub.make_reader("t/array:v0", workers_count=2))),
    "writer": lambda: written(hub.parquet_writer(f"{url}/written", schema, rows_per_row_group=1, **parquet)),
}
call = prepared[what]()
print("ready", flush=True)
sys.stdin.readline()
print("began", flush=True)
try:
    call()
    print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
except Exception as error:
    print("error", repr(error), flush=True)
"""
CALLS = [
    "element", "slice", "commit", "append", "row", "new", "names", "transfer", "import", "rows", "parquet",
    "parquet rows", "writer",
]  # fmt: skip
# At the end of the program, Arrow waits for the last request of its client of S3, which takes up to ten seconds.
ARROW_CALLS = ("parquet", "parquet rows", "writer")


@pytest.fixture(scope="module")
def filled(s3_server, tmp_path_factory):
    """A root with an array, a dataset, a table, two folders of Parquet files and an NPY file."""
    root = hub.Root(f"{s3_server.url}/{uuid.uuid4().hex}", storage_options=s3_server.options)
    array = hub.array((100_000, 3), "t/array:v0", "i8", root=root)
    array[:] = np.arange(300_000).reshape(100_000, 3)
    hub.array((3,), "t/other:v0", "i8", root=root)
    hub.dataset({"a": np.ones((4, 3), "i8")}, "t/dataset:v0", root=root)
    with hub.table_writer("t/table:v0", hub.Field("float32", (None,)), root=root) as w, w.partition(0) as p:
        p.extend(np.full(i + 1, i, "float32") for i in range(9))
    schema = hub.petastorm.Unischema("rows", [hub.petastorm.UnischemaField("x", np.int64, ())])
    for folder in ("parquet", "other"):
        url, options = f"{root.url}/{folder}", s3_server.options
        with hub.parquet_writer(url, schema, rows_per_row_group=1, storage_options=options) as writer:
            writer.write_rows({"x": i} for i in range(300))
    path = tmp_path_factory.mktemp("npy") / "file.npy"
    np.save(path, np.arange(9))
    root.store.put("file.npy", path.read_bytes())
    hub.flush()
    return root


def interrupted(filled, proxy, fault, call, cache):
    """Press Ctrl-C half a second after a request met the fault; returns the seconds to the exception and to the end."""
    arguments = json.dumps([filled.url, filled._options | {"endpoint_url": proxy.endpoint}, str(cache), call])
    proxy.plan = lambda method, path: None
    command = [sys.executable, "-c", PROGRAM, arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            proxy.failed.clear()
            proxy.plan = lambda method, path: fault
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "began\n"
            end = time.monotonic() + 20
            while not proxy.failed and time.monotonic() < end:
                time.sleep(0.05)
            assert proxy.failed, "the fault was not met"
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            began = time.monotonic()
            readable, _, _ = select.select([child.stdout], [], [], 5)
            assert (child.stdout.readline() if readable else "nothing within five seconds") == "interrupted\n"
            told = time.monotonic() - began
            if call not in ARROW_CALLS:
                assert child.wait(30) == 0
            return told, time.monotonic() - began
        finally:
            child.kill()
            proxy.plan = lambda method, path: None


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_wait_for_a_silent_store_and_the_program_within_two_seconds(call, filled, proxy, tmp_path):
    told, ended = interrupted(filled, proxy, "stall", call, tmp_path)
    assert told < 2
    # The end of the interpreter itself takes some of it.
    assert ended < 2 + 2


@pytest.mark.parametrize("call", ["slice", "commit", "names", "parquet", "writer"])
def test_ctrl_c_ends_a_wait_for_a_store_that_asks_to_try_later_within_two_seconds(call, filled, proxy, tmp_path):
    told, ended = interrupted(filled, proxy, "503 SlowDown", call, tmp_path)
    assert told < 2
    assert ended < 2 + 2


def test_a_parquet_writer_that_is_left_names_the_files_that_it_could_not_remove(filled, proxy, caplog):
    schema = hub.petastorm.Unischema("rows", [hub.petastorm.UnischemaField("x", np.int64, ())])
    options = filled._options | {"endpoint_url": proxy.endpoint}
    url = f"{filled.url}/left"
    writer = hub.parquet_writer(url, schema, rows_per_row_group=1, storage_options=options)
    writer.write({"x": 1})
    try:
        proxy.plan = lambda method, path: "stall"
        began = time.monotonic()
        writer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert time.monotonic() - began < 2
    finally:
        proxy.plan = lambda method, path: None
    assert "may stay there; delete them" in caplog.text


def test_a_parquet_writer_whose_block_raises_removes_all_its_files_however_long_that_takes(filled, monkeypatch):
    monkeypatch.setattr("hubarray.readers.parquet.writing._ABANDON_SECONDS", 0)
    schema = hub.petastorm.Unischema("rows", [hub.petastorm.UnischemaField("x", np.int64, ())])
    url = f"{filled.url}/raised"
    writer = hub.parquet_writer(url, schema, rows_per_file=1, storage_options=filled._options)
    writer.write_rows({"x": i} for i in range(30))
    assert [item for item in filled.store.list("raised/") if item.key.endswith(".parquet")]
    writer.__exit__(ValueError, ValueError(), None)
    assert [item for item in filled.store.list("raised/") if item.key.endswith(".parquet")] == []
