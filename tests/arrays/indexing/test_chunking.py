import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.indexing.chunking import (
    GROUP_BYTES,
    WHOLE_SAMPLE_BYTES,
    auto_chunks,
    checked_chunks,
    checked_shape,
)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.sampled_from([1, 2, 4, 8, 16]))
def test_automatic_chunks_follow_the_size_of_a_sample(shape, itemsize):
    chunks = auto_chunks(shape, itemsize)
    sample = math.prod(max(1, n) for n in shape[1:]) * itemsize
    size = math.prod(chunks) * itemsize
    if sample < GROUP_BYTES:
        assert chunks[1:] == tuple(max(1, n) for n in shape[1:])
        assert size <= GROUP_BYTES < size + sample
    else:
        assert chunks[0] == 1
        assert size <= WHOLE_SAMPLE_BYTES
        if sample <= WHOLE_SAMPLE_BYTES:
            assert size == sample


@pytest.mark.parametrize("chunks", [(1, 2), (0,), (-1,), (1.5,), "big", "1", (2**31,), None, ("a",), 0])
def test_chunks_that_do_not_fit_are_refused(chunks):
    with pytest.raises((hub.errors.ConfigError, TypeError)) as caught:
        checked_chunks(chunks, (10,), 1)
    assert caught.type is hub.errors.ConfigError


@pytest.mark.parametrize(
    "shape", [-1, (3, -1), 1.5, (2.0,), "ab", (2**62, 2**10), (2**63,), None, (1,) * 65, ([1, 2],)]
)
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(hub.errors.ConfigError, match="shape"):
        checked_shape(shape, 1)


def test_one_chunk_length_is_for_every_axis():
    assert checked_chunks(3, (10, 10), 1) == (3, 3)
