"""Every array is a Zarr over HTTP, as zarr-python and anybody else reads it."""

import json

import numpy as np
import pytest
import zarr

import hubarray as hub
from hubarray.viewer.handle_cache import Opened
from hubarray.viewer.zarr_http import ZarrFiles
from tests.viewer.conftest import get


def base(viewer, *parts):
    return "/".join([f"{viewer.url}zarr", *parts])


@pytest.mark.parametrize("dtype", ["u1", "f4", "c8", "bool", "M8[s]", "U5", str])
def test_zarr_reads_what_is_there(viewer, root, dtype):
    values = np.arange(60).reshape(6, 10).astype("U5" if dtype is str else dtype)
    a = hub.array((6, 10), "t/x:v1", dtype, chunks=(4, 3), root=root)
    a[1:, 2:] = values[1:, 2:]
    result = zarr.open_array(base(viewer, "t", "x", "v1"), mode="r")
    np.testing.assert_array_equal(result[:], a[...])


def test_a_dataset_is_a_group_and_a_commit_is_read_by_its_number(viewer, root):
    ds = hub.dataset({"x": hub.ArraySpec((0, 2), "i4", dims=("s", None))}, "t/ds:v1", root=root)
    ds.append({"x": [[1, 2], [3, 4]]})
    ds.append({"x": [[5, 6]]})
    assert zarr.open_group(base(viewer, "t", "ds", "v1"), mode="r")["x"][:].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert zarr.open_array(base(viewer, "t", "ds", "v1@2", "x"), mode="r")[:].tolist() == [[1, 2], [3, 4]]


def test_ranges_are_answered_as_http_has_them(viewer, root):
    hub.store(np.arange(100, dtype="u1"), "t/x:v1", codec="none", chunks=100, root=root)
    address = base(viewer, "t", "x", "v1", "c/0")
    whole = get(address).body
    assert whole == bytes(range(100))
    for asked, first, end in (
        ("bytes=10-19", 10, 20),
        ("bytes=90-", 90, 100),
        ("bytes=-5", 95, 100),
        ("bytes=50-500", 50, 100),
    ):
        answer = get(address, Range=asked)
        assert (answer.status, answer.body) == (206, whole[first:end])
        assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/100"
    for asked in ("bytes=200-300", "bytes=5-1", "bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes=" + "9" * 30 + "-"):
        assert get(address, Range=asked).status == 416


@pytest.mark.parametrize(
    "path",
    ["t/x/v1", "t/x/v1/", "t/x/v1/c/9", "t/x/v1/c/-1", "t/x/v2/zarr.json", "t/x/v1/.zarray", "t/rows/v1/zarr.json"],
)
def test_what_is_not_there_is_404(viewer, root, path):
    hub.array(10, "t/x:v1", chunks=5, root=root)
    with hub.table_writer("t/rows:v1", hub.Schema({"a": hub.Field("i4")}), root=root) as w, w.partition("p") as p:
        p.append({"a": 1})
    assert get(base(viewer, path)).status in (400, 404)
    assert json.loads(get(base(viewer, "t/x/v1/zarr.json")).body)["shape"] == [10]


def test_neuroglancer_gets_a_link_to_the_zarr(root):
    hub.store(np.zeros((4, 4, 4), "u1"), "t/x:v1", root=root)
    with hub.load("t/x:v1@1", root=root).view(with_="neuroglancer", open_browser=False) as viewer:
        assert viewer.url.startswith("https://neuroglancer-demo.appspot.com/#!")
        assert "/zarr/t/x/v1%401/" in viewer.url.replace("%2F", "/").replace("%3A", ":")


def test_large_chunks_are_given_out_a_few_at_a_time(root):
    hub.array((4096, 16384), "t/large:v1", "u1", chunks=(4096, 16384), root=root)
    hub.array((8, 8), "t/small:v1", "u1", root=root)
    spec = hub.ArraySpec((1, 4096, 16384), "u1", chunks=(1, 4096, 16384))
    hub.dataset({"image": spec, "label": hub.ArraySpec(1)}, "t/both:v1", root=root)
    files = ZarrFiles(Opened(root))
    large = ["t/large/v1/c/0/0", "t/both/v1/image/c/0/0/0"]
    small = [
        "t/small/v1/c/0/0",
        "t/both/v1/label/c/0",
        "t/large/v1/zarr.json",
        "t/both/v1/none/c/0",
        "t",
        "",
        "t/none/v1/c/0",
    ]
    assert [files.is_large(path) for path in large] == [True, True]
    assert [files.is_large(path) for path in small] == [False] * len(small)
