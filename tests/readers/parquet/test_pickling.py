"""Schemas as Petastorm pickles them: names and plain values, which its own classes are made of."""

import io
import json
import pickle
import pickletools
from decimal import Decimal

import numpy as np
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.parquet.pickled import pickled_schema
from hubarray.readers.parquet.pickling import pickled_unischema

FIELDS = [
    hub.petastorm.UnischemaField("id", np.int64), hub.petastorm.UnischemaField("name", np.str_, (), hub.petastorm.ScalarCodec(), True),
    hub.petastorm.UnischemaField("raw", np.bytes_), hub.petastorm.UnischemaField("ok", np.bool_),
    hub.petastorm.UnischemaField("price", Decimal, (), hub.petastorm.ScalarCodec("DecimalType(10,2)")),
    hub.petastorm.UnischemaField("when", np.dtype("M8[us]")), hub.petastorm.UnischemaField("day", np.datetime64, (), hub.petastorm.ScalarCodec("DateType")),
    hub.petastorm.UnischemaField("x", np.float32, (None, 3), hub.petastorm.NdarrayCodec()),
    hub.petastorm.UnischemaField("z", np.int16, (100_000, 300), hub.petastorm.CompressedNdarrayCodec()),
    hub.petastorm.UnischemaField("image", np.uint8, (None, None, 3), hub.petastorm.CompressedImageCodec("jpeg", 77)),
    hub.petastorm.UnischemaField("größe\n.", np.float64), hub.petastorm.UnischemaField("list", np.int32, (None,)),
]  # fmt: skip


def test_our_own_reader_of_pickles_gives_the_schema_back():
    result = pickled_schema(pickled_unischema(hub.petastorm.Unischema("Frames", FIELDS)), "here")
    assert list(result.fields) == [item.name for item in FIELDS]
    for item in FIELDS:
        again = result.fields[item.name]
        assert (again.shape, again.nullable) == (item.shape, item.nullable)
        if item.numpy_dtype is Decimal or np.dtype(item.numpy_dtype).kind not in "M":
            assert again.numpy_dtype is item.numpy_dtype
    assert result.fields["price"].codec == hub.petastorm.ScalarCodec("DecimalType(10,2)")
    assert result.fields["image"].codec == hub.petastorm.CompressedImageCodec("jpeg", 77)


def test_only_classes_of_schemas_are_named():
    class Noted(pickle.Unpickler):
        def find_class(self, module, name):
            seen.add(f"{module}.{name}")
            return super().find_class("types", "SimpleNamespace") if module != "collections" else dict

    seen, data = set(), pickled_unischema(hub.petastorm.Unischema("Frames", FIELDS))
    assert {op.name for op, _, _ in pickletools.genops(data)} <= {
        "PROTO", "GLOBAL", "EMPTY_DICT", "MARK", "BINUNICODE", "LONG1", "NEWTRUE", "NEWFALSE", "NONE", "TUPLE", "NEWOBJ",
        "BUILD", "EMPTY_TUPLE", "REDUCE", "SETITEMS", "STOP",
    }  # fmt: skip
    names = [argument for op, argument, _ in pickletools.genops(data) if op.name == "GLOBAL"]
    allowed = (
        "petastorm.unischema ",
        "petastorm.codecs ",
        "numpy ",
        "decimal Decimal",
        "pyspark.sql.types ",
        "collections OrderedDict",
    )
    assert all(name.startswith(allowed) for name in names)
    pickletools.dis(data, out=io.StringIO())


def test_a_dataset_has_the_metadata_that_petastorm_asks_for(tmp_path):
    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("id", np.int64)])
    with hub.parquet_writer(tmp_path, schema, rows_per_row_group=2, rows_per_file=5) as writer:
        writer.write_rows({"id": i} for i in range(10))
    metadata = pq.read_schema(tmp_path / "_common_metadata").metadata
    counts = json.loads(metadata[b"dataset-toolkit.num_row_groups_per_file.v1"])
    assert sorted(counts) == sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert set(counts.values()) == {3}
    assert list(pickled_schema(metadata[b"dataset-toolkit.unischema.v1"], "here").fields) == ["id"]


@pytest.mark.parametrize("kind", [np.dtype("m8[s]")])
def test_a_field_that_petastorm_could_not_know_stops_no_dataset(tmp_path, kind):
    with hub.parquet_writer(
        tmp_path, hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("x", kind)])
    ) as writer:
        writer.write({"x": np.timedelta64(3, "s")})
    assert b"dataset-toolkit.unischema.v1" not in pq.read_schema(tmp_path / "_common_metadata").metadata
    with hub.make_reader(tmp_path) as reader:
        assert [row.x for row in reader] == [np.timedelta64(3, "s")]
