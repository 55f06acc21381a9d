"""Three-way merges: by chunk, by element, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub


@pytest.fixture
def fork(root):
    array = hub.array((12, 6), "t/x:v1", "i8", chunks=(5, 4), root=root, attrs={"a": 1})
    array[...] = np.arange(72).reshape(12, 6)
    return array, hub.copy("t/x:v1", "t/x:mine", root=root)


def _merge(root, **options):
    return hub.merge_version("t/x:mine", into="t/x:v1", root=root, **options)


def test_changes_of_both_sides_are_kept_also_within_one_chunk(fork, root):
    ours, mine = fork
    ours[0, 0], mine[0, 1], mine[11] = -1, -2, -3
    merged = _merge(root, message="together")
    expected = np.arange(72).reshape(12, 6)
    expected[0, :2], expected[11] = (-1, -2), -3
    assert np.array_equal(merged[...], expected)
    newest = next(hub.log("t/x:v1", root=root))
    assert (newest.message, newest.source) == ("together", "t/x:mine@3")
    assert mine[0, 0] == 0
    assert hub.verify("t/x", root=root).problems == []


def test_elements_that_both_changed_are_listed_and_nothing_is_written_unless_told(fork, root):
    ours, mine = fork
    ours[2, 1:4], mine[2, 2:6] = -1, -2
    ours[9, 0] = mine[9, 0] = 77
    before = ours.commit
    with pytest.raises(hub.errors.ConflictError, match=r"\[2:3, 2:4\].*nothing was written"):
        _merge(root)
    assert ours.refresh().commit == before
    assert _merge(root, on_conflict="ours")[2].tolist() == [12, -1, -1, -1, -2, -2]
    hub.undo("t/x:v1", root=root)
    assert _merge(root, on_conflict="theirs")[2].tolist() == [12, -1, -2, -2, -2, -2]
    assert ours[9, 0] == 77
    with pytest.raises(hub.errors.ConfigError, match="on_conflict"):
        _merge(root, on_conflict="mine")


def test_the_next_merge_starts_from_the_last_one(fork, root):
    ours, mine = fork
    mine[0] = 1
    _merge(root)
    ours[0] = 2
    mine[1] = 3
    merged = _merge(root)
    assert merged[:2, 0].tolist() == [2, 3]
    before = merged.commit
    assert _merge(root).commit == before


def test_merging_the_other_way_works_too(fork, root):
    ours, mine = fork
    ours[3], mine[4] = 1, 2
    assert hub.merge_version("t/x:v1", into="t/x:mine", root=root)[3:5, 0].tolist() == [1, 2]


def test_growth_and_attributes_are_merged(fork, root):
    ours, mine = fork
    mine.append(np.full((3, 6), 9))
    mine.attrs["b"] = 2
    ours.resize((12, 8))
    ours.attrs["a"] = 5
    merged = _merge(root)
    assert merged.shape == (15, 8)
    assert (merged[12:, :6] == 9).all()
    assert not merged[:, 6:].any()
    assert dict(merged.attrs) == {"a": 5, "b": 2}


def test_what_cannot_be_merged_is_refused(fork, root):
    ours, mine = fork
    mine.append(np.zeros((1, 6)))
    ours.append(np.zeros((2, 6)))
    with pytest.raises(hub.errors.ConflictError, match="both resized axis 0"):
        _merge(root)
    mine.resize((4, 6))
    with pytest.raises(hub.errors.ConflictError, match="shrank axis 0"):
        _merge(root)
    hub.array(3, "t/other", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="no commit in common"):
        hub.merge_version("t/other", into="t/x:v1", root=root)


def test_a_common_commit_that_expired_is_said_to_be_so(fork, root):
    ours, mine = fork
    mine[0] = 1
    ours[1] = 1
    ours[2] = 1
    hub.expire("t/x:v1", keep_last=1, root=root)
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        _merge(root)


def test_a_copy_under_another_name_is_merged_too(root):
    hub.array((6, 4), "t/x:v1", "i8", chunks=(2, 4), root=root)[...] = 1
    mine = hub.copy("t/x:v1", "u/y", root=root)
    mine[3] = 5
    merged = hub.merge_version("u/y", into="t/x:v1", root=root)
    hub.delete("u/y", root=root)
    assert merged[:, 0].tolist() == [1, 1, 1, 5, 1, 1]
    assert hub.verify("t/x", root=root).problems == []


CELLS = st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 5)), st.integers(1, 3), max_size=8)


@settings(max_examples=60)
@given(rounds=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=3))
def test_merges_do_what_a_merge_of_dictionaries_would(make_root, rounds):
    root = make_root("memory")
    ours = hub.array((8, 6), "t/x:v1", "i8", chunks=(3, 4), root=root)
    mine = hub.copy("t/x:v1", "t/x:mine", root=root)
    model_ours, model_mine = np.zeros((8, 6), int), np.zeros((8, 6), int)
    base = model_mine.copy()
    for our_cells, my_cells in rounds:
        for array, model, cells in ((ours, model_ours, our_cells), (mine, model_mine, my_cells)):
            for cell, value in cells.items():
                array[cell] = model[cell] = value
        changed = model_mine != base
        conflict = (changed & (model_ours != base) & (model_mine != model_ours)).any()
        try:
            _merge(root)
            assert not conflict
        except hub.errors.ConflictError:
            assert conflict
            _merge(root, on_conflict="theirs")
        model_ours = np.where(changed, model_mine, model_ours)
        assert np.array_equal(ours[...], model_ours)
        if next(hub.log("t/x:v1", root=root)).source:
            base = model_mine.copy()


def test_merging_back_starts_from_the_merge_in_the_other_direction(fork, root):
    _, mine = fork
    mine[0] = 1
    _merge(root)
    mine[0] = 0
    assert hub.merge_version("t/x:v1", into="t/x:mine", root=root)[0].tolist() == [0] * 6
    mine[0] = 2
    assert _merge(root)[0].tolist() == [2] * 6


def test_a_merge_that_lost_a_race_to_the_same_merge_starts_from_that_one(fork, root, other_machine, monkeypatch):
    from hubarray.arrays.merge import Merge

    _, mine = fork
    mine[0] = 1
    apply = Merge.apply

    def overtaken(self, *args):
        draft = apply(self, *args)
        monkeypatch.setattr(Merge, "apply", apply)
        other_machine(lambda: _merge(root))
        other_machine(lambda: hub.load("t/x:v1", root=root).__setitem__(0, 5))
        return draft

    monkeypatch.setattr(Merge, "apply", overtaken)
    assert _merge(root)[0].tolist() == [5] * 6


def test_what_they_changed_and_we_cut_off_is_a_conflict_and_never_comes_back(fork, root):
    ours, mine = fork
    mine[4:11] = 5
    ours.resize((7, 6))
    with pytest.raises(hub.errors.ConflictError, match=r"\[7:10, 0:4\]"):
        _merge(root)
    merged = _merge(root, on_conflict="ours")
    assert merged[4:].tolist() == [[5] * 6] * 3
    merged.resize((12, 6))
    assert not merged[7:].any()


@pytest.mark.parametrize("change", [{"fill_value": 9}, {"codec": "gzip"}], ids=str)
@pytest.mark.parametrize("side", ["v1", "mine"])
def test_arrays_stored_differently_are_not_merged(fork, root, side, change):
    hub.array((12, 6), f"t/x:{side}", "i8", chunks=(5, 4), root=root, overwrite=True, **change)[0] = 2
    with pytest.raises(hub.errors.ConflictError, match="stored differently"):
        _merge(root)


def test_what_was_changed_before_a_merge_in_the_other_direction_still_comes_over(fork, root):
    ours, mine = fork
    mine[0], ours[3] = 1, 3
    mine.attrs["k"] = "mine"
    hub.merge_version("t/x:v1", into="t/x:mine", root=root)
    merged = _merge(root)
    assert merged[[0, 3], 0].tolist() == [1, 3]
    assert merged.attrs["k"] == "mine"
    assert np.array_equal(merged[...], mine.refresh()[...])


def test_a_change_that_the_other_side_never_saw_conflicts_also_after_a_merge(fork, root):
    ours, mine = fork
    ours[0, 0], mine[3] = 100, 3
    _merge(root)
    mine[0, 0] = 9
    with pytest.raises(hub.errors.ConflictError, match=r"\[0:1, 0:1\]"):
        _merge(root)


def test_merges_that_crossed_take_nothing_back_silently(fork, root, other_machine):
    """Each side took from the other before it saw what the other took; one then takes a value back."""
    ours, mine = fork
    mine[0] = 1
    hub.tag("t/x:v1", "before", root=root)
    _merge(root)
    ours[0] = np.arange(6)
    ours[5] = 50
    hub.merge_version("t/x:v1", into="t/x:mine", root=root)
    merged = _merge(root)
    assert merged[0].tolist() == list(range(6))
    assert np.array_equal(merged[...], mine.refresh()[...])


def test_a_version_deleted_and_created_again_has_nothing_in_common_with_what_was_copied_from_it(fork, root):
    _, mine = fork
    mine[0] = 1
    hub.delete("t/x:v1", root=root)
    hub.array((12, 6), "t/x:v1", "i8", chunks=(5, 4), root=root)
    with pytest.raises(hub.errors.NotFoundError, match="no commit in common"):
        _merge(root)


APPENDED = [
    ([[0, 0, 5, 5]], [[7, 7, 0, 0]]),
    ([[0, 0, 0, 0]], [[7, 7, 7, 7]]),
    ([[1, 1, 1, 1]], [[0, 0, 0, 0]]),
]


@pytest.mark.parametrize(("their_rows", "our_rows"), APPENDED)
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_rows_that_both_appended_are_never_mixed(root, their_rows, our_rows, before, side):
    ours = hub.array((before, 4), "t/m:v1", "i8", chunks=(2, 3), root=root)
    theirs = hub.copy("t/m:v1", "t/m:b", root=root)
    theirs.append(their_rows)
    ours.append(our_rows)
    with pytest.raises(hub.errors.ConflictError, match="both changed"):
        hub.merge_version("t/m:b", into="t/m:v1", root=root)
    merged = hub.merge_version("t/m:b", into="t/m:v1", on_conflict=side, root=root)
    assert merged[before:].tolist() == (our_rows if side == "ours" else their_rows)


def test_the_same_rows_that_both_appended_are_one(root):
    ours = hub.array((1, 4), "t/m:v1", "i8", chunks=(2, 3), root=root)
    theirs = hub.copy("t/m:v1", "t/m:b", root=root)
    for item in (ours, theirs):
        item.append([[0, 5, 0, 5]])
    theirs[0] = 3
    assert hub.merge_version("t/m:b", into="t/m:v1", root=root)[...].tolist() == [[3] * 4, [0, 5, 0, 5]]
