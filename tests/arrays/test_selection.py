"""Indexing against NumPy: every key means the same, on a grid of chunks, for reading and for writing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubarray.arrays import numbering
from hubarray.arrays.chunk_grid import (
    Box,
    chunk_view,
    clipped,
    merged_boxes,
    project,
    region_of,
    single_rows,
    within_one_chunk,
)
from hubarray.arrays.selection import parse
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
    for one in project(selection, array.shape, chunks):
        out[one.in_result] = chunk_view(stored[one.coords], selection)[one.in_chunk]
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


@settings(max_examples=500)
@given(st.data())
def test_a_box_is_what_project_yields_one_at_a_time(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(strategies.chunkings(shape))
    try:
        selection = parse(data.draw(strategies.keys(shape)), shape)
    except (IndexError, ValueError, TypeError):
        return
    if selection.points is not None:
        return
    expected = list(project(selection, shape, chunks))
    box = Box(selection, shape, chunks)
    assert [box[i] for i in range(len(box))] == expected
    out = np.arange(int(np.prod(selection.canonical_shape))).reshape(selection.canonical_shape)
    places = box.chunk_after_chunk(out, chunks)
    if places is not None:
        assert len(places) == len(expected)
        for place, one in zip(places, expected, strict=True):
            assert one.whole
            assert np.array_equal(place, out[one.in_result])
    grid = tuple(-(-length // chunk) + 1 for length, chunk in zip(shape[1:], chunks[1:], strict=True))
    numbers = [numbering.number_of(one.coords, grid) for one in expected]
    assert box.numbers(numbering.strides(grid)).tolist() == numbers


@pytest.mark.parametrize("chunks", list(itertools.product(strategies.WAYS_TO_CUT_FOUR, repeat=2)))
def test_whatever_is_taken_of_axes_cut_in_whatever_way_is_put_where_numpy_has_it(chunks):
    array = np.arange(16).reshape(4, 4)
    stored = _split(array, chunks)
    for key in itertools.product(strategies.WAYS_TO_TAKE_FOUR, repeat=2):
        assert strategies.same(_read(array, chunks, key), array[key]), key
        selection = parse(key, array.shape)
        out = np.full(selection.canonical_shape, -1)
        box = Box(selection, array.shape, chunks)
        places = box.chunk_after_chunk(out, chunks)
        if places is not None:
            for place, one in zip(places, box, strict=True):
                place[...] = stored[one.coords]
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
    box = Box(selection, (8, 3), (2, 3))
    assert (box.chunk_after_chunk(np.empty(selection.canonical_shape), (2, 3)) is not None) == is_chunks


@settings(max_examples=1000)
@given(st.data())
def test_what_lies_within_one_chunk_is_what_numpy_gives(data):
    shape = data.draw(strategies.shapes())
    chunks = data.draw(strategies.chunkings(shape))
    key = data.draw(strategies.keys(shape))
    found = within_one_chunk(key, shape, chunks)
    if found is None:
        return
    coords, index = found
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
        values = np.arange(1000, 1000 + expected[key].size).reshape(expected[key].shape)
    except (IndexError, ValueError):
        return
    stored = _split(expected, chunks)
    expected[key] = values
    selection = parse(key, shape)
    canonical = selection.to_canonical(values)
    touched = []
    for one in project(selection, shape, chunks):
        touched.append(one.coords)
        chunk_view(stored[one.coords], selection)[one.in_chunk] = canonical[one.in_result]
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
        return
    for one in project(selection, shape, chunks):
        if one.whole:
            marks = np.zeros(chunks, int)
            marks[one.in_chunk] += 1
            inside = tuple(slice(0, n) for n in clipped(one.coords, shape, chunks))
            assert (marks[inside] == 1).all()


@pytest.mark.parametrize(
    "key",
    [
        5,
        -6,
        (0, 0, 0),
        "field",
        ["a"],
        1.5,
        (slice(None), 1.0),
        [1.5],
        [[0], [9]],
        slice(1.5),
        {},
        np.array([True] * 4),
    ],
)
def test_what_numpy_refuses_is_refused_with_the_same_exception(key):
    array = np.zeros((5, 3))
    with pytest.raises((IndexError, TypeError)) as expected:
        array[key]
    with pytest.raises(expected.type):
        parse(key, array.shape)


def test_a_selection_of_an_enormous_array_is_cheap():
    shape = (10**10, 512, 512, 3)
    selection = parse((slice(10**9, 10**9 + 2), ..., 0), shape)
    assert selection.shape == (2, 512, 512)
    assert [one.coords for one in project(selection, shape, (1, 512, 512, 3))] == [
        (10**9, 0, 0, 0),
        (10**9 + 1, 0, 0, 0),
    ]


@given(st.sets(st.tuples(*[st.integers(0, 4)] * 3)))
def test_boxes_cover_exactly_the_coordinates_once(coords):
    covered = [
        point
        for start, stop in merged_boxes(sorted(coords))
        for point in itertools.product(*(range(a, b) for a, b in zip(start, stop, strict=True)))
    ]
    assert sorted(covered) == sorted(coords)


@given(st.data())
def test_rows_that_are_chunks_are_told_from_every_other_selection(data):
    shape = data.draw(strategies.shapes(min_dims=1, min_side=1))
    array, rows, chunks = np.arange(np.prod(shape)).reshape(shape), shape[0], (1, *shape[1:])
    key = data.draw(strategies.keys(shape) | st.lists(st.integers(-rows, rows - 1), max_size=5).map(np.array))
    try:
        chosen = parse(key, array.shape)
    except (IndexError, TypeError):
        return
    found = single_rows(chosen, array.shape, chunks)
    if found is not None:
        assert len(set(found.tolist())) == len(found)
        assert np.array_equal(chosen.from_canonical(array[found]), array[key])
    elif isinstance(key, np.ndarray) and key.dtype.kind == "i" and key.ndim == 1 and key.size:
        assert len(set((key % rows).tolist())) < len(key)
