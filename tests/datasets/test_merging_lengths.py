"""Merges of datasets of which one side grew and the other has arrays of its own."""

import numpy as np
import pytest

import hubarray as hub


@pytest.fixture
def branches(root):
    """A version with three samples, and a copy of it."""
    ours = hub.dataset({"x": np.arange(3), "y": np.arange(3.0)}, "t/d:v1", root=root)
    ours["x"].dims = ours["y"].dims = ("s",)
    hub.copy("t/d:v1", "t/d:v2", root=root)
    return ours, hub.load("t/d:v2", root=root)


def merged(root, source, into, **options):
    hub.merge_version(source, into=into, root=root, **options)
    return hub.load(into, root=root)


@pytest.mark.parametrize("on_conflict", [None, "ours", "theirs"])
@pytest.mark.parametrize("into", ["v1", "v2"])
def test_an_array_that_one_side_added_grows_to_what_the_other_appended(root, branches, into, on_conflict):
    ours, theirs = branches
    ours.append({"x": [7, 8], "y": [7.0, 8.0]})
    theirs["mask"] = hub.ArraySpec((3,), "?", dims=("s",), fill_value=True)
    theirs["mask"][1] = False
    source = "t/d:v2" if into == "v1" else "t/d:v1"
    result = merged(root, source, f"t/d:{into}", on_conflict=on_conflict)
    assert result.dims == {"s": 5}
    assert result["x"][...].tolist() == [0, 1, 2, 7, 8]
    assert result["mask"][...].tolist() == [True, False, True, True, True]
    assert hub.verify("t/d", root=root).problems == []


def test_an_array_that_was_dropped_here_and_changed_there_comes_back_as_long_as_the_others(root, branches):
    ours, theirs = branches
    del ours["y"]
    ours.append({"x": [7]})
    theirs["y"][0] = 9
    result = merged(root, "t/d:v2", "t/d:v1", on_conflict="theirs")
    assert result["y"][...].tolist() == [9, 1, 2, 0]


def test_an_array_that_is_longer_than_its_dimension_has_become_is_a_conflict(root, branches):
    ours, theirs = branches
    ours.resize(s=2)
    theirs["mask"] = hub.ArraySpec((3,), "?", dims=("s",))
    before = ours.refresh().commit
    with pytest.raises(hub.errors.ConflictError, match="Resize 's' on one side first"):
        merged(root, "t/d:v2", "t/d:v1")
    assert ours.refresh().commit == before


def test_arrays_that_both_sides_added_along_a_new_dimension_agree(root, branches):
    ours, theirs = branches
    ours["a"] = hub.ArraySpec((2,), "i4", dims=("new",))
    theirs["b"] = hub.ArraySpec((5,), "i4", dims=("new",))
    result = merged(root, "t/d:v2", "t/d:v1")
    assert result.dims == {"s": 3, "new": 5}
