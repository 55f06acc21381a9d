"""Datasets on ordinary days: what is made, read, refused and told."""

import pickle

import numpy as np
import pytest

import hubarray as hub
from hubarray.cli.main import main

PAIR = {
    "image": hub.ArraySpec((0, 4, 4), "uint8", chunks=(2, 4, 4), dims=("sample", "y", "x")),
    "label": hub.ArraySpec(0, "int64", chunks=100, dims=("sample",)),
}
NAME = "lab/train:v1"


def images(count, value=1):
    return np.full((count, 4, 4), value, "u1")


@pytest.fixture
def ds(any_root):
    made = hub.dataset(PAIR, NAME, {"by": "us"}, root=any_root)
    made.append({"image": images(5), "label": range(5)})
    return made


@pytest.fixture
def local(root):
    made = hub.dataset(PAIR, NAME, root=root)
    made.append({"image": images(5), "label": range(5)})
    return made


def test_what_is_made_is_loaded_with_its_arrays_dimensions_and_attributes(ds, any_root):
    result = hub.load(NAME, root=any_root)
    assert (list(result), result.dims, dict(result.attrs), result.kind) == (
        ["image", "label"], {"sample": 5, "y": 4, "x": 4}, {"by": "us"}, "dataset"
    )  # fmt: skip
    assert result["label"][:].tolist() == [0, 1, 2, 3, 4]
    assert result["image"].shape == (5, 4, 4)
    assert result.commit == 2
    assert "label" in result
    assert "sample: 5" in repr(result)
    assert hub.dataset({**PAIR, "image": hub.ArraySpec((5, 4, 4), "uint8", dims=("sample", "y", "x")),
                        "label": hub.ArraySpec(5, "int64")}, NAME, root=any_root).commit == 2  # fmt: skip


def test_an_array_of_it_is_an_array(ds):
    label = ds["label"]
    assert isinstance(label, hub.Array)
    assert (label.key, label.dims, label.dtype, len(label), label.mean()) == ("label", ("sample",), np.int64, 5, 2.0)
    label[1:3] = [10, 20]
    label.attrs["unit"] = "class"
    assert ds.commit == 4
    assert dict(ds["label"].attrs) == {"unit": "class"}
    assert list(label) == [0, 10, 20, 3, 4]
    assert np.asarray(label).sum() == label.to_dask().sum().compute() == label.lazy[:].sum() == 37
    assert pickle.loads(pickle.dumps(label))[1] == 10
    assert [item.message for item in label.log()][:2] == ["label: set attributes", "label: set elements in 1 chunk"]
    assert "'label' of lab/train:v1" in repr(label)


def test_an_older_commit_is_read_and_not_written(ds, any_root):
    ds["label"][0] = 9
    before = hub.load(f"{NAME}@2", root=any_root)
    assert before["label"][0] == 0
    for write in (
        lambda: before["label"].append([1]),
        lambda: before.append({}),
        lambda: before.__delitem__("label"),
        lambda: before.transaction().__enter__(),
    ):
        with pytest.raises(hub.errors.ReadOnlyError):
            write()


def test_rows_of_all_arrays_come_together(local):
    result = local.rows(3)
    assert (result["label"], result["image"].shape) == (3, (4, 4))
    assert local.rows(slice(1, 3), ["label"])["label"].tolist() == [1, 2]
    assert local.rows([4, 0])["label"].tolist() == [4, 0]
    local["class"] = np.arange(3)
    assert list(local.rows(0)) == ["image", "label"]
    with pytest.raises(IndexError):
        local.rows(5)


def test_what_is_appended_has_to_be_all_of_the_dimension(local):
    for rows, why in (
        ({"image": images(1)}, "'label' grows along 'sample' too"),
        ({"image": images(2), "label": [1]}, "the same number of rows"),
        ({"image": images(1), "label": [1], "mask": [1]}, "has no array 'mask'"),
        ({}, "one array at least"),
        ([1, 2], "a mapping of arrays"),
    ):
        with pytest.raises((hub.errors.ConfigError, hub.errors.NotFoundError), match=why):
            local.append(rows)
    with pytest.raises(hub.errors.ConfigError, match="'sample' would have 5 in 'image' and 6 in 'label'"):
        local["label"].append([1])
    with pytest.raises(hub.errors.ConfigError, match="grow together"):
        local["image"].resize((3, 4, 4))
    assert local.commit == 2
    local.resize(sample=3, y=6)
    assert (local["image"].shape, local["label"].shape) == ((3, 6, 4), (3,))
    with pytest.raises(hub.errors.ConfigError, match="no array has a dimension 'z'"):
        local.resize(z=1)


def test_arrays_without_names_of_axes_grow_by_themselves(root):
    ds = hub.dataset({"a": hub.ArraySpec(0), "b": hub.ArraySpec(0)}, NAME, root=root)
    assert ds.append({"a": [1.0, 2.0]}) == slice(0, 2)
    ds["b"].append([3.0])
    with pytest.raises(hub.errors.ConfigError, match="may not belong together"):
        ds.append({"a": [1.0], "b": [2.0]})


def test_arrays_are_added_renamed_and_dropped_without_moving_data(local, root):
    other = hub.array((5, 3), "lab/boxes:v1", "f4", root=root, dims=("sample", None))
    other[...] = np.arange(15).reshape(5, 3)
    packs = len(list(root.store.list("lab/train/packs/")))
    local["boxes"] = other
    local.rename("boxes", "box")
    assert len(list(root.store.list("lab/train/packs/"))) == packs
    assert local["box"][...].tolist() == other[...].tolist()
    local["box"][0, 0] = 99
    assert (local["box"][0, 0], other[0, 0]) == (99, 0)
    hub.delete("lab/boxes:v1", root=root)
    assert local["box"][4, 2] == 14
    kept = local["box"]
    del local["box"]
    assert list(local) == ["image", "label"]
    with pytest.raises(hub.errors.NotFoundError, match="'box' was dropped"):
        kept[0]
    local["box"] = np.zeros((5, 2))
    with pytest.raises(hub.errors.ConflictError, match="'box' was replaced"):
        kept[0]
    assert hub.load(f"{NAME}@5", root=root)["box"][0, 0] == 99


@pytest.mark.parametrize("name", ["", "a/b", ".x", "__x", "a\nb", "x" * 129, 3])
def test_what_is_no_name_of_an_array_is_refused(root, name):
    with pytest.raises(hub.errors.ConfigError, match="not a name for an array"):
        hub.dataset({name: hub.ArraySpec(3)}, NAME, root=root)
    assert not hub.exists(NAME, root=root)


def test_a_name_that_is_taken_by_something_else_is_refused(local, root, make_root):
    hub.array(3, "lab/array:v1", root=root)
    for make in (
        lambda: hub.dataset(PAIR, "lab/array:v1", root=root),
        lambda: hub.array(3, NAME, root=root),
        lambda: hub.dataset({"image": PAIR["image"]}, NAME, root=root),
        lambda: local.__setitem__("label", hub.ArraySpec(5)),
        lambda: local.rename("label", "image"),
    ):
        with pytest.raises(hub.errors.AlreadyExistsError):
            make()
    with pytest.raises(hub.errors.ConfigError, match="under another root"):
        local["there"] = hub.array(3, "lab/there:v1", root=make_root("memory"))
    with pytest.raises(hub.errors.ConfigError, match=r"give a hub\.ArraySpec"):
        local["x"] = [1, 2]


def test_a_dataset_of_arrays_that_are_there_is_one_commit(root):
    a = hub.array((3, 2), "lab/a:v1", "i4", root=root, dims=("sample", None))
    a[...] = [[1, 2], [3, 4], [5, 6]]
    ds = hub.dataset({"a": a, "b": np.array([7, 8, 9])}, NAME, root=root)
    assert (ds.commit, ds["a"][...].tolist(), ds["b"][:].tolist()) == (1, [[1, 2], [3, 4], [5, 6]], [7, 8, 9])
    with pytest.raises(hub.errors.ConfigError, match="'sample' would have 3 in 'a' and 4 in 'b'"):
        hub.dataset({"a": a, "b": hub.ArraySpec(4, dims=("sample",))}, "lab/other:v1", root=root)


def test_history_works_on_it_as_one_name(local, root, make_root):
    hub.tag(NAME, "first", root=root)
    local["label"][0] = 7
    local.append({"image": images(1, 9), "label": [9]})
    result = hub.diff(f"{NAME}@first", NAME, elements=True, root=root)
    assert (result.added, result.dropped, sorted(result.changed)) == ((), (), ["image", "label"])
    assert result.changed["label"].elements == 2
    hub.undo(NAME, root=root)
    assert local.refresh()["label"][:].tolist() == [7, 1, 2, 3, 4]
    hub.restore(NAME, "first", root=root)
    assert local.refresh()["label"][:].tolist() == [0, 1, 2, 3, 4]
    assert hub.compact(NAME, root=root) is not None
    hub.copy(NAME, "lab/train:v2", root=root)
    other = hub.load("lab/train:v2", root=root)
    other["label"][1] = 50
    other["mask"] = np.arange(4)
    other.rename("image", "picture")
    local["label"][2] = 60
    hub.merge_version("lab/train:v2", into=NAME, root=root)
    assert local.refresh()["label"][:].tolist() == [0, 50, 60, 3, 4]
    assert list(local) == ["picture", "label", "mask"]
    assert local["mask"][:].tolist() == [0, 1, 2, 3]
    hub.freeze(NAME, root=root)
    with pytest.raises(hub.errors.FrozenError):
        local["label"][0] = 1
    elsewhere = make_root("memory")
    hub.transfer(NAME, elsewhere, root=root)
    assert hub.load(NAME, root=elsewhere)["label"][2] == 60
    hub.rename(NAME, "lab/renamed:v1", root=root)
    assert hub.load("lab/renamed:v1", root=root)["picture"][0].sum() == 16
    hub.expire("lab/renamed:v1", keep_last=1, root=root)
    usage = hub.du("lab/renamed:v1", root=root)
    assert usage.logical == 5 * 16 + 5 * 8 + 4 * 8
    assert hub.verify("lab/renamed:v1", root=root).problems == []
    hub.delete("lab/renamed:v1", root=root)
    assert not hub.exists("lab/renamed:v1", root=root)


def test_both_sides_changes_to_one_element_are_a_conflict_of_a_merge(local, root):
    hub.copy(NAME, "lab/train:v2", root=root)
    other = hub.load("lab/train:v2", root=root)
    other["label"][0], local["label"][0] = 1, 2
    with pytest.raises(hub.errors.ConflictError, match=r"\[0:1\]"):
        hub.merge_version("lab/train:v2", into=NAME, root=root)
    hub.merge_version("lab/train:v2", into=NAME, on_conflict="theirs", root=root)
    assert local.refresh()["label"][0] == 1
    del other["image"]
    local["image"][0] = 5
    with pytest.raises(hub.errors.ConflictError, match="dropped the array 'image'"):
        hub.merge_version("lab/train:v2", into=NAME, root=root)


def test_damage_is_told_by_array(local, root):
    for item in root.store.list("lab/train/packs/"):
        data = bytearray(root.store.get(item.key))
        data[len(data) // 2] ^= 255
        root.store.put(item.key, bytes(data))
    report = hub.verify(NAME, root=root)
    assert report.problems
    assert any("array 'image'" in item or "array 'label'" in item for item in report.affected)


def test_readers_take_a_dataset(local):
    with hub.make_reader(local, shuffle_row_groups=False) as reader:
        rows = list(reader)
    assert [int(row.label) for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0].image.shape == (4, 4)
    with hub.make_batch_reader(local, ["label"], shuffle_row_groups=False) as reader:
        assert np.concatenate([batch.label for batch in reader]).tolist() == [0, 1, 2, 3, 4]
    local["time"] = hub.ArraySpec(3, dims=("t",))
    with pytest.raises(hub.errors.ConfigError, match="unclear which"):
        hub.make_reader(local)


def test_the_command_line_shows_it(local, root, capsys):
    hub.configure(root=root.url)
    assert main(["ls", "--long"]) == 0
    assert "2 arrays" in capsys.readouterr().out
    assert main(["info", NAME]) == 0
    out = capsys.readouterr().out
    assert "sample" in out
    assert "label" in out
    assert main(["log", NAME]) == 0
    assert main(["diff", f"{NAME}@1", NAME]) == 3
    assert "label" in capsys.readouterr().out


def test_what_changed_is_told_by_array(local, root):
    before = local.commit
    local["label"][0] = 9
    assert list(local.diff(before).changed) == ["label"]
    assert not local.diff(local)
    other = hub.copy(NAME, "lab/other:v1", root=root)
    other["label"][1] = 8
    assert list(other.diff(local, elements=True).changed) == ["label"]
    for wrong in (0, True, "lab/x:v1", None):
        with pytest.raises(hub.errors.ConfigError, match="diff takes"):
            local.diff(wrong)


def test_the_command_line_does_with_a_dataset_what_it_does_with_an_array(local, root, make_root, capsys):
    hub.configure(root=root.url)

    def run(*words):
        assert main([str(word) for word in words]) == 0, capsys.readouterr()
        return capsys.readouterr().out

    run("tag", NAME, "first")
    run("copy", NAME, "lab/copy:v1")
    hub.load("lab/copy:v1", root=root)["label"][0] = 7
    run("merge", "lab/copy:v1", NAME)
    assert local.refresh()["label"][0] == 7
    run("undo", NAME)
    assert local.refresh()["label"][0] != 7
    run("restore", NAME, 2)
    run("compact", NAME)
    run("verify", "lab/train")
    run("repair", "lab/train")
    assert "lab/train" in run("du", "lab/train")
    run("transfer", NAME, make_root("local").url)
    assert run("get", "lab/copy:v1", "0", "--array", "label").strip() == "7"
    run("freeze", "lab/copy:v1", "--yes")
    assert hub.load("lab/copy:v1", root=root).frozen
    run("expire", NAME, "--keep-last", "1", "--yes")
    run("delete", NAME, "--yes")
    assert not hub.exists(NAME, root=root)


def test_a_conflict_says_which_array_it_is_about(root):
    ds = hub.dataset({"a": np.zeros(3, "i4"), "b": np.zeros(3, "i4")}, "lab/d:v1", root=root)
    other = hub.load("lab/d:v1", root=root)

    def change():
        with ds.transaction() as t:
            t["a"][0] = 1
            t["b"][1] = t["b"][1] + 1
            other["b"][1] = 7

    with pytest.raises(hub.errors.ConflictError, match=r"array 'b': .*\[1:2\]"):
        change()
    copy = hub.copy("lab/d:v1", "lab/d:v2", root=root)
    copy["b"][2], ds["b"][2] = 5, 6
    with pytest.raises(hub.errors.ConflictError, match=r"array 'b': .*\[2:3\]"):
        hub.merge_version("lab/d:v2", into="lab/d:v1", root=root)


def test_a_transaction_adds_and_drops_arrays_and_sets_attributes_in_one_commit(root):
    ds = hub.dataset({"x": hub.ArraySpec(4, dims=("t",)), "old": hub.ArraySpec(3)}, NAME, {"a": 1, "b": 2}, root=root)
    other, before = hub.load(NAME, root=root), ds.commit
    with ds.transaction("all at once") as t:
        t["new"] = hub.ArraySpec((5, 6), "i4", chunks=(2, 6), attrs={"units": "K"})
        t["new"][1:4] = 7
        t["memory"] = np.arange(4)
        del t["old"]
        t["old"] = hub.ArraySpec(2, "u1")
        t["old"][1] = 9
        t["x"].attrs["units"] = "m"
        t["x"][0] = 3
        t.attrs["c"] = 3
        del t.attrs["a"]
        assert dict(t.attrs) == {"b": 2, "c": 3}
        assert ("new" in t, "gone" in t, list(t)) == (True, False, ["x", "new", "memory", "old"])
        assert list(other.refresh()) == ["x", "old"]
        # What others do to other arrays and attributes meanwhile stays.
        other["x"][3] = 5
        other.attrs["d"] = 4
        with pytest.raises(hub.errors.AlreadyExistsError, match="delete it first"):
            t["x"] = np.zeros(3)
        with pytest.raises(hub.errors.NotFoundError, match="nothing"):
            del t["nothing"]
        with pytest.raises(hub.errors.ConfigError, match=r"'wrong': .*masks are not stored"):
            t["wrong"] = np.ma.array([1, 2], mask=[True, False])
        for wrong in ([1, 2], "x"):
            with pytest.raises(hub.errors.ConfigError, match=r"give a hub\.ArraySpec"):
                t["wrong"] = wrong
    assert ds.refresh().commit == before + 3
    assert list(ds) == ["x", "new", "memory", "old"]
    assert (ds["new"][...].sum(), ds["memory"][:].tolist(), ds["old"][:].tolist()) == (126, [0, 1, 2, 3], [0, 9])
    assert (dict(ds.attrs), dict(ds["x"].attrs), dict(ds["new"].attrs)) == (
        {"b": 2, "c": 3, "d": 4}, {"units": "m"}, {"units": "K"},
    )  # fmt: skip
    assert ds["x"][:].tolist() == [3, 0, 0, 5]
    assert hub.verify(NAME, root=root).problems == []
    assert hub.load(f"{NAME}@{before}", root=root)["old"].shape == (3,)


@pytest.mark.parametrize("meanwhile", ["add", "drop", "replace", "rename"])
def test_arrays_that_others_added_or_took_away_meanwhile_are_a_conflict(root, meanwhile):
    ds = hub.dataset({"x": hub.ArraySpec(4)}, NAME, root=root)
    other = hub.load(NAME, root=root)
    done = {
        "add": lambda: other.__setitem__("new", hub.ArraySpec(3)), "drop": lambda: other.drop("x"),
        "replace": lambda: (other.drop("x"), other.__setitem__("x", hub.ArraySpec(4))),
        "rename": lambda: other.rename("x", "y"),
    }  # fmt: skip

    def change():
        with ds.transaction() as t:
            t["new"] = np.arange(3)
            del t["x"]
            done[meanwhile]()

    with pytest.raises(hub.errors.ConflictError, match="somebody else"):
        change()
    assert ("new" in ds.refresh()) == (meanwhile == "add")


def test_arrays_that_share_a_dimension_agree_at_the_end_of_a_transaction_or_nothing_is_written(root):
    ds = hub.dataset({"x": hub.ArraySpec(4, dims=("t",))}, NAME, root=root)

    def change():
        with ds.transaction() as t:
            t["y"] = hub.ArraySpec(5, dims=("t",))

    with pytest.raises(hub.errors.ConfigError, match="'t'"):
        change()
    assert list(ds.refresh()) == ["x"]
    with ds.transaction() as t:
        t["y"] = hub.ArraySpec(4, dims=("t",))
        t.append({"x": [7], "y": [8]})
    assert (ds["x"][4], ds["y"][4]) == (7, 8)
    with ds.transaction() as t:
        t["z"] = hub.ArraySpec(5, dims=("t",))
        t["z"][1] = 1
        worker = t.worker()
        with worker as w:
            w["x"][2] = 5
            w["z"][2] = 6
            with pytest.raises(hub.errors.ConfigError, match="that workers write to"):
                w["none"][2] = 5
        t.add(w.part)
    assert (ds["z"][:].tolist(), ds["x"][2]) == ([0, 1, 6, 0, 0], 5)


def test_attributes_of_an_array_are_part_of_its_transaction(root):
    a = hub.array(4, "lab/x:v1", attrs={"a": 1, "b": 2}, root=root)
    other = hub.load("lab/x:v1", root=root)
    with a.transaction() as t:
        t.attrs["c"] = 3
        del t.attrs["a"]
        t[0] = 1
        other.attrs.update({"d": 4, "b": 5})
        with pytest.raises(hub.errors.ConfigError):
            t.attrs["e"] = object()
    assert dict(a.refresh().attrs) == {"b": 5, "c": 3, "d": 4}
    assert a.commit == 3
    with a.transaction() as t:
        t.attrs.clear()
    assert dict(a.refresh().attrs) == {}
