"""Blobs in local files come whole and unchanged, however they lie and in whatever order they are asked for."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.local_files import LOCAL_RUN_BYTES, SCRATCH_BYTES, read_local
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Blobs
from hubarray.blobs.sinks import Sink

SIZES = [1, 100, 5000, 200_000, LOCAL_RUN_BYTES, LOCAL_RUN_BYTES + 1, SCRATCH_BYTES + 1]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A root with packs of blobs of many sizes, their refs, and their bytes."""
    root = hub.Root(tmp_path_factory.mktemp("root"))
    packs = PackWriter(root.store, "lab/blobs")
    rng = np.random.default_rng(0)
    sizes = [*SIZES, *rng.choice(SIZES[:-3], 60), *[100] * 1500]
    blobs = [rng.bytes(size) for size in sizes]
    refs = np.array([packs.add(blob) for blob in blobs], REF)
    packs.finish()
    return root.store, refs, blobs


class InPieces(Sink):
    """Places of blobs, each in two pieces; every seventh is decoded in any case, every fifth once it is there."""

    def __init__(self, found):
        self.found = found

    def buffers(self, i):
        whole = memoryview(self.found[i])
        return None if i % 7 == 3 else [whole[:16], whole[16:]] if i % 2 else [whole]

    def are_final(self, position, buffers):
        return len(buffers[0]) % 5 != 0


def read(store, refs, blobs, *, to_targets):
    result = [bytearray(len(blob)) for blob in blobs] if to_targets else [b""] * len(blobs)
    consumed, lock = [], threading.Lock()

    def consume(i, data, is_fetched):
        with lock:
            consumed.append(i)
        result[i] = bytes(data)

    sink = InPieces(result) if to_targets else Sink()
    sink.take = consume
    read_local(store, Blobs.of_refs(refs), range(len(refs)), sink)
    assert [bytes(item) for item in result] == blobs
    assert len(set(consumed)) == len(consumed)
    must = [i for i in range(len(blobs)) if not to_targets or i % 7 == 3 or (i % 2 == 0 and len(blobs[i]) % 5 == 0)]
    assert set(must) <= set(consumed)


@pytest.mark.parametrize("to_targets", [False, True])
def test_all_blobs_at_once_come_as_they_were_stored(stored, to_targets):
    store, refs, blobs = stored
    read(store, refs, blobs, to_targets=to_targets)


@pytest.mark.parametrize("to_targets", [False, True])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_blobs_in_any_order_come_as_they_were_stored(stored, to_targets, data):
    store, refs, blobs = stored
    some = data.draw(st.lists(st.integers(0, 80) | st.integers(0, len(blobs) - 1), min_size=1, max_size=40))
    read(store, refs[some], [blobs[i] for i in some], to_targets=to_targets)
