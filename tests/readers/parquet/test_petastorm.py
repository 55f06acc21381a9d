"""Datasets that Petastorm wrote, and new ones of its kind."""

import io
import json
import os
import pickle
import struct
import sys
import types
from collections import OrderedDict, namedtuple
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import AlreadyExistsError, ConfigError, SourceError
from hubarray.readers.parquet.pickled import pickled_schema
from tests.readers.conftest import SCHEMA, row_of, same, write_petastorm

GOLDEN = Path(__file__).parents[2] / "golden" / "petastorm"


def stored_cells(folder):
    """Petastorm's cells as pyarrow reads them, by id."""
    rows = {}
    for file in sorted(folder.rglob("*.parquet")):
        key = file.parent.name.partition("=")[2]
        for row in pq.ParquetFile(file).read().to_pylist():
            rows[row["id"]] = row | {"partition_key": key}
    return rows


def cell_value(field, cell):
    """The value of a cell, by other libraries than ours."""
    import imagecodecs

    kind = type(field.codec).__name__
    if cell is None or field.codec is None:
        return cell
    if kind == "NdarrayCodec":
        return np.load(io.BytesIO(cell))
    if kind == "CompressedNdarrayCodec":
        return np.load(io.BytesIO(cell))["arr"]
    if kind == "CompressedImageCodec":
        return imagecodecs.imread(cell)
    return cell


@pytest.mark.parametrize("version", ["0.5.1", "0.7.6"])
def test_what_petastorm_wrote_is_read_equal_to_pyarrows_view_and_codecs(version):
    folder = GOLDEN / version
    cells = stored_cells(folder)
    with hub.make_reader(str(folder)) as reader:
        schema = reader.schema
        rows = [row._asdict() for row in reader]
    assert sorted(int(row["id"]) for row in rows) == sorted(cells)
    checked = set()
    for row in rows:
        for name, field in schema.fields.items():
            expected = cell_value(field, cells[int(row["id"])][name])
            if expected is None:
                assert row[name] is None
                continue
            if isinstance(expected, Decimal) or field.numpy_dtype is Decimal:
                assert row[name] == expected
            elif name == "image_png" or isinstance(expected, np.ndarray):
                assert np.array_equal(row[name], expected)
                assert row[name].dtype == np.dtype(field.numpy_dtype) or expected.dtype.kind in "US"
            else:
                assert np.array_equal(row[name], np.asarray(expected).astype(np.asarray(row[name]).dtype))
            checked.add(name)
    assert len(checked) >= 10


class _Old(types.ModuleType):
    """A module of Petastorm, as it was when its schemas were pickled."""


def petastorm_pickle(protocol):
    """A schema pickled as Petastorm does, by modules that are gone when it is read."""
    unischema, codecs = _Old("petastorm.unischema"), _Old("petastorm.codecs")
    spark = _Old("pyspark.sql.types")

    def made(module, name, base=object, **members):
        item = type(name, (base,), {"__module__": module.__name__, **members})
        setattr(module, name, item)
        return item

    field_type = namedtuple("UnischemaField", ["name", "numpy_dtype", "shape", "codec", "nullable"])
    field = made(unischema, "UnischemaField", field_type)
    schema = made(unischema, "Unischema")
    ndarray, image, scalar = (made(codecs, n) for n in ("NdarrayCodec", "CompressedImageCodec", "ScalarCodec"))
    long_type = made(spark, "LongType")
    parents = [_Old(name) for name in ("petastorm", "pyspark", "pyspark.sql")]
    names = {item.__name__: item for item in (*parents, unischema, codecs, spark)}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        first, second, three = schema(), image(), scalar()
        second.__dict__.update(_image_codec=".png", _quality=80)
        three.__dict__.update(_spark_type=long_type())
        fields = [
            field("id", np.int64, (), three, False),
            field("image", np.uint8, (4, 5, 3), second, False),
            field("x", np.float32, (None,), ndarray(), True),
            field("price", Decimal, (), None, False),
        ]
        first.__dict__.update(_name="Old", _fields=OrderedDict((each.name, each) for each in fields))
        for each in fields:
            first.__dict__[each.name] = each
        return pickle.dumps(first, protocol)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_schemas_of_every_protocol_are_read_without_the_modules_they_name(protocol):
    result = pickled_schema(petastorm_pickle(protocol), "somewhere")
    assert list(result.fields) == ["id", "image", "x", "price"]
    assert result.fields["image"].codec == hub.petastorm.CompressedImageCodec("png")
    assert result.fields["x"] == hub.petastorm.UnischemaField(
        "x", np.float32, (None,), hub.petastorm.NdarrayCodec(), True
    )
    assert result.fields["price"].numpy_dtype is Decimal
    assert np.dtype(result.fields["id"].numpy_dtype) == np.int64


class _Evil:
    def __init__(self, function, *arguments):
        self._reduced = function, arguments

    def __reduce__(self):
        return self._reduced


@pytest.mark.parametrize(
    "evil",
    [
        _Evil(os.system, "touch /tmp/hubarray-was-here"),
        _Evil(eval, "1/0"),
        _Evil(exec, "raise SystemExit"),
        _Evil(getattr, "x", "upper"),
        _Evil(__import__, "os"),
    ],
    ids=["system", "eval", "exec", "getattr", "import"],
)
def test_a_malicious_pickle_is_refused_and_nothing_runs(evil, tmp_path):
    for protocol in (2, 4):
        with pytest.raises(SourceError, match="was refused"):
            pickled_schema(pickle.dumps(evil, protocol), "somewhere")
        with pytest.raises(SourceError, match="was refused"):
            pickled_schema(pickle.dumps({"fields": [evil]}, protocol), "somewhere")
    assert not os.path.exists("/tmp/hubarray-was-here")


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"\x80\x04N.", b"garbage", b"\x80\x02]q\x00(K\x01K\x02e."])
def test_what_is_no_schema_is_refused(data):
    with pytest.raises(SourceError, match="somewhere"):
        pickled_schema(data, "somewhere")


def test_a_cut_pickle_is_refused_wherever_it_is_cut():
    whole = petastorm_pickle(2)
    for at in range(0, len(whole) - 1, 7):
        with pytest.raises(SourceError):
            pickled_schema(whole[:at], "somewhere")


def every_codec():
    return hub.petastorm.Unischema(
        "Every",
        [
            hub.petastorm.UnischemaField("id", np.int32, (), hub.petastorm.ScalarCodec()),
            hub.petastorm.UnischemaField("text", np.str_, (), hub.petastorm.ScalarCodec(), True),
            hub.petastorm.UnischemaField("price", Decimal, (), hub.petastorm.ScalarCodec(), True),
            hub.petastorm.UnischemaField("flag", np.bool_),
            hub.petastorm.UnischemaField("list", np.float64, (None,)),
            hub.petastorm.UnischemaField("png", np.uint16, (4, 5), hub.petastorm.CompressedImageCodec("png")),
            hub.petastorm.UnischemaField("jpeg", np.uint8, (8, 8, 3), hub.petastorm.CompressedImageCodec("jpeg", 95)),
            hub.petastorm.UnischemaField("array", np.complex64, (None, 2), hub.petastorm.NdarrayCodec(), True),
            hub.petastorm.UnischemaField("packed", np.int16, (3, None), hub.petastorm.CompressedNdarrayCodec()),
        ],
    )


def every_row(i):
    rng = np.random.default_rng(i)
    return {
        "id": np.int32(i), "text": None if i % 3 == 0 else f"é{i}", "price": None if i % 4 == 0 else Decimal(i) / 4,
        "flag": np.bool_(i % 2), "list": rng.random(i % 4), "png": rng.integers(0, 1 << 16, (4, 5)).astype(np.uint16),
        "jpeg": np.full((8, 8, 3), i, np.uint8), "array": None if i % 5 == 0 else rng.random((i % 3, 2)).astype(np.complex64),
        "packed": rng.integers(0, 9, (3, i % 4)).astype(np.int16),
    }  # fmt: skip


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_every_codec_gives_back_what_was_written(tmp_path, pool):
    rows = [every_row(i) for i in range(20)]
    with hub.parquet_writer(tmp_path / "d", every_codec(), rows_per_row_group=6, rows_per_file=10) as writer:
        writer.write_rows(rows)
    assert len(list((tmp_path / "d").glob("*.parquet"))) == 2
    with hub.make_reader(
        str(tmp_path / "d"), shuffle_row_groups=False, reader_pool_type=pool, workers_count=2
    ) as reader:
        assert reader.schema == every_codec()
        result = {int(row.id): row._asdict() for row in reader}
    for row in rows:
        for name, value in row.items():
            got = result[int(row["id"])][name]
            if name == "jpeg":
                assert np.abs(got.astype(int) - value).max() <= 2
            elif isinstance(value, (Decimal, str)) or value is None:
                assert got == value
            else:
                assert same(got, value), name


def test_a_dataset_opens_by_its_summary_and_says_when_a_file_was_rewritten(tmp_path):
    write_petastorm(tmp_path / "d", [row_of(i) for i in range(30)], rows_per_file=5, rows_per_row_group=5)
    assert json.loads((tmp_path / "d" / "_hubarray_summary.json").read_text())["version"] == 1
    state = hub.make_reader(str(tmp_path / "d"), seed=0).state_dict()
    file = sorted((tmp_path / "d").glob("*.parquet"))[0]
    table = pq.read_table(file)
    pq.write_table(table.slice(0, 2), file)
    with hub.make_reader(str(tmp_path / "d"), seed=0) as reader:
        assert sum(1 for _ in reader) == 27
    with hub.make_reader(str(tmp_path / "d"), seed=0) as reader, pytest.raises(ConfigError, match="state is of"):
        reader.load_state_dict(state)


@pytest.mark.parametrize("cut", ["", "{", "[]", '{"version": 1}', '{"version": 1, "schemas": [], "files": [1]}'])
def test_a_damaged_summary_is_named(tmp_path, cut):
    write_petastorm(tmp_path / "d", [row_of(i) for i in range(5)])
    (tmp_path / "d" / "_hubarray_summary.json").write_text(cut)
    with pytest.raises(SourceError, match=r"_hubarray_summary.json: is damaged.*Delete it"):
        hub.make_reader(str(tmp_path / "d"))


def test_a_writer_that_fails_leaves_nothing_and_a_full_folder_is_refused(tmp_path):
    schema = hub.petastorm.Unischema("Rows", SCHEMA)
    with pytest.raises(ConfigError, match="'id'"), hub.parquet_writer(tmp_path / "d", schema) as writer:
        writer.write_rows([row_of(1), row_of(2) | {"id": None}])
    assert list((tmp_path / "d").glob("*")) == []
    with hub.parquet_writer(tmp_path / "d", schema) as writer:
        writer.write(row_of(1))
    with pytest.raises(AlreadyExistsError, match="has 1 Parquet file;"):
        hub.parquet_writer(tmp_path / "d", schema)
    with pytest.raises(ConfigError, match="no rows"), hub.parquet_writer(tmp_path / "e", schema):
        pass


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"x": np.zeros((2, 3))}, "float64"),
        ({"x": np.zeros((3, 3), np.float32)}, "shape"),
        ({"x": [1.0]}, "NumPy array"),
        ({"other": 1}, "'other'"),
        ({"key": None}, "'key'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_the_field(tmp_path, change, match):
    with hub.parquet_writer(tmp_path / "d", hub.petastorm.Unischema("Rows", SCHEMA)) as writer:
        writer.write(row_of(0))
        with pytest.raises(ConfigError, match=match):
            writer.write(row_of(1) | change)


def npy(descr, shape, data=b""):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "cell",
    [b"", b"\x93NUMPY", npy("<f4", (1 << 40,)), npy("|O", (1,), b"x" * 8), npy("<f4", (2,), b"\0" * 4), npy("<f8", (2,), b"\0" * 16),
     npy("<f4", (-1,)), npy("<f4", ((),)), b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"],
)  # fmt: skip
def test_a_hostile_cell_is_an_error_that_names_field_and_row_group(tmp_path, cell):
    schema = hub.petastorm.Unischema(
        "Rows", [hub.petastorm.UnischemaField("x", np.float32, (None,), hub.petastorm.NdarrayCodec())]
    )
    with hub.parquet_writer(tmp_path / "d", schema) as writer:
        writer.write({"x": np.zeros(1, np.float32)})
    (file,) = (tmp_path / "d").glob("*.parquet")
    pq.write_table(pa.table({"x": pa.array([npy("<f4", (2,), b"\0" * 8), cell, npy("<f4", (0,))], pa.binary())}), file)
    os.remove(tmp_path / "d" / "_hubarray_summary.json")
    with (
        hub.make_reader(str(tmp_path / "d")) as reader,
        pytest.raises(SourceError, match=r"row group 0.*'x'|'x'.*row group 0"),
    ):
        list(reader)
    with hub.make_reader(str(tmp_path / "d"), on_error="skip") as reader:
        assert len(list(reader)) == 2
        assert reader.diagnostics["rows_skipped"] == 1
