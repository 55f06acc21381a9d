"""Spark and readers' datasets: written by Spark, read into it, and DataFrames fed to training."""

import numpy as np
import pytest
import torch

import hubarray as hub
from hubarray.interop import spark, spark_readers
from tests.interop.test_spark import session  # noqa: F401 - a fixture
from tests.tables import rows as model

FIELDS = [
    hub.UnischemaField("id", np.int32, (), hub.ScalarCodec("IntegerType")),
    hub.UnischemaField("image", np.uint8, (4, None), hub.CompressedImageCodec("png")),
    hub.UnischemaField("note", np.str_, (), None, True),
]
SCHEMA = hub.Unischema("Frames", FIELDS)


def row_of(i):
    return {"id": np.int32(i), "image": np.full((4, 1 + i % 3), i, "u1"), "note": None if i % 2 else str(i)}


@pytest.fixture
def dataset(session, tmp_path):  # noqa: F811 - the fixture
    url = str(tmp_path / "data")
    with spark_readers.materialize_dataset(session, url, SCHEMA, row_group_size_mb=1):
        rows = [spark_readers.dict_to_spark_row(SCHEMA, row_of(i)) for i in range(30)]
        session.createDataFrame(rows, SCHEMA.as_spark_schema()).repartition(3).write.parquet(url)
    return url


def test_a_dataset_that_spark_wrote_is_read_with_its_schema(dataset):
    with hub.make_reader(dataset) as reader:
        assert reader.schema == SCHEMA
        seen = {int(row.id): row for row in reader}
    assert sorted(seen) == list(range(30))
    for i, row in seen.items():
        np.testing.assert_array_equal(row.image, row_of(i)["image"])
        assert row.note == row_of(i)["note"]


def test_times_are_the_same_to_spark_as_to_others(tmp_path, session):  # noqa: F811
    moment = np.datetime64("2020-01-02T03:04:05.000006")
    codec = hub.ScalarCodec("TimestampType")
    schema = hub.Unischema("Rows", [hub.UnischemaField("x", np.datetime64, (), codec)])
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    with hub.parquet_writer(tmp_path / "ours", schema) as writer:
        writer.write({"x": moment})
    (row,) = session.read.parquet(str(tmp_path / "ours")).selectExpr("unix_micros(x) AS x").collect()
    assert row.x == moment.astype(np.int64)
    with spark_readers.materialize_dataset(session, str(tmp_path / "spark"), schema):
        rows = [spark_readers.dict_to_spark_row(schema, {"x": moment})]
        session.createDataFrame(rows, schema.as_spark_schema()).write.parquet(str(tmp_path / "spark"))
    session.conf.set("spark.sql.session.timeZone", zone)
    with hub.make_reader(str(tmp_path / "spark")) as reader:
        assert [row.x for row in reader] == [moment]


def test_the_setting_of_spark_is_as_it_was(session, dataset):  # noqa: F811 - the fixture
    assert session.conf.get("parquet.block.size", None) is None


def test_a_dataset_is_an_rdd_of_named_tuples(session, dataset):  # noqa: F811 - the fixture
    rows = spark_readers.dataset_as_rdd(dataset, session, ["id", "ima.*"])
    assert sorted(rows.map(lambda row: int(row.id)).collect()) == list(range(30))
    first = rows.filter(lambda row: row.id == 7).first()
    np.testing.assert_array_equal(first.image, row_of(7)["image"])
    assert first._fields == ("id", "image")


def test_a_row_that_does_not_fit_is_refused_before_spark_sees_it():
    with pytest.raises(hub.ConfigError, match="image"):
        spark_readers.dict_to_spark_row(SCHEMA, row_of(1) | {"image": np.zeros((5, 1), "u1")})


def test_a_dataframe_is_fed_to_pytorch_and_tensorflow(session, tmp_path):  # noqa: F811 - the fixture
    frame = session.range(100).selectExpr("id", "cast(id as double) / 2 as half", "array(cast(id as double)) as list")
    converter = spark_readers.make_spark_converter(frame, tmp_path / "cache")
    assert len(converter) == 100
    with converter.make_torch_dataloader(batch_size=20, num_epochs=1) as loader:
        batches = list(loader)
    assert [len(batch["id"]) for batch in batches] == [20] * 5
    assert batches[0]["half"].dtype == torch.float32
    assert sorted(int(one) for batch in batches for one in batch["id"]) == list(range(100))
    with converter.make_tf_dataset(batch_size=25, num_epochs=1) as dataset:
        seen = [batch.half.numpy() for batch in dataset]
    assert sorted(np.concatenate(seen).tolist()) == [i / 2 for i in range(100)]
    again = session.range(100).selectExpr("id", "cast(id as double) / 2 as half", "array(cast(id as double)) as list")
    assert spark_readers.make_spark_converter(again, tmp_path / "cache") is converter
    assert all(url.startswith(converter.cache_dir_url) for url in converter.file_urls)
    converter.delete()
    with pytest.raises(hub.NotFoundError), converter.make_torch_dataloader():
        pass


def test_a_table_is_a_dataframe(session, s3_root):  # noqa: F811 - the fixture
    rows = {key: model.drive(key, 15) for key in ("a", "b")}
    model.write("me/drives:v1", rows, s3_root)
    index = hub.read_index("me/drives:v1", root=s3_root)
    frame = spark.to_dataframe(index[index["frame"] >= 10], session, ["log_id", "frame", "pose", "lidar"])
    found = {(row.log_id, row.frame): row for row in frame.collect()}
    assert sorted(found) == [(key, i) for key in ("a", "b") for i in range(10, 15)]
    for (key, i), row in found.items():
        np.testing.assert_array_equal(row.pose, rows[key][i]["pose"])
        assert row.lidar == rows[key][i]["lidar"].tolist()
    assert spark.to_dataframe("me/drives:v1", session, root=s3_root).count() == 30
    hub.array(4, "me/array:v1", root=s3_root)
    with pytest.raises(hub.ConfigError, match="is no table"):
        spark.to_dataframe("me/array:v1", session, root=s3_root)
