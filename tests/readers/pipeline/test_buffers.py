"""Memory that is used again, but never while somebody sees it."""

import weakref

import numpy as np
import pytest

from hubarray.readers.pipeline.buffers import Buffers
from tests.optional import Optional

torch = Optional("torch")

F4 = np.dtype("f4")


def test_memory_that_nobody_sees_is_used_again():
    buffers = Buffers(2)
    places = {buffers.take((10, 5), F4).ctypes.data for _ in range(20)}
    assert len(places) == 1


@pytest.mark.parametrize(
    "see",
    [
        lambda array: array[2:3, 1],
        lambda array: torch.from_numpy(array),
        lambda array: torch.from_numpy(array)[3].view(5),
        lambda array: memoryview(array)[1:2],
        lambda array: np.from_dlpack(array),
        lambda array: array.reshape(-1).view("u1"),
    ],
)
def test_what_somebody_sees_stays_as_it_is(see):
    buffers = Buffers(3)
    first = buffers.take((10, 5), F4)
    first[...] = 7
    seen = see(first)
    del first
    before = np.asarray(seen).tobytes()
    for _ in range(6):
        buffers.take((10, 5), F4)[...] = 0
    assert np.asarray(seen).tobytes() == before


def test_only_so_many_pieces_are_remembered():
    buffers = Buffers(2)
    kept = [buffers.take((10,), F4) for _ in range(5)]
    assert len({item.ctypes.data for item in kept}) == 5
    gone = weakref.ref(kept[0].base if kept[0].base.base is None else kept[0].base.base)
    del kept
    assert gone() is None


def test_smaller_and_empty_arrays_of_any_dtype_fit():
    buffers = Buffers(2)
    large = buffers.take((100, 4), np.dtype("f8")).ctypes.data
    for shape, dtype in [((50, 4), "f8"), ((3,), "U3"), ((7,), "M8[s]"), ((), "c16"), ((0, 3), "i2"), ((9,), "?")]:
        taken = buffers.take(shape, np.dtype(dtype))
        assert (taken.shape, taken.dtype, taken.ctypes.data) == (shape, np.dtype(dtype), large)
        assert taken.flags.c_contiguous
        assert taken.flags.writeable
        del taken
