"""Arrays, tables and datasets drawn with matplotlib; and what an array in a notebook costs."""

import matplotlib
import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch

matplotlib.use("Agg")


@pytest.mark.parametrize(
    ("values", "key", "axes"),
    [
        (np.zeros((64, 64), "u1"), ..., 1),
        (np.zeros((5, 64, 64, 3), "u1"), 0, 1),
        (np.zeros((5, 64, 64, 3), "u1"), ..., 6),
        (np.zeros((64, 48, 32), "f4"), ..., 4),
        (np.zeros(500), ..., 1),
        (np.zeros((3, 5000)), ..., 1),
        (np.exp(1j * np.arange(50)), ..., 1),
        (np.zeros((64, 64), bool), ..., 1),
        (np.full((20, 20), np.nan), ..., 1),
        (np.zeros((9, 12), "M8[D]"), ..., 1),
    ],
    ids=lambda one: str(getattr(one, "shape", one)),
)
def test_an_array_is_drawn_as_what_it_is(root, values, key, axes):
    figure = hub.store(values, "t/x:v1", root=root).show(key)
    assert len(figure.axes) == axes


def test_complex_curves_have_both_parts(root):
    figure = hub.store(np.exp(1j * np.arange(50)), "t/x:v1", root=root).show()
    assert [line.get_label() for line in figure.axes[0].lines] == ["real", "imag"]


@pytest.mark.parametrize(
    ("dtype", "shape", "why"),
    [(str, 3, "text has no colours"), ("u1", (1 << 20, 1 << 20), "256 MiB are drawn"), ("f8", (0, 4), "no elements"),
     ("f8", (2, 3, 4, 5, 20), "choose a part")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told_and_leaves_no_figure(root, dtype, shape, why):
    import matplotlib.pyplot as plt

    plt.close("all")
    with pytest.raises(hub.errors.ConfigError, match=why):
        hub.array(shape, "t/x:v1", dtype, root=root).show()
    assert plt.get_fignums() == []


def test_rows_of_tables_and_datasets_are_drawn_with_their_boxes(root):
    schema = {
        "image": hub.Field("u1", (None, None, 3), codec="png"),
        "boxes": hub.Field("f4", (None, 4)),
        "n": hub.Field("i4"),
    }
    with hub.table_writer("t/rows:v1", hub.Schema(schema), root=root) as w, w.partition("p") as p:
        p.append({"image": np.zeros((32, 32, 3), "u1"), "boxes": np.array([[1, 2, 9, 9]], "f4"), "n": 7})
    figure = hub.load("t/rows:v1", root=root).show(0)
    assert len(figure.axes[0].patches) == 1
    assert "n 7" in figure.get_suptitle()
    ds = hub.dataset(
        {"x": hub.ArraySpec((0, 20), dims=("s", None)), "n": hub.ArraySpec(0, dims=("s",))}, "t/ds:v1", root=root
    )
    ds.append({"x": np.ones((2, 20)), "n": [1, 2]})
    assert len(ds.show(1).axes) == 1
    with pytest.raises(hub.errors.ConfigError, match="no image, no points and no curve"):
        ds.show(1, ["n"])


def test_points_of_a_row_are_drawn_from_above(root):
    schema = hub.Schema({"lidar": hub.Field("f4", (None, 4))})
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        p.append({"lidar": np.random.default_rng(0).normal(size=(500, 4)).astype("f4")})
    (drawn,) = hub.load("t/rows:v1", root=root).show(0).axes[0].collections
    assert len(drawn.get_offsets()) == 500


def test_a_part_is_named_as_between_brackets(root):
    a = hub.store(np.arange(48.0).reshape(2, 2, 12), "t/x:v1", root=root)
    (curve,) = a.show(1, 0).axes[0].lines
    np.testing.assert_array_equal(curve.get_ydata(), a[1, 0])
    assert a.show((1, 0)).axes[0].get_title() == "t/x:v1[1, 0]"


def test_the_first_images_in_a_notebook_cost_one_request(root):
    a = hub.array((40, 32, 32, 3), "t/x:v1", "u1", chunks=(40, 32, 32, 3), root=root)
    a[:] = 7
    plain = hub.array((40, 3), "t/y:v1", "f8", root=root)
    plain[:] = 7
    counts = []
    for item in (plain, a):
        item._repr_html_()
        fetch._shared._memory.clear()
        before = hub.stats().requests
        html = item._repr_html_()
        counts.append(hub.stats().requests - before)
    assert html.count("<img") == 4
    assert counts[1] - counts[0] <= 1


def test_the_first_images_of_a_table_and_of_a_dataset_in_a_notebook_cost_one_request(s3_root):
    schema = hub.Schema({"t": hub.Field("i8", index=True), "image": hub.Field("u1", (64, 64, 3), codec="png")})
    with hub.table_writer("t/rows:v1", schema, root=s3_root) as w, w.partition("a") as p:
        for i in range(100):
            p.append({"t": i, "image": np.full((64, 64, 3), i, "u1")})
    specs = {"label": hub.ArraySpec(40, "i8", dims=("s",)),
             "image": hub.ArraySpec((40, 32, 32, 3), "u1", chunks=(40, 32, 32, 3), dims=("s", None, None, None))}  # fmt: skip
    ds = hub.dataset(specs, "t/ds:v1", root=s3_root)
    ds["image"][:] = 7
    hub.configure(disk_cache_bytes=0)
    for item, most in ((hub.load("t/rows:v1", root=s3_root), 4), (ds, 4)):
        item._repr_html_()
        before = hub.stats().requests
        html = item._repr_html_()
        assert hub.stats().requests - before <= 1
        assert html.count("<img") == most


def test_a_huge_image_is_thinned_and_a_volume_is_seen_in_its_middle(root):
    huge = hub.store(np.zeros((4100, 6200, 3), "u1"), "t/huge:v1", root=root)
    (shown,) = huge.show().axes[0].images
    assert shown.get_array().shape == (1367, 2067, 3)
    assert list(shown.get_extent()) == [-0.5, 6199.5, 4099.5, -0.5]
    volume = hub.array((40, 32, 32), "t/volume:v1", "f4", chunks=(8, 32, 32), root=root)
    assert "<img" not in volume._repr_html_()
    volume[16:24] = np.random.default_rng(0).normal(size=(8, 32, 32))
    assert volume._repr_html_().count("<img") == 4


def test_times_are_drawn_as_times_and_a_few_long_rows_as_curves(root):
    times = np.datetime64("2026-11-26", "s") + np.arange(50).astype("m8[s]")
    (line,) = hub.store(times, "t/times:v1", root=root).show().axes[0].lines
    assert line.get_ydata(orig=True).dtype.kind == "M"
    assert len(hub.store(np.zeros((32, 20_000), "f4"), "t/eeg:v1", root=root).show().axes[0].lines) == 32
