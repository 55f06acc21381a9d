"""Arrays of a dataset: what they are made of, how they are shown, and what is taken back."""

import re

import numpy as np
import pytest

import hubarray as hub


def test_an_array_takes_back_its_own_changes_and_no_others(root):
    ds = hub.dataset({"x": np.zeros(3), "y": np.zeros(3)}, "t/u:v0", root=root)
    ds["x"][0] = 1
    ds["x"][1] = 2
    assert ds["x"].undo()[...].tolist() == [1, 0, 0]
    ds["y"][0] = 9
    hub.tag("t/u:v0", "here", root=root)
    with pytest.raises(hub.errors.ConfigError, match=r"changed more than the array 'x'; dataset\.undo\(\)"):
        ds["x"].undo()
    assert ds["y"][0] == 9
    assert ds["y"].undo()[0] == 0
    with pytest.raises(hub.errors.ConfigError, match="changed more"):
        ds["y"].undo(3)
    ds.attrs["why"] = "so"
    with pytest.raises(hub.errors.ConfigError, match="changed more"):
        ds["x"].undo()
    with pytest.raises(hub.errors.ReadOnlyError):
        hub.load("t/u:v0@2", root=root).undo()
    with pytest.raises(hub.errors.ReadOnlyError):
        ds.snapshot().undo()
    with pytest.raises(hub.errors.ConfigError):
        ds["x"].undo("a")
    ds.undo()
    assert "why" not in hub.load("t/u:v0", root=root).attrs


@pytest.mark.parametrize("way", ["created", "added", "in a transaction"])
def test_objects_that_are_all_text_are_text_and_bytes_are_bytes(root, way):
    given = {"t": np.array([["a", "bé"], ["", "d"]], object), "b": np.array([b"a", b"bcd"], object)}
    if way == "created":
        ds = hub.dataset(given, "t/o:v0", root=root)
    else:
        ds = hub.dataset({"x": np.zeros(1)}, "t/o:v0", root=root)
        if way == "added":
            for name, values in given.items():
                ds[name] = values
        else:
            with ds.transaction("more") as t:
                for name, values in given.items():
                    t[name] = values
    assert ds["t"].dtype.kind == "T"
    assert ds["t"][...].tolist() == given["t"].tolist()
    assert ds["b"][...].tolist() == [b"a", b"bcd"]


def test_rows_of_different_shapes_are_sent_to_a_table(root):
    ragged = np.empty(2, object)
    ragged[:] = [np.zeros(1), np.zeros(2)]
    with pytest.raises(hub.errors.ConfigError, match=r"belong into a table: hub\.table_writer"):
        hub.dataset({"r": ragged}, "t/r:v0", root=root)
    ds = hub.dataset({"r": hub.ArraySpec((0, 2), "f4", dims=("s", None))}, "t/r:v0", root=root)
    with pytest.raises(hub.errors.ConfigError, match=r"hub\.table_writer"):
        ds["more"] = ragged
    with pytest.raises(ValueError, match=r"belong into a table: hub\.table_writer"):
        ds.append({"r": [[1], [1, 2]]})
    with pytest.raises(hub.errors.ConfigError, match="holds Python objects"):
        ds["bytes"] = np.array([b"a\0", b"b"], object)
    with pytest.raises(hub.errors.ConfigError, match=r"holds Python objects .*int.*, which are never stored"):
        ds["ints"] = np.array([1, "a"], object)


def test_lossy_arrays_say_so_wherever_they_are_shown(root, capsys):
    from hubarray.cli.main import main

    specs = {
        "photo": hub.ArraySpec((1, 16, 16, 3), "u1", chunks=(1, 16, 16, 3), codec="jpeg"),
        "mask": hub.ArraySpec((1, 16, 16), "u1", chunks=(1, 16, 16), codec="png"),
    }
    ds = hub.dataset(specs, "t/l:v0", root=root)
    assert "lossy" in repr(ds["photo"])
    assert "lossy" not in repr(ds["mask"])
    assert [bool(re.search("lossy", line)) for line in repr(ds).splitlines()[1:]] == [True, False]
    hub.array((1, 16, 16, 3), "t/one:v0", "u1", chunks=(1, 16, 16, 3), codec="jpeg", root=root)
    for name in ("t/l:v0", "t/one:v0"):
        assert main(["info", name, "--root", root.url]) == 0
        assert "lossy" in capsys.readouterr().out


@pytest.mark.parametrize("iterable", [False, True])
def test_what_split_and_balanced_give_are_rows_of_a_dataset(root, iterable):
    ds = hub.dataset({"x": np.arange(20), "label": np.arange(20) % 2}, "t/rows:v0", root=root)
    ds["x"].dims = ds["label"].dims = ("s",)
    parts = hub.split("t/rows:v0", by="x", train=0.5, test=0.5, root=root)
    result = []
    for part in parts.values():
        rows = ds.to_pytorch(rows=part, iterable=iterable)
        result += [int(row["x"]) for row in rows] if iterable else [int(rows[i]["x"]) for i in range(len(rows))]
    assert sorted(result) == list(range(20))
    drawn = hub.balanced("t/rows:v0", by="label", weights={0: 3, 1: 1}, num_rows=12, root=root)
    labels = [int(row["label"]) for row in ds.to_pytorch(rows=drawn, iterable=True)]
    assert labels.count(0) == 9


def test_references_to_encoded_images_say_what_their_reader_needs(root, tmp_path):
    hub.dataset(
        {"photo": hub.ArraySpec((1, 8, 8), "u1", chunks=(1, 8, 8), codec="png"), "x": np.zeros(3)}, "t/i:v0", root=root
    )
    with pytest.warns(UserWarning, match="photo: are encoded images; .*imagecodecs-zarr"):
        hub.references("t/i:v0", tmp_path / "refs.json", root=root)


def test_a_transaction_adopts_arrays_with_what_it_writes(root):
    ds = hub.dataset({"x": np.arange(4)}, "t/adopting:v0", root=root)
    ds["x"].dims = ("s",)
    boxes = hub.array((4, 2), "lab/boxes:v0", "i4", dims=("s", None), root=root)
    boxes[:] = 7
    before = ds.commit
    with ds.transaction("both") as t:
        t["box"] = boxes
        t["x"][0] = 9
        assert "box" in t
        assert list(t) == ["x", "box"]
        with pytest.raises(hub.errors.ConfigError, match="is adopted by this transaction"):
            t["box"][0] = 1
        with pytest.raises(hub.errors.AlreadyExistsError):
            t["box"] = hub.ArraySpec(4)
        with pytest.raises(hub.errors.AlreadyExistsError):
            t["x"] = boxes
        t["gone"] = boxes
        del t["gone"]
    assert ds.commit == before + 1
    assert (ds["box"][...] == 7).all()
    assert ds["x"][0] == 9
    ds["box"][0] = 1
    assert (boxes.refresh()[...] == 7).all()
    assert hub.verify("t/adopting", root=root).problems == []


def test_a_transaction_that_adopts_what_others_added_meanwhile_is_a_conflict(root):
    ds = hub.dataset({"x": np.arange(4)}, "t/twice:v0", root=root)
    other = hub.load("t/twice:v0", root=root)
    weights = hub.array(4, "lab/weights:v0", root=root)
    transaction = ds.transaction()
    t = transaction.__enter__()
    t["w"] = weights
    other["w"] = np.zeros(4)
    with pytest.raises(hub.errors.ConflictError, match="somebody else has added an array 'w'"):
        transaction.__exit__(None, None, None)
    longer = hub.array((5,), "lab/longer:v0", dims=("s",), root=root)
    ds.refresh()["x"].dims = ("s",)
    with pytest.raises(hub.errors.ConfigError, match="grow together"), ds.transaction() as t:
        t["longer"] = longer
    assert list(hub.load("t/twice:v0", root=root)) == ["x", "w"]


def test_the_text_of_an_array_shows_the_commit_that_it_reads(root):
    dataset = hub.dataset({"a": hub.ArraySpec(3), "b": hub.ArraySpec(3)}, "t/x:v0", root=root)
    a = dataset["a"]
    dataset["b"][0] = 1
    assert "t/x:v0@2 in" in repr(a)
    fixed = a.snapshot()
    a[0] = 1
    assert "t/x:v0@3 in" in repr(a)
    assert "t/x:v0@2 in" in repr(fixed)
    dataset.drop(["a", "a"])
    assert "t/x:v0@3 in" in repr(a), "it was dropped, and is shown as it was"
