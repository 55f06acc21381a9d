"""Types of Spark that codecs are given say the unit of times and the digits of decimals, in files and in schemas."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from tests.optional import Optional

types = Optional("pyspark.sql.types")

MOMENT = np.datetime64("2020-01-02T03:04:05.000006")


def field(kind, spark_type, *, nullable=False):
    spark_type = spark_type() if callable(spark_type) else spark_type
    return hub.petastorm.UnischemaField("x", kind, (), hub.petastorm.ScalarCodec(spark_type), nullable)


def written(folder, one, *values):
    with hub.parquet_writer(folder, hub.petastorm.Unischema("Rows", [one])) as writer:
        writer.write_rows({"x": value} for value in values)
    return pq.read_table(folder)["x"]


def read(folder):
    with hub.make_reader(folder, shuffle_row_groups=False) as reader:
        return [row.x for row in reader]


TIMES = [
    (lambda: types.TimestampType(), np.datetime64, pa.timestamp("us", "UTC"), "M8[us]"),
    (lambda: types.TimestampNTZType(), np.datetime64, pa.timestamp("us"), "M8[us]"),
    (lambda: types.DateType(), np.datetime64, pa.date32(), "M8[D]"),
    ("TimestampType", np.dtype("M8[ns]"), pa.timestamp("us", "UTC"), "M8[ns]"),
    ("DateType", np.dtype("M8[s]"), pa.date32(), "M8[s]"),
    (None, np.dtype("M8[ms]"), pa.timestamp("ms"), "M8[ms]"),
]


@pytest.mark.parametrize(("spark_type", "kind", "stored", "dtype"), TIMES)
@pytest.mark.parametrize("nullable", [False, True])
def test_times_are_stored_in_the_unit_of_their_type(tmp_path, spark_type, kind, stored, dtype, nullable):
    moment = MOMENT.astype("M8[D]") if pa.types.is_date(stored) else MOMENT.astype("M8[ms]")
    values = [moment, np.datetime64("1960-05-06"), *([None, np.datetime64("NaT")] if nullable else [])]
    column = written(tmp_path, field(kind, spark_type, nullable=nullable), *values)
    assert column.type == stored
    result = read(tmp_path)
    assert [item for item in result if item is not None] == values[:2]
    assert {item.dtype for item in result[:2]} == {np.dtype(dtype)}
    assert result[2:] == [None, None][: len(values) - 2]
    with hub.make_batch_reader(tmp_path, shuffle_row_groups=False) as reader:
        (batch,) = reader
        assert batch.x.dtype == dtype
        assert np.isnat(batch.x).tolist() == [False, False, True, True][: len(values)]


@pytest.mark.parametrize(
    ("kind", "spark_type", "value"),
    [
        (np.datetime64, lambda: types.TimestampType(), "soon"),
        (np.datetime64, lambda: types.DateType(), 7.5),
        (Decimal, lambda: types.DecimalType(4, 2), Decimal("100.00")),
        (Decimal, "DecimalType(4,2)", Decimal("1.234")),
        (Decimal, lambda: types.DecimalType(4, 2), Decimal("NaN")),
        (Decimal, None, Decimal(10) ** 30),
    ],
)
def test_a_value_that_would_lose_is_refused_and_the_field_is_named(tmp_path, kind, spark_type, value):
    with pytest.raises(hub.errors.ConfigError, match=r"field 'x'"):
        written(tmp_path / "data", field(kind, spark_type), value)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("spark_type", "digits"),
    [(lambda: types.DecimalType(38, 2), (38, 2)), ("DecimalType(10, 0)", (10, 0)), (None, (38, 18))],
)
def test_decimals_have_the_digits_of_their_type_in_files_schemas_and_spark(tmp_path, spark_type, digits):
    value = Decimal("12345678")
    item = field(Decimal, spark_type)
    assert written(tmp_path, item, value).type == pa.decimal128(*digits)
    assert read(tmp_path) == [value]
    schema = hub.petastorm.Unischema("Rows", [item])
    assert schema.as_spark_schema()["x"].dataType == types.DecimalType(*digits)
    again = hub.petastorm.Unischema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again.as_spark_schema() == schema.as_spark_schema()


def test_a_time_without_a_unit_asks_for_one(tmp_path):
    with pytest.raises(hub.errors.ConfigError, match=r"field 'x': times need a unit.*TimestampType"):
        hub.parquet_writer(
            tmp_path, hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("x", np.datetime64)])
        )


@pytest.mark.parametrize("name", ["DecimalType(39,2)", "DecimalType(4,5)", "DecimalType(4,-1)", "DecimalType(0,0)"])
def test_decimals_that_no_file_holds_are_refused(name):
    with pytest.raises(hub.errors.ConfigError, match="38 digits"):
        hub.petastorm.ScalarCodec(name)


def test_folders_keep_the_moment_of_a_time(tmp_path):
    fields = [hub.petastorm.UnischemaField("id", np.int64), field(np.datetime64, types.TimestampType())]
    with hub.parquet_writer(tmp_path, hub.petastorm.Unischema("Rows", fields), partition_by=["x"]) as writer:
        writer.write({"id": 1, "x": MOMENT})
    assert read(tmp_path) == [MOMENT]


@pytest.mark.parametrize(("spark_type", "unit"), [("TimestampType", "us"), ("DateType", "ms")])
def test_times_without_a_unit_are_imported_with_that_of_their_type(tmp_path, root, spark_type, unit):
    written(tmp_path, field(np.datetime64, spark_type), np.datetime64("2020-01-02"))
    table = hub.import_table(tmp_path, "lab/t:v1", root=root)
    assert table.schema["x"].dtype == f"M8[{unit}]"
    assert list(table) == [np.datetime64("2020-01-02")]


@pytest.mark.parametrize("names", [("\ud800", "x"), ("Rows", "\ud800"), (7, "x"), ("Rows", None)])
def test_names_that_are_no_text_are_refused(names):
    with pytest.raises(hub.errors.ConfigError, match=r"is not a field with a name|name is text"):
        hub.petastorm.Unischema(names[0], [hub.petastorm.UnischemaField(names[1], np.int64)])
