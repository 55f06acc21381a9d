"""How many requests reading tables takes, on S3."""

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
