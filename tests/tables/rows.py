"""A drive as a plain list of rows, and how tables and lists are compared."""

import numpy as np
import pyarrow as pa

import hubarray as hub

DRIVES = {
    "log_id": hub.Field(str, index=True),
    "frame": hub.Field("i8", index=True),
    "weight": hub.Field("f4", index=True, nullable=True),
    "camera.image": hub.Field("u1", (None, None, 3), codec="png"),
    "camera.exposure": hub.Field("f4"),
    "lidar": hub.Field("f4", (None, 4)),
    "speed": hub.Field("f4"),
    "note": hub.Field(str, nullable=True),
    "pose": hub.Field("f8", (3,)),
}


def schema(**rows_per_block):
    return hub.Schema(DRIVES, rows_per_block=rows_per_block or {"rest": 4})


def drive(key, count, seed=0):
    rng = np.random.default_rng([seed, *key.encode()])
    return [
        {
            "log_id": key,
            "frame": np.int64(i),
            "weight": None if i % 7 == 3 else np.float32(i / 2),
            "camera.image": rng.integers(0, 256, (4 + i % 3, 5, 3), "u1"),
            "camera.exposure": np.float32(i),
            "lidar": rng.random((i % 5, 4), "f4"),
            "speed": np.float32(rng.random()),
            "note": None if i % 3 else f"{key} {i}",
            "pose": rng.random(3),
        }
        for i in range(count)
    ]


def write(name, parts, root=None, given=None, **options):
    """A table of a mapping of keys to rows."""
    with hub.table_writer(name, given or schema(), root=root, **options) as w:
        for key, rows in parts.items():
            with w.partition(key) as p:
                p.extend(rows)
    return hub.load(name, root=root)


def same(one, two):
    """Whether two values are the same, type and bits."""
    if one is None or two is None or type(one) in (str, bytes):
        return type(one) is type(two) and one == two
    one, two = np.asarray(one), np.asarray(two)
    if one.dtype.kind == two.dtype.kind and one.dtype.kind in "SU" and one.shape == two.shape == ():
        # A scalar of NumPy's text has lost the length that its dtype had.
        return bool(one == two)
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


def assert_rows(found, expected):
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert row.keys() == wanted.keys()
        for name, value in wanted.items():
            assert same(row[name], value), (name, row[name], value)


def arrow_text(column):
    """All values of a column of Arrow as text, as NaN equals nothing; times as numbers, as Python lacks most years."""
    return str(column.cast(_without_times(column.type)).to_pylist())


def _without_times(kind):
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_without_times(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind
