"""Sources of every kind with the same rows."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import hubarray as hub

ROWS = 60


class Sample(NamedTuple):
    """A source, and what its rows are."""

    source: Any
    root: Any
    rows: list[dict]

    def reader(self, fields=None, **options):
        return hub.make_reader(self.source, fields, root=self.root, **options)

    def batches(self, fields=None, **options):
        return hub.make_batch_reader(self.source, fields, root=self.root, **options)


def row_of(i):
    return {
        "id": np.int64(i),
        "key": f"k{i // 20}",
        "x": np.full((2, 3), i, np.float32),
        "ragged": np.arange(i % 5, dtype=np.int16),
    }


SCHEMA = [
    hub.petastorm.UnischemaField("id", np.int64),
    hub.petastorm.UnischemaField("key", np.str_),
    hub.petastorm.UnischemaField("x", np.float32, (2, 3), hub.petastorm.NdarrayCodec()),
    hub.petastorm.UnischemaField("ragged", np.int16, (None,), hub.petastorm.CompressedNdarrayCodec()),
]


def write_petastorm(folder, rows, **options):
    with hub.parquet_writer(folder, hub.petastorm.Unischema("Rows", SCHEMA), **options) as writer:
        writer.write_rows(rows)


KINDS = ("arrays", "table", "petastorm", "parquet")


@pytest.fixture(params=KINDS)
def sample(request, make_root, tmp_path):
    return make_sample(request.param, make_root, tmp_path)


def make_sample(kind, make_root, tmp_path):
    rows = [row_of(i) for i in range(ROWS)]
    if kind == "petastorm":
        write_petastorm(tmp_path / "data", rows, partition_by=["key"], rows_per_row_group=7)
        return Sample(str(tmp_path / "data"), None, rows)
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        plain = [{"id": row["id"], "key": row["key"], "ragged": row["ragged"]} for row in rows]
        pq.write_table(pa.Table.from_pylist(plain), tmp_path / "rows.parquet", row_group_size=7)
        return Sample(str(tmp_path / "rows.parquet"), None, plain)
    root = make_root("local")
    if kind == "arrays":
        plain = [{"id": row["id"], "x": row["x"]} for row in rows]
        for name in ("id", "x"):
            values = np.stack([row[name] for row in plain])
            array = hub.array(values.shape, f"t/{name}:v0", values.dtype, chunks=(7, *values.shape[1:]), root=root)
            array[...] = values
        return Sample({"id": "t/id:v0", "x": "t/x:v0"}, root, plain)
    fields = {
        "id": hub.Field("int64", index=True), "key": hub.Field(str), "x": hub.Field("float32", (2, 3)),
        "ragged": hub.Field("int16", (None,)),
    }  # fmt: skip
    with hub.table_writer("t/rows:v0", hub.Schema(fields), root=root) as writer:
        for key in ("k0", "k1", "k2"):
            with writer.partition(key) as partition:
                for row in rows:
                    if row["key"] == key:
                        partition.append(row)
    return Sample("t/rows:v0", root, rows)


def same(one, other):
    """Whether two rows, or dictionaries of them, are equal in value and dtype."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype
