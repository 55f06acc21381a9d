"""Ways to damage what lies in a bucket."""


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
