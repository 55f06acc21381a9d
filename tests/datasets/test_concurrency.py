"""Datasets under threads, stale handles, races along a dimension, and names that are given again."""

import pickle
import threading

import numpy as np
import pytest

import hubarray as hub
from tests.hostile.forge import record_bytes
from tests.promises.test_writers import _run

NAME = "a/d:v0"


def pairs(root, **options):
    spec = hub.ArraySpec(0, "int64", dims=("s",), **options)
    return hub.dataset({"image": spec, "label": spec}, NAME, root=root)


def in_threads(*functions):
    threads = [threading.Thread(target=item) for item in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_append_to_one_transaction_stay_in_step(root):
    ds = pairs(root, chunks=64)
    with ds.transaction() as t:

        def work(k):
            for i in range(100):
                t.append({"image": [1000 * k + i], "label": [1000 * k + i]})

        in_threads(*(lambda k=k: work(k) for k in range(4)))
    assert len(ds["image"]) == 400
    assert np.array_equal(ds["image"][...], ds["label"][...])


def test_a_thread_for_each_array_of_a_transaction_loses_nothing(root):
    specs = {name: hub.ArraySpec((600, 16), "int64", chunks=(1, 16)) for name in "xy"}
    ds = hub.dataset(specs, NAME, root=root)
    expected = np.random.default_rng(0).integers(0, 1 << 40, (600, 16))
    with ds.transaction() as t:

        def first():
            for i in range(600):
                t["x"][i] = expected[i]

        def second():
            for i in range(600):
                t["y"][i] = -expected[i]
                assert t["y"][i][0] == -expected[i][0]

        in_threads(first, second)
    assert hub.verify(NAME, root=root).problems == []
    assert np.array_equal(ds["x"][...], expected)
    assert np.array_equal(ds["y"][...], -expected)


def replace(root, again):
    other = hub.load(NAME, root=root)
    del other["label"]
    other["label"] = again


def add(root, name):
    hub.load(NAME, root=root)[name] = hub.ArraySpec(0, "f4", dims=("s",))


def drop(root, name):
    del hub.load(NAME, root=root)[name]


def elsewhere(function, *arguments):
    """What another process does, while handles here do not look."""
    _run(function, [arguments])


@pytest.fixture
def patient():
    hub.configure(max_staleness_seconds=1000)


CHANGES = {
    "append": lambda ds: ds.append({"label": [1, 2, 3]}),
    "resize": lambda ds: ds.resize(s=1),
    "drop": lambda ds: ds.drop(["label"]),
    "rename": lambda ds: ds.rename("label", "x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_meant_for_an_array_does_not_reach_another_of_its_name(root, patient, change):
    ds = hub.dataset({"label": hub.ArraySpec(3, "int64", chunks=8, dims=("s",))}, NAME, root=root)
    elsewhere(replace, root, hub.ArraySpec(3, "float64", chunks=8, dims=("s",)))
    with pytest.raises(hub.errors.ConflictError, match="'label' was dropped, renamed or replaced"):
        change(ds)
    result = hub.load(NAME, root=root)
    assert (result["label"].dtype, result["label"][:].tolist()) == (np.float64, [0, 0, 0])


def test_an_array_that_comes_along_a_dimension_meanwhile_is_a_conflict_and_no_mistake(root, patient):
    ds = pairs(root)
    elsewhere(add, root, "more")
    with pytest.raises(hub.errors.ConflictError, match="changed by somebody else in the meantime"):
        ds.append({"image": [1], "label": [1]})
    assert ds.refresh().append({"image": [1], "label": [1], "more": [1]}) == slice(0, 1)


def test_a_refused_part_adds_nothing_and_arrays_that_no_worker_touched_may_go(root):
    ds = hub.dataset({name: np.zeros(4, "i8") for name in "xyz"}, NAME, root=root)
    with ds.transaction() as t:
        with t.worker() as w:
            w["x"][0] = 7
            w["y"][0] = 7
        t["y"][0] = 1
        with pytest.raises(hub.errors.ConflictError):
            t.add(w.part)
    assert (ds["x"][0], ds["y"][0]) == (0, 1)
    with ds.transaction() as t:
        with t.worker() as w:
            w["x"][1] = 5
        elsewhere(drop, root, "z")
        t.add(w.part)
    assert ds["x"][1] == 5
    assert list(ds) == ["x", "y"]


def test_a_pickle_of_a_replaced_array_is_no_other_array(root):
    ds = hub.dataset({"a": np.arange(3)}, NAME, root=root)
    kept = pickle.dumps(ds["a"])
    del ds["a"]
    ds["a"] = np.array(["x", "y"])
    with pytest.raises(hub.errors.ConflictError, match="'a' was replaced"):
        pickle.loads(kept)[...]
    whole = pickle.dumps(ds)
    hub.delete(NAME, root=root)
    with pytest.raises(hub.errors.NotFoundError, match="deleted"):
        pickle.loads(whole)["a"]


def test_a_commit_that_has_expired_is_not_adopted(root):
    array = hub.array(4, "a/x:v0", "i4", root=root)
    array[:] = 1
    array[:] = 2
    old = hub.load("a/x:v0@2", root=root)
    hub.expire("a/x:v0", keep_last=1, root=root)
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.dataset({"q": old}, NAME, root=root)
    assert not hub.exists(NAME, root=root)


def test_masks_are_refused_as_they_are_elsewhere(root):
    with pytest.raises(hub.errors.ConfigError, match="masks are not stored"):
        hub.dataset({"m": np.ma.array([1.0, 2.0], mask=[0, 1])}, NAME, root=root)


def test_two_arrays_of_one_id_are_refused(root, forget):
    import json

    hub.dataset({"a": np.array([1.5]), "b": np.array([1])}, NAME, root=root)
    key = "a/d/log/v0/0000000000000001.json"
    fields = json.loads(bytes(root.store.get(key)))
    first, second = fields["dataset"]["arrays"]
    second["id"] = first["id"]
    root.store.put(key, record_bytes(fields))
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match="id"):
        hub.load(NAME, root=root)


def test_names_are_shown_without_what_a_terminal_would_obey(root):
    ds = hub.dataset({"a": hub.ArraySpec((2, 2), dims=("\x1b]0;owned\x07", None))}, NAME, root=root)
    assert "\x1b" not in repr(ds)


def test_merges_keep_names_of_axes_and_attributes_of_dropped_arrays(root):
    ds = hub.dataset({"a": np.arange(3), "b": np.arange(3)}, NAME, root=root)
    hub.copy(NAME, "a/d:v1", root=root)
    other = hub.load("a/d:v1", root=root)
    other["a"].dims = ("time",)
    other["b"].attrs["unit"] = "K"
    del ds["b"]
    with pytest.raises(hub.errors.ConflictError, match="changed the array 'b'"):
        hub.merge_version("a/d:v1", into=NAME, root=root)
    hub.merge_version("a/d:v1", into=NAME, on_conflict="theirs", root=root)
    assert ds.refresh()["a"].dims == ("time",)
    assert dict(ds["b"].attrs) == {"unit": "K"}


@pytest.fixture
def forked(root):
    """A dataset, and the copy of it that is merged back."""
    ds = hub.dataset({"a": np.arange(3), "b": np.arange(3) + 10}, NAME, root=root)
    hub.copy(NAME, "a/d:v1", root=root)
    return ds, hub.load("a/d:v1", root=root)


def swap(other):
    other.rename("a", "c")
    other.rename("b", "a")
    other.rename("c", "b")


def replace_in_place(other):
    del other["a"]
    other["a"] = np.arange(5)


def drop_and_rename(other):
    del other["a"]
    other.rename("b", "a")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (swap, {"a": [10, 11, 12], "b": [0, 1, 2]}),
        (replace_in_place, {"a": [0, 1, 2, 3, 4], "b": [10, 11, 12]}),
        (drop_and_rename, {"a": [10, 11, 12]}),
    ],
)
def test_a_merge_takes_over_names_that_were_given_again(forked, root, change, wanted):
    ds, other = forked
    change(other)
    hub.merge_version("a/d:v1", into=NAME, root=root)
    assert {name: array[:].tolist() for name, array in ds.refresh().arrays.items()} == wanted


def test_two_arrays_of_one_name_are_a_conflict_that_a_side_decides(forked, root):
    ds, other = forked
    ds["new"], other["new"] = np.zeros(2), np.ones(4)
    with pytest.raises(hub.errors.ConflictError, match="both have an array 'new'"):
        hub.merge_version("a/d:v1", into=NAME, root=root)
    hub.merge_version("a/d:v1", into=NAME, on_conflict="ours", root=root)
    assert len(ds.refresh()["new"]) == 2
    other["other"], ds["other"] = np.ones(4), np.zeros(2)
    hub.merge_version("a/d:v1", into=NAME, on_conflict="theirs", root=root)
    assert len(ds.refresh()["other"]) == 4


def test_rows_of_one_column_may_be_named_alone(root):
    ds = hub.dataset({"label": np.arange(3), "b": np.arange(3)}, NAME, root=root)
    assert ds.rows(1, "label") == {"label": 1}
