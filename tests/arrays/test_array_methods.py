"""Methods of arrays: fields, undo by steps, cubes, differences by element, and how an array shows itself."""

import multiprocessing

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.indexing.chunking import cube_chunks
from hubarray.arrays.write import struct_fields

SPAWN = multiprocessing.get_context("spawn")
RECORD = np.dtype([("id", "i8"), ("score", "f4")])


@pytest.mark.parametrize("shape", [(7,), (3, 4), ()])
@pytest.mark.parametrize("inside", [False, True])
def test_fields_are_written_by_name_as_numpy_writes_them(root, monkeypatch, shape, inside):
    monkeypatch.setattr(struct_fields, "FIELD_STEP_BYTES", 100)
    dtype = np.dtype([("label", "U8"), ("box", "f4"), ("n", "i8")])
    expected = np.zeros(shape, dtype)
    array = hub.array(shape, "t/x:v0", dtype, chunks=2 if shape == (7,) else "auto", root=root)
    rng = np.random.default_rng(0)
    pairs = [
        ("box", rng.random(shape)), ("n", 5), ("label", "cat"), ("n", rng.integers(0, 9, shape)),
        (["box", "n"], (1.5, 2)), (["n", "label"], np.zeros(shape, [("n", "i8"), ("label", "U3")])),
    ]  # fmt: skip
    for key, value in pairs:
        expected[key] = value
        before = array.commit
        if inside:
            with array.transaction() as t:
                t[key] = value
                assert np.array_equal(t[key], expected[key])
        else:
            array[key] = value
        assert array.commit <= before + 1
        assert np.array_equal(array[...], expected)
        assert np.array_equal(array[key], expected[key])
    with pytest.raises(ValueError, match="does not fit U8"):
        array["label"] = "longer than eight"
    with pytest.raises((ValueError, KeyError), match="nope"):
        array["nope"] = 1


CHANGING = {
    "copyto": lambda a: np.copyto(a, 0), "put": lambda a: np.put(a, [0], [5]), "place": lambda a: np.place(a, [True], 1),
    "putmask": lambda a: np.putmask(a, np.ones((4, 4), bool), 1), "fill_diagonal": lambda a: np.fill_diagonal(a, 9),
    "put_along_axis": lambda a: np.put_along_axis(a, np.zeros((4, 1), int), 1, 1), "clip": lambda a: np.clip(a, 0, 1, a),
    "take": lambda a: np.take(a[...], [0], out=a), "cumsum": lambda a: np.cumsum(a[...], out=a),
    "concatenate": lambda a: np.concatenate([a[:2], a[:2]], out=a), "mean": lambda a: np.mean(a[...], axis=0, out=a),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_numpy_functions_that_would_change_a_copy_are_refused(root, name):
    array = hub.array((4, 4), "t/x:v0", "i8", root=root)
    array[...] = np.arange(16).reshape(4, 4)
    for target in (array, array.lazy):
        with pytest.raises(TypeError, match=r"assign instead|out= takes"):
            CHANGING[name](target)
    assert array[...].ravel().tolist() == list(range(16))


def test_rows_of_two_arrays_stay_in_step_by_the_recipe_of_the_guide(root):
    hub.array((0, 2), "t/images:v0", "i8", chunks=(4, 2), root=root)
    hub.array((0,), "t/labels:v0", "i8", chunks=8, root=root)
    started = [SPAWN.Process(target=_append_both, args=(root, who)) for who in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    images, labels = hub.load("t/images:v0", root=root), hub.load("t/labels:v0", root=root)
    assert images.shape == (30, 2)
    assert np.array_equal(images[:, 0], labels[...])


def _append_both(root, who):
    images, labels = hub.load("t/images:v0", root=root), hub.load("t/labels:v0", root=root)
    for i in range(5):
        rows = np.full((2, 2), 1 + who * 100 + i)
        added = images.append(rows)

        def assign(added=added, rows=rows):
            with labels.transaction() as t:
                missing = added.stop - len(t)
                if missing > 0:
                    t.append(np.zeros((missing, *t.shape[1:]), t.dtype))
                t[added] = rows[:, 0]

        hub.retry(assign)


def test_a_handle_whose_version_is_gone_still_shows_itself(root):
    array = hub.array(3, "t/x:v0", root=root)
    hub.delete("t/x:v0", root=root)
    assert "was deleted at commit 2" in array._repr_html_()


def test_types_that_zarr_has_no_name_for_are_refused(root):
    with pytest.raises(hub.errors.ConfigError, match="a type of ml_dtypes"):
        hub.array(3, "t/x:v0", ml_dtypes.int4, root=root)


def test_fields_are_read_by_name(root):
    values = np.array([(i, i / 2) for i in range(1000)], RECORD)
    array = hub.array((1000,), "t/x:v0", RECORD, chunks=64, root=root)
    array[...] = values
    assert np.array_equal(array["score"], values["score"])
    assert array[["score"]].dtype.names == ("score",)
    assert np.array_equal(array[["score", "id"]], values[["score", "id"]])
    with pytest.raises((ValueError, KeyError), match="no field"):
        array["nothing"]
    with pytest.raises(IndexError):
        hub.array(3, "t/plain:v0", root=root)["id"]


def test_undo_goes_back_by_steps(root):
    array = hub.array(2, "t/x:v0", "i8", root=root)
    for value in (1, 2, 3):
        array[...] = value
        hub.tag(f"t/x:v0@{array.commit}", f"at{value}", root=root)
    assert array.undo(2)[...].tolist() == [1, 1]
    assert hub.undo("t/x:v0", root=root)[...].tolist() == [3, 3]
    for steps in (0, -1, 1.5, True):
        with pytest.raises(hub.errors.ConfigError, match="steps="):
            array.undo(steps)
    with pytest.raises(hub.errors.NotFoundError, match="only 5 changes"):
        array.undo(99)
    with pytest.raises(hub.errors.ReadOnlyError):
        array.snapshot().undo()


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.sampled_from([1, 2, 8]))
def test_cubes_fit_and_are_about_as_long_along_every_axis(shape, itemsize):
    chunks = cube_chunks(shape, itemsize)
    assert np.prod(chunks, dtype=object) * itemsize <= 1 << 20
    assert all(1 <= c <= max(1, n) or i == 0 for i, (c, n) in enumerate(zip(chunks, shape, strict=True)))
    cut = [c for c, n in zip(chunks, shape, strict=True) if c < n]
    if cut and shape[0]:
        assert max(cut) <= 2 * min(cut) + 1
        assert max(chunks) <= 2 * min(cut) + 1


def test_a_volume_may_be_cut_into_cubes(root):
    assert hub.array((512, 512, 512), "t/x:v0", "f4", chunks="cube", root=root).chunks == (64, 64, 64)
    with pytest.raises(hub.errors.ConfigError, match="'cube'"):
        hub.array((4, 4), "t/y:v0", chunks="ball", root=root)


def test_differences_are_told_by_element_where_that_is_asked(root):
    array = hub.array((40, 6), "t/x:v0", "f4", chunks=(10, 6), root=root)
    array[...] = 1
    array[13, 2:4] = 5
    array[17, 3] = 6
    result = hub.diff("t/x:v0@2", "t/x:v0", elements=True, root=root)
    assert (result.elements, result.regions) == (3, ((slice(13, 18), slice(2, 4)),))
    assert hub.diff("t/x:v0@2", "t/x:v0", root=root).elements is None
    array.append(np.zeros((2, 6)))
    assert hub.diff("t/x:v0@4", "t/x:v0", elements=True, root=root).shapes == ((40, 6), (42, 6))
    array[13, 2:4], array[17, 3] = 1, 1
    same = hub.diff("t/x:v0@2", "t/x:v0@7", elements=True, root=root)
    assert (same.elements, same.chunks) == (0, ())
    assert same


def test_a_conflict_of_a_transaction_names_what_tries_again(root, other_machine):
    array = hub.array(3, "t/x:v0", "i8", root=root)

    def count():
        with array.transaction() as t:
            t[0] = t[0] + 1
            other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(0, 5))

    with pytest.raises(hub.errors.ConflictError, match=r"hub\.retry"):
        count()


def test_a_moment_without_a_time_zone_is_said_to_be_utc(root):
    hub.array(3, "t/x:v0", root=root)
    with pytest.raises(hub.errors.ConfigError, match="UTC"):
        hub.load("t/x:v0", at="half past nine", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="UTC"):
        hub.load("t/x:v0", at="2020-01-01", root=root)


def test_an_array_says_its_commit_its_root_and_whether_it_is_fixed_or_frozen(root):
    array = hub.array(3, "t/x:v0", "i8", root=root)
    assert repr(array) == f"<hubarray.Array t/x:v0@1 in {root.url}: shape (3,), dtype int64, chunks (32768,)>"
    assert repr(array.snapshot()).endswith(", fixed>")
    hub.freeze("t/x:v0", root=root)
    assert repr(hub.load("t/x:v0", root=root)).endswith(", frozen>")


def test_a_tag_may_be_taken_away_and_given_again(root):
    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[...] = 1
    hub.tag("t/x:v0@1", "draft", root=root)
    assert hub.untag("t/x:v0", "draft", root=root) == 1
    with pytest.raises(hub.errors.TagNotFoundError):
        hub.load("t/x:v0@draft", root=root)
    with pytest.raises(hub.errors.TagNotFoundError):
        hub.untag("t/x:v0", "draft", root=root)
    hub.tag("t/x:v0@2", "draft", root=root)
    assert hub.load("t/x:v0@draft", root=root).commit == 2
    hub.tag("t/x:v0@1", "old", root=root)
    hub.expire("t/x:v0", keep_last=1, root=root)
    hub.untag("t/x:v0", "old", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.tag("t/x:v0@1", "old", root=root)


def test_in_a_notebook_an_array_shows_itself_and_escapes_what_others_wrote(root):
    evil = "<script>alert(1)</script>\x1b[2K"
    array = hub.array((4, 3), "t/x:v0", dims=("y", "x"), attrs={"unit": evil, "n": [1, 2]}, message=evil, root=root)
    hub.tag("t/x:v0@1", "paper", root=root)
    hub.copy("t/x:v0", "t/x:v1", root=root)
    hub.copy("t/x:v0", "t/x:gone", root=root)
    hub.delete("t/x:gone", root=root)
    text = array._repr_html_()
    for shown in ("t/x:v0@2", "writable", "y, x", "v0, v1", "paper", "Attributes (2)", "tag 1 paper", root.url):
        assert shown in text, shown
    assert "gone" not in text
    assert "<script>" not in text + hub.load("t/x:v0@1", root=root)._repr_html_()
    assert "\x1b" not in text
    assert "fixed at this commit" in array.snapshot()._repr_html_()
    hub.freeze("t/x:v0", root=root)
    assert "frozen" in hub.load("t/x:v0", root=root)._repr_html_()


@pytest.mark.parametrize("shape", [(0, 2**40), (2**40, 0), (3, 0, 2**40)])
def test_nothing_is_read_and_written_at_once_however_long_the_other_axes(root, shape):
    array = hub.array(shape, "t/x:v0", "i4", chunks=1, root=root)
    assert array[...].shape == shape
    assert array[..., :0].shape == (*shape[:-1], 0)
    array[...] = 1
    assert array.commit == 1
    assert np.count_nonzero(array) == 0


def test_values_in_place_of_a_shape_are_refused(root):
    with pytest.raises(hub.errors.ConfigError, match=r"hub.store\(values, name\)"):
        hub.array(np.arange(10), "t/x:v0", root=root)


def test_a_commit_that_is_not_there_yet_says_which_is_the_newest(root):
    hub.array(3, "t/x:v0", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="the newest is 1"):
        hub.load("t/x:v0@99", root=root)
