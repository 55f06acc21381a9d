import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs.ref import REF
from hubarray.history.records.overlay import EMPTY_OVERLAY, Overlay, split_for_fold

ENTRIES = st.dictionaries(st.integers(0, 5000), st.integers(0, 9), max_size=60)


def _arrays(entries):
    refs = np.zeros(len(entries), REF)
    refs["length"] = list(entries.values())
    return np.array(list(entries), np.uint64), refs


def _dict(overlay):
    return dict(zip(overlay.numbers.tolist(), overlay.refs["length"].tolist(), strict=True))


@given(ENTRIES, ENTRIES, st.lists(st.integers(0, 5000)))
def test_newer_entries_win_and_lookups_find_them(older, newer, wanted):
    overlay = EMPTY_OVERLAY.merged(*_arrays(older)).merged(*_arrays(newer))
    assert _dict(overlay) == older | newer
    assert overlay.numbers.tolist() == sorted(overlay.numbers.tolist())
    result, refs = overlay.lookup(np.array(wanted, np.uint64))
    assert result.tolist() == [number in (older | newer) for number in wanted]
    assert refs["length"].tolist() == [(older | newer)[n] for n in wanted if n in older | newer]


@given(ENTRIES)
def test_the_packed_form_reads_back(entries):
    overlay = EMPTY_OVERLAY.merged(*_arrays(entries))
    text, table = overlay.encode("owner/name")
    again = Overlay.decode(text, table)
    assert _dict(again) == entries


@given(ENTRIES, st.integers(1, 60), st.integers(10, 2000))
def test_folding_keeps_every_entry_and_makes_it_fit(entries, max_refs, leaf):
    overlay = EMPTY_OVERLAY.merged(*_arrays(entries))
    kept, folded = split_for_fold(overlay, max_refs=max_refs, leaf_numbers=leaf)
    assert _dict(kept) | _dict(folded) == entries
    assert len(kept) + len(folded) == len(entries)
    assert len(kept) <= max_refs
    assert not {n // leaf for n in _dict(kept)} & {n // leaf for n in _dict(folded)}
    if len(entries) <= max_refs:
        assert len(folded) == 0


def test_an_ordinary_commit_folds_at_most_eight_leaves_the_fullest():
    numbers = {leaf * 1024 + i: 1 for leaf in range(60) for i in range(10 if leaf < 8 else 4)}
    kept, folded = split_for_fold(EMPTY_OVERLAY.merged(*_arrays(numbers)))
    assert {n // 1024 for n in _dict(folded)} == set(range(8))
    assert len(kept) <= 256
