"""What a dataset's record may not say, one by one: the error names key and field."""

import copy
import json

import numpy as np
import pytest

import hubarray as hub
from hubarray.history.log.hints import hint_writer
from hubarray.names import parse
from tests.hostile.forge import record_bytes

NAME = "t/x:v0"
RECORD = "t/x/log/v0/{:016d}.json"


def _set(**changes):
    return lambda found: found.update(changes)


def _of(i, **changes):
    return lambda found: found["arrays"][i].update(changes)


def _array(i, **changes):
    return lambda found: found["arrays"][i]["array"].update(changes)


FORGED = {
    "arrays": _set(arrays={}),
    "arrays ": _set(arrays=[3]),
    "arrays  ": lambda found: found.update(arrays=found["arrays"] * 2),
    "arrays   ": lambda found: found["arrays"][1].update(extents=found["arrays"][0]["extents"]),
    "arrays    ": _set(following=8),
    "arrays     ": _set(arrays=[{}] * 10_001),
    "following": _set(following=-1),
    "following ": _set(following=True),
    "following  ": _set(following=2**64),
    "more": _set(more=1),
    "name": _of(0, name="a/b"),
    "name ": _of(0, name=""),
    "name  ": _of(0, name=3),
    "id": _of(0, id="xyz"),
    "attrs": _of(0, attrs=[1]),
    "array": _of(0, array=[]),
    "shape": _array(0, shape=[-1, 4]),
    "shape ": _array(0, shape=[True, 4]),
    "shape  ": _array(0, shape=[2**70, 4]),
    "dimension_names": _array(0, dimension_names=["a"]),
    "dimension_names ": _array(0, dimension_names=[1, 2]),
    "numbering_grid": _of(0, numbering_grid=[0]),
    "numbering_grid ": _of(0, numbering_grid="x"),
    "extents": _of(0, extents=[[0, 0, 24]]),
    "extents ": _of(0, extents=[[0, 0]]),
    "extents  ": _of(0, extents=[[0, 0, True]]),
    "extents   ": _of(0, extents=[[0, 2**63, 8]]),
    "extents    ": _of(0, extents=[[8, 8, 8], [0, 0, 8]]),
    "extents     ": _of(0, extents=[[0, 0, 8.0]]),
    "extents      ": _of(0, extents=[[8 * i, 8 * i, 8] for i in range(5000)]),
}
# What an array's own description says is looked at when the array is opened.
LATER = {
    "numbering_grid": _of(0, numbering_grid=[]),
    "chunk_grid": _array(0, chunk_grid={"name": "regular"}),
    "data_type": _array(0, data_type="float1024"),
    "codecs": _array(0, codecs=[{"name": "x"}]),
    "shape": _array(0, shape=[2**60, 2**60]),
}


@pytest.fixture
def made(root):
    ds = hub.dataset(
        {"a": hub.ArraySpec((5, 4), "i4", chunks=(1, 4)), "b": hub.ArraySpec(9, "f4", chunks=3)}, NAME, root=root
    )
    with ds.transaction() as t:
        t["a"][...] = np.arange(20).reshape(5, 4)
        t["b"][...] = 7
    hub.flush()
    hint_writer.forget(root.store, parse(NAME))
    return root


def forge(root, change):
    key = RECORD.format(2)
    fields = copy.deepcopy(json.loads(bytes(root.store.get(key))))
    change(fields["dataset"])
    root.store.put(key, record_bytes(fields))
    return key


@pytest.mark.parametrize("field", FORGED, ids=str.strip)
def test_a_description_that_cannot_be_is_refused_by_key_and_field(made, forget, field):
    key = forge(made, FORGED[field])
    forget()
    with pytest.raises(hub.errors.CorruptDataError) as caught:
        hub.load(NAME, root=made)["a"][...]
    assert key in str(caught.value)
    assert field.strip() in str(caught.value)
    with pytest.raises(hub.HubError):
        hub.load(NAME, root=made)["a"][0] = 1


@pytest.mark.parametrize("field", LATER)
def test_an_array_that_cannot_be_is_refused_and_the_others_read(made, forget, field):
    key = forge(made, LATER[field])
    forget()
    ds = hub.load(NAME, root=made)
    with pytest.raises((hub.errors.CorruptDataError, hub.errors.FormatVersionError)) as caught:
        ds["a"][...]
    assert key in str(caught.value)
    assert ds["b"][:].tolist() == [7.0] * 9


def test_another_arrays_chunks_do_not_decode_as_ones_own(made, forget):
    def swapped(found):
        first, second = found["arrays"]
        first["extents"], second["extents"] = second["extents"], first["extents"]

    forge(made, swapped)
    forget()
    ds = hub.load(NAME, root=made)
    for name in "ab":
        with pytest.raises(hub.errors.CorruptDataError):
            ds[name][...]
