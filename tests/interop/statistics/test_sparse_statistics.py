"""Arrays of ten billion rows: what was never written costs nothing, and what cannot be planned is refused at once."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.interop import blocks
from hubarray.interop.statistics import sparse_statistics

ROWS = 10_000_000_000


@pytest.fixture
def huge(root):
    array = hub.array((ROWS, 64, 64), "t/huge:v0", "i4", chunks=(100, 64, 64), fill_value=2, root=root)
    array[5] = 7
    array[ROWS - 1] = -3
    return array


def test_statistics_over_all_of_it_come_at_once_from_what_was_written(huge):
    began = time.monotonic()
    assert int(huge.sum()) == ROWS * 2 * 4096
    assert (int(huge.min()), int(huge.max())) == (-3, 7)
    assert float(huge.mean()) == 2.0
    assert huge.all()
    assert np.any(huge.lazy[7:])
    assert np.isclose(float(huge.var()), 2 * 4096 * 25 / (ROWS * 4096), rtol=1e-6)
    assert float(huge.lazy[10:-1, 0].max()) == 2
    assert float(huge.lazy[::-1].max()) == 7
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "use",
    [
        lambda array: array.to_dask(),
        lambda array: array.mean(axis=0),
        lambda array: np.percentile(array, 99),
        lambda array: array.argmax(),
        lambda array: array.lazy[..., 0].to_dask(),
    ],
)
def test_what_cannot_be_planned_is_refused_within_a_second_with_what_to_do(huge, use):
    began = time.monotonic()
    with pytest.raises(hub.errors.ConfigError, match=r"[\d,]+ blocks of about 64 MiB.*a\.lazy\[0:1000\]"):
        use(huge)
    assert time.monotonic() - began < 1
    assert int(huge.lazy[0:100, 0].sum()) == 64 * (200 + 5)


@settings(max_examples=60)
@given(data=st.data())
def test_they_are_what_numpy_has(make_root, data):
    root = make_root("memory")
    dtype = data.draw(st.sampled_from(["i4", "u8", "?", "f4", "f8", "i1"]))
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    array = hub.array(shape, "t/x:v0", dtype, chunks=3, fill_value=data.draw(st.integers(0, 1)), root=root)
    for _ in range(data.draw(st.integers(0, 3))):
        place = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
        array[place] = data.draw(st.integers(0, 100)) if dtype != "?" else True
    step = data.draw(st.sampled_from([1, 2, -1, 5, -3]))
    key = (slice(None, None, step), *[data.draw(st.sampled_from([slice(None), 0, slice(1, None)])) for _ in shape[1:]])
    view, values = array.lazy[key], array[key]
    name = data.draw(st.sampled_from(sparse_statistics.SPARSE_STATISTICS))
    assume(values.size and view.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_statistics, "MIN_SPARSE_BYTES", 0)
        patch.setattr(sparse_statistics, "_STORED_SHARE", 1e-9)
        result = getattr(view, name)()
    expected = getattr(np, name)(values)
    assert result.dtype == expected.dtype
    assert np.allclose(result, expected, rtol=1e-5, atol=1e-6)


@given(st.integers(-50, 50), st.integers(-50, 50), st.sampled_from([-7, -3, -1, 1, 2, 9]), st.integers(1, 12))
def test_pieces_are_counted_without_being_made(start, stop, step, block):
    axis = range(max(0, start), max(0, stop), step) if step > 0 else range(max(0, start), max(-1, stop), step)
    if len(axis):
        assert blocks.piece_count(axis, block) == len(list(blocks.pieces(axis, block)))
        for coord in range(8):
            part = blocks.within_chunk(axis, coord, block)
            assert list(part or []) == [item for item in axis if item // block == coord]
