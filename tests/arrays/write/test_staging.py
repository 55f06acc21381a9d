"""What a transaction wrote: read back from memory or from what was uploaded, within a bound, and never in part."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.arrays.indexing.selection import parse
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write import staging
from hubarray.arrays.write.staging import Staging, mask_of, rows_of
from hubarray.blobs.pack import PackWriter
from hubarray.history.commits.handle import newest_record

SHAPE, CHUNKS = (10, 6), (3, 4)
CHUNK_BYTES = 3 * 4 * 8


@pytest.fixture
def array(root):
    array = hub.array(SHAPE, "t/x:v0", "i8", chunks=CHUNKS, root=root)
    array[...] = np.arange(60).reshape(SHAPE)
    return array


@pytest.fixture
def staged(array):
    return _on(array)


def _on(array):
    base = ArraySnapshot.of(*newest_record(array))
    return Staging(base, base.metadata, PackWriter(base.version.store, base.version.name.home))


def _write(staged, key, value):
    chosen = parse(key, staged.metadata.shape)
    staged.write(chosen, chosen.to_canonical(np.broadcast_to(np.array(value, "i8"), chosen.shape)))


def _read(staged, key=...):
    chosen = parse(key, staged.metadata.shape)
    return chosen.from_canonical(staged.read(chosen))


def test_it_is_the_base_with_what_was_written_over_it_and_the_array_stays_as_it_was(staged, array):
    expected = array[...]
    for key, value in (((slice(1, 5), slice(2, 6)), 7), (([0, 9], [5, 0]), [8, 9]), (4, -1)):
        _write(staged, key, value)
        expected[key] = value
    assert np.array_equal(_read(staged), expected)
    assert np.array_equal(_read(staged, (slice(None, None, -3), 5)), expected[::-3, 5])
    assert array[...].tolist() == np.arange(60).reshape(SHAPE).tolist()


def test_it_knows_which_elements_of_which_chunks_were_written(staged):
    _write(staged, (slice(2, 4), 1), 5)
    assert staged.touched == [(0, 0), (1, 0)]
    assert staged.is_written((0, 0))
    assert not staged.is_written((0, 1))
    assert np.argwhere(staged.written((0, 0))).tolist() == [[2, 1]]
    assert np.argwhere(staged.written((1, 0))).tolist() == [[0, 1]]
    assert mask_of((0, 0), staged.packed((0, 0)), SHAPE, CHUNKS).tolist() == staged.written((0, 0)).tolist()


def test_a_chunk_filled_piece_by_piece_is_uploaded_when_it_is_complete(staged, root):
    packs = len(list(root.store.list("t/x/packs/")))
    for column in range(3):
        _write(staged, (slice(0, 3), column), 5)
        assert staged.packed((0, 0)) is not None
    _write(staged, (slice(0, 3), 3), 5)
    assert staged.packed((0, 0)) is None
    # The chunk at the corner has one row and two columns within the array, and these are all it needs.
    _write(staged, (9, [4, 5]), 5)
    assert staged.packed((3, 1)) is None
    assert np.argwhere(staged.written((3, 1))).tolist() == [[0, 0], [0, 1]]
    assert (_read(staged, (slice(0, 3), slice(0, 4))) == 5).all()
    assert len(list(root.store.list("t/x/packs/"))) == packs + 1


def test_flushing_uploads_all_and_gives_a_ref_for_each_chunk(staged, array):
    _write(staged, (slice(0, 4), 0), 70)
    _write(staged, (slice(6, 9), slice(4, 6)), 0)
    coords, refs = staged.flush()
    assert coords == [(0, 0), (1, 0), (2, 1)]
    # What is all fill value is stored nowhere.
    assert (refs["length"] > 0).tolist() == [True, True, False]
    staged._packs.finish()
    base = ArraySnapshot.of(*newest_record(array))
    chunks = base.chunks(coords, refs)
    expected = np.arange(60).reshape(SHAPE)
    expected[0:4, 0] = 70
    assert chunks[0, 0].tolist() == expected[0:3, 0:4].tolist()
    assert chunks[1, 0].tolist() == expected[3:6, 0:4].tolist()
    assert not chunks[2, 1].any()


def test_partial_chunks_beyond_the_bound_leave_memory_least_recent_first_and_are_read_back(array, monkeypatch):
    monkeypatch.setattr(staging, "MAX_DIRTY_BYTES", 2 * CHUNK_BYTES)
    staged, expected = _on(array), array[...]
    for row, column, value in ((0, 0, 1), (3, 0, 2), (0, 1, 3), (6, 0, 4), (9, 5, 5), (3, 3, 6)):
        _write(staged, (row, column), value)
        expected[row, column] = value
        assert len(staged._dirty) <= 2
    assert list(staged._dirty) == [(3, 1), (1, 0)]
    assert np.array_equal(_read(staged), expected)


def test_chunks_on_their_way_up_are_what_later_parts_of_the_assignment_see(array, monkeypatch):
    monkeypatch.setattr(staging, "MAX_DIRTY_BYTES", 0)
    monkeypatch.setattr(staging, "WRITE_BATCH_BYTES", 1)
    expected = array[...]
    with array.transaction() as t:
        for first, value in ((1, -1), (2, -2), (1, -3)):
            t[first::3, 1:] = expected[first::3, 1:] = value
        t[::-1, 5], expected[::-1, 5] = np.arange(10), np.arange(10)
        assert np.array_equal(t[...], expected)
    assert np.array_equal(array[...], expected)


def test_complete_chunks_are_uploaded_as_they_fill(root):
    array = hub.array((40, 1 << 20), "t/big:v0", "u1", codec="none", root=root)
    with array.transaction() as t:
        for i in range(40):
            t[i] = i + 1
        uploaded = sum(info.size_bytes for info in root.store.list("t/big/packs/"))
        assert uploaded > 10 << 20
        assert not t._staging._dirty
        assert array.commit == 1
    assert array[:, 5].tolist() == list(range(1, 41))


def test_what_failed_partway_can_neither_go_on_nor_be_flushed(array, monkeypatch):
    staged = _on(array)
    _write(staged, 0, 5)
    with pytest.raises(ZeroDivisionError), staged.changing():
        raise ZeroDivisionError("at the third chunk")
    for use in (lambda: _write(staged, 1, 5), staged.flush, staged.require_whole):
        with pytest.raises(hub.HubError, match=r"failed partway.*ZeroDivisionError: at the third chunk"):
            use()


def test_a_write_that_cannot_be_encoded_leaves_it_torn(array, monkeypatch):
    staged = _on(array)
    monkeypatch.setattr(staging, "encoded", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _write(staged, slice(0, 3), 5)
    with pytest.raises(hub.HubError, match="failed partway"):
        staged.require_whole()


def test_a_write_that_fails_before_it_changed_anything_leaves_it_as_it_was(array, root, forget):
    (pack,) = (root.store.folder / "t/x/packs").iterdir()
    whole = pack.read_bytes()
    pack.write_bytes(bytes(len(whole)))
    forget()
    staged = _on(hub.load("t/x:v0", root=root))
    with pytest.raises(hub.errors.CorruptDataError):
        _write(staged, (0, 0), 5)
    staged.require_whole()
    assert staged.touched == []
    pack.write_bytes(whole)
    _write(staged, (0, 0), 5)
    assert _read(staged, 0).tolist() == [5, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("uploaded", [False, True])
def test_chunks_of_another_staging_can_be_taken_over(array, uploaded):
    item, other = _on(array), _on(array)
    _write(other, (slice(0, 2), 0), 70)
    if uploaded:
        coords, refs = other.flush()
        other._packs.finish()
        item.take(coords[0], refs[0], np.packbits(other.written(coords[0])))
    else:
        item.adopt((0, 0), other)
    assert item.touched == [(0, 0)]
    assert np.argwhere(item.written((0, 0))).tolist() == [[0, 0], [1, 0]]
    assert _read(item, (slice(0, 3), 0)).tolist() == [70, 70, 12]


@pytest.mark.parametrize(
    ("start", "stop", "expected"), [(0, 0, []), (3, 5, [(3, 5)]), (0, 9, [(0, 4), (4, 8), (8, 9)])]
)
def test_rows_come_in_ranges_of_a_batch(array, monkeypatch, start, stop, expected):
    monkeypatch.setattr(staging, "WRITE_BATCH_BYTES", 4 * 6 * 8)
    assert list(rows_of(ArraySnapshot.of(*newest_record(array)).metadata, start, stop)) == expected
