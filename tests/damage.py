"""An array in a bucket, and ways to damage what lies there."""

import numpy as np

import hubarray as hub
from hubarray.history.log.hints import hint_writer
from hubarray.names import parse


def stored_array(root):
    """Leave one array with packs, manifest nodes, records and a hint in a root; gives the root back."""
    array = hub.array((2000, 10), "t/x:v0", "i4", chunks=(1, 10), root=root, fill_value=-1)
    array[...] = np.random.default_rng(0).integers(1, 9, (2000, 10))
    array[5] = 7
    hub.flush()
    hint_writer.forget(root.store, parse("t/x:v0"))
    return root


def keys(root, folder):
    return sorted(info.key for info in root.store.list(f"t/x/{folder}/"))


def flip(data, place):
    altered = bytearray(data)
    altered[place] ^= 0x10
    return bytes(altered)


DAMAGE = {
    "flipped": lambda data: flip(data, len(data) // 2),
    "first byte flipped": lambda data: flip(data, 0),
    "last byte flipped": lambda data: flip(data, -1),
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "emptied": lambda data: b"",
    "deleted": None,
}


def damage(root, key, how):
    data = bytes(root.store.get(key))
    if DAMAGE[how] is None:
        root.store.delete([key])
    else:
        root.store.put(key, DAMAGE[how](data))
