"""Plans against NumPy: every key means the same, on a grid of chunks, for reading and for writing."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from hubarray.arrays.indexing import numbering
from hubarray.arrays.indexing.chunk_grid import clipped, region_of
from hubarray.arrays.indexing.plan import chunk_view, plan, within_one_chunk
from hubarray.arrays.indexing.selection import parse
from tests.arrays import strategies


def _split(array, chunks, fill=-5):
    """An array as a dict of whole chunks."""
    counts = [-(-length // chunk) for length, chunk in zip(array.shape, chunks, strict=True)]
    out = {}
    for coords in itertools.product(*map(range, counts)):
        out[coords] = np.full(chunks, fill)
        inside = tuple(slice(0, n) for n in clipped(coords, array.shape, chunks))
        out[coords][inside] = array[region_of(coords, array.shape, chunks)]
    return out


def _read(array, chunks, key):
    selection = parse(key, array.shape)
    out = np.full(selection.canonical_shape, -1)
    stored = _split(array, chunks)
    for item in plan(selection, array.shape, chunks):
        out[item.in_result] = chunk_view(stored[item.coords], selection)[item.in_chunk]
    result = selection.from_canonical(out)
    return result[()] if selection.is_scalar else result


@settings(max_examples=1500)
@given(st.data())
def test_reading_by_chunks_gives_what_numpy_gives(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(strategies.chunkings(shape))
    key = data.draw(strategies.keys(shape))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    expected = strategies.numpy_outcome(lambda: array[key])
    assert strategies.same(strategies.numpy_outcome(lambda: _read(array, chunks, key)), expected)


def _row_keys(shape):
    """Batches of rows, which have a plan of their own; few of the other keys are such."""
    rows = shape[0] if shape else 0
    if not rows:
        return st.just(())
    return st.permutations(range(rows)).map(lambda some: np.array(some, np.intp)[: rows // 2 + 1])


@settings(max_examples=1000)
@given(st.data())
def test_what_a_plan_says_as_arrays_is_what_its_projections_say(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(
        strategies.chunkings(shape) | st.just(tuple(1 if axis == 0 else max(1, n) for axis, n in enumerate(shape)))
    )
    try:
        selection = parse(data.draw(strategies.keys(shape) | _row_keys(shape)), shape)
    except (IndexError, ValueError, TypeError):
        reject()
    chosen = plan(selection, shape, chunks)
    projections = list(chosen)
    coords = [item.coords for item in projections]
    assert [item.coords for batch in chosen.batches(3) for item in batch] == coords
    assert coords == sorted(set(coords))
    grid = tuple(-(-length // chunk) + 1 for length, chunk in zip(shape[1:], chunks[1:], strict=True))
    numbers = [numbering.number_of(item, grid) for item in coords]
    assert chosen.numbers(numbering.strides(grid)).tolist() == numbers
    out = np.arange(int(np.prod(selection.canonical_shape))).reshape(selection.canonical_shape)
    result = chosen.targets(out) if out.size else None
    if result is not None:
        targets, order = result
        assert sorted(order) == list(range(len(targets))) == list(range(chosen.count))
        for place, item in zip(order, projections, strict=True):
            assert np.array_equal(targets[place].reshape(out[item.in_result].shape), out[item.in_result])


@pytest.mark.parametrize("chunks", list(itertools.product(strategies.WAYS_TO_CUT_FOUR, repeat=2)))
def test_whatever_is_taken_of_axes_cut_in_whatever_way_is_put_where_numpy_has_it(chunks):
    array = np.arange(16).reshape(4, 4)
    stored = _split(array, chunks)
    for key in itertools.product(strategies.WAYS_TO_TAKE_FOUR, repeat=2):
        assert strategies.same(_read(array, chunks, key), array[key]), key
        selection = parse(key, array.shape)
        out = np.full(selection.canonical_shape, -1)
        chosen = plan(selection, array.shape, chunks)
        targets = chosen.targets(out)
        if targets is not None:
            for place, item in zip(targets[1], chosen, strict=True):
                targets[0][place] = stored[item.coords]
            assert np.array_equal(selection.from_canonical(out), array[key]), key


@pytest.mark.parametrize(
    ("key", "is_chunks"),
    [
        (slice(None), True),
        (slice(2, 6), True),
        (slice(1, 5), False),
        (slice(0, 5), False),
        (slice(None, None, -1), False),
        (slice(0, 8, 2), False),
        ((slice(None), slice(0, 2)), False),
        ((slice(None), slice(None, None, -1)), False),
        ((slice(2, 3), slice(None, None, -1)), False),
    ],
)
def test_only_chunks_in_their_order_lie_one_after_the_other_in_the_result(key, is_chunks):
    selection = parse(key, (8, 3))
    chosen = plan(selection, (8, 3), (2, 3))
    assert (chosen.targets(np.empty(selection.canonical_shape)) is not None) == is_chunks


@settings(max_examples=100)
@given(st.data())
def test_what_lies_within_one_chunk_is_what_numpy_gives(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(strategies.chunkings(shape))
    key = data.draw(strategies.keys(shape))
    result = within_one_chunk(key, shape, chunks)
    assume(result is not None)
    coords, index = result
    array = np.arange(int(np.prod(shape))).reshape(shape)
    assert strategies.same(_split(array, chunks)[coords][index], array[key])


def test_the_commonest_keys_lie_within_one_chunk():
    assert within_one_chunk(7, (10, 5, 3), (1, 5, 3)) == ((7, 0, 0), (0, slice(0, 5), slice(0, 3)))
    assert within_one_chunk(-1, (10, 5), (4, 5)) == ((2, 0), (1, slice(0, 5)))
    for key in (10, -11, slice(0, 5), slice(0, 4, 2), (slice(0, 0),), [1], None, ..., (0, 0, 0), np.int64(1), True):
        assert within_one_chunk(key, (10, 5), (4, 5)) is None


@settings(max_examples=1000)
@given(st.data())
def test_writing_by_chunks_does_what_numpy_does(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(strategies.chunkings(shape))
    key = data.draw(strategies.keys(shape, valid=True))
    expected = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        with warnings.catch_warnings():
            # Older releases of NumPy only warn of some keys that the others refuse.
            warnings.simplefilter("error", DeprecationWarning)
            values = np.arange(1000, 1000 + expected[key].size).reshape(expected[key].shape)
    except (IndexError, ValueError, DeprecationWarning):
        reject()
    stored = _split(expected, chunks)
    expected[key] = values
    selection = parse(key, shape)
    canonical = selection.to_canonical(values)
    touched = []
    for item in plan(selection, shape, chunks):
        touched.append(item.coords)
        chunk_view(stored[item.coords], selection)[item.in_chunk] = canonical[item.in_result]
    for coords, chunk in stored.items():
        inside = tuple(slice(0, n) for n in clipped(coords, shape, chunks))
        assert np.array_equal(chunk[inside], expected[region_of(coords, shape, chunks)])
    assert touched == sorted(set(touched))


@given(st.data())
def test_a_chunk_is_whole_only_if_all_of_it_within_the_array_is_selected(data):
    shape = data.draw(strategies.shapes(min_side=1))
    chunks = data.draw(strategies.chunkings(shape))
    key = data.draw(strategies.keys(shape, valid=True))
    try:
        selection = parse(key, shape)
    except (IndexError, ValueError):
        reject()
    for item in plan(selection, shape, chunks):
        if item.whole:
            marks = np.zeros(chunks, int)
            marks[item.in_chunk] += 1
            inside = tuple(slice(0, n) for n in clipped(item.coords, shape, chunks))
            assert (marks[inside] == 1).all()


def test_a_selection_of_an_enormous_array_is_cheap():
    shape = (10**10, 512, 512, 3)
    selection = parse((slice(10**9, 10**9 + 2), ..., 0), shape)
    assert selection.shape == (2, 512, 512)
    assert [item.coords for item in plan(selection, shape, (1, 512, 512, 3))] == [
        (10**9, 0, 0, 0),
        (10**9 + 1, 0, 0, 0),
    ]


@given(st.data())
def test_rows_that_are_chunks_have_places_of_their_own_unless_one_comes_twice(data):
    shape = data.draw(strategies.shapes(min_dims=1, min_side=1))
    rows = shape[0]
    picked = data.draw(st.lists(st.integers(-rows, rows - 1), min_size=1, max_size=5).map(np.array))
    selection = parse(picked, shape)
    result = plan(selection, shape, (1, *shape[1:])).targets(np.empty(selection.canonical_shape))
    assert (result is not None) == (len(set((picked % rows).tolist())) == len(picked))
