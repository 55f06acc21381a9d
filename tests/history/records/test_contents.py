"""Contents of a record: refs by number, from the overlay and the manifest."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.history.log.version import version_of
from hubarray.history.records.contents import present_refs, ref_of, refs_of
from hubarray.history.records.overlay import LEAF_NUMBERS
from hubarray.names import parse

NAME = parse("t/x:v0")


def test_refs_are_the_overlay_over_the_manifest_one_by_one_or_together(root):
    array = hub.array(6000, "t/x:v0", "i2", chunks=1, root=root)
    array[:5000] = np.arange(5000) + 1
    array[7], array[5500] = 9, 0
    version = version_of(root, NAME)
    record = version.last_seen
    assert record.manifest is not None
    numbers = np.array([0, 7, 4999, 5000, 5500], np.uint64)
    refs = refs_of(version.fetcher, record, numbers)
    assert (refs["length"] > 0).tolist() == [True, True, True, False, False]
    for number, ref in zip(numbers.tolist(), refs, strict=True):
        item = ref_of(version.fetcher, record, number)
        assert (b"" if item is None or not item["length"] else item.tobytes()) == (
            ref.tobytes() if ref["length"] else b""
        )


@pytest.mark.parametrize("batch_bytes", [1, 100, 1 << 30])
def test_every_present_chunk_comes_once_in_order_in_batches_of_so_many_bytes(root, batch_bytes):
    """Chunks in the manifest, over it, beside it in leaves that it has not, and such as were cut to nothing."""
    count = 3 * LEAF_NUMBERS + 5
    array = hub.array(count, "t/x:v0", "i2", chunks=1, codec="none", root=root)
    array[100 : LEAF_NUMBERS + 2] = 3
    array[[0, 101, count - 1]] = 4
    array[102] = 0
    version = version_of(root, NAME)
    record = version.last_seen
    batches = list(present_refs(version.fetcher, record, batch_bytes=batch_bytes))
    numbers = np.concatenate([numbers for numbers, _ in batches])
    refs = np.concatenate([refs for _, refs in batches])
    expected = [0, 100, 101, *range(103, LEAF_NUMBERS + 2), count - 1]
    assert numbers.tolist() == expected
    assert refs.tobytes() == refs_of(version.fetcher, record, np.array(expected, np.uint64)).tobytes()
    sizes = [int(some["length"].sum()) for _, some in batches]
    assert all(size >= batch_bytes for size in sizes[:-1])
    assert all(size - int(some["length"][-1]) < batch_bytes for size, (_, some) in zip(sizes, batches, strict=True))
