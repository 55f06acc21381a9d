"""Arrays that are read together by the frameworks."""

import numpy as np
import pytest

import hubarray as hub
from tests.interop import ROWS


@pytest.fixture(params=["local", "s3"])
def pair(request, make_root):
    """Images, each filled with its number, and the numbers as labels."""
    root = make_root(request.param)
    images = hub.array((ROWS, 8, 8), "t/images:v0", "f4", chunks=(3, 8, 8), root=root)
    images[...] = np.arange(ROWS, dtype="f4")[:, None, None] + np.zeros((8, 8), "f4")
    labels = hub.array(ROWS, "t/labels:v0", "i8", chunks=64, root=root)
    labels[...] = np.arange(ROWS)
    assert images[5, 0, 0] == 5
    return images, labels
