"""How many requests reading tables takes, on S3."""

import numpy as np

import hubarray as hub
from tests.tables.rows import drive, schema, write


def test_requests_on_s3_are_one_a_group_and_a_window_is_one(s3_root, forget):
    write("lab/drives:v1", {"a": drive("a", 40)}, s3_root, schema(rest=1))
    forget()
    loader = hub.row_loader(hub.read_index("lab/drives:v1", root=s3_root), s3_root)
    store = s3_root.store

    def requests(read):
        before = store.stats.requests
        read()
        return store.stats.requests - before

    loader.get_row(20, "lidar")
    assert requests(lambda: loader.get_row(21, "lidar")) == 1
    assert requests(lambda: loader.get_row(21, "lidar")) == 0, "in the disk cache"
    assert requests(lambda: loader.get_rows(35, "lidar")) == 2, "the partitions, once, and the frames"
    assert requests(lambda: loader.get_rows(17, "lidar")) == 1


def test_a_list_of_rows_is_one_coalesced_fetch(make_root, forget):
    root = make_root("s3")
    with hub.table_writer("lab/one:v1", hub.Field("u1", (None,)), root=root) as w, w.partition("a") as p:
        p.extend([np.full(100 + i, i, "u1") for i in range(50)])
    forget()
    table = hub.load("lab/one:v1", root=root)
    assert len(table[[0, 49]]) == 2
    before = root.store.stats.counts()["get"]
    assert [len(item) for item in table[[40, 3, 22]]] == [140, 103, 122]
    assert [len(item) for item in table[10:20]] == list(range(110, 120))
    assert root.store.stats.counts()["get"] - before == 2
