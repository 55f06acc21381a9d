"""Spark writes tables: the rows of a DataFrame, on executors that fail and are run again."""

import os

import numpy as np
import pytest

import hubarray as hub
from hubarray.interop.spark import tables as spark
from hubarray.tables.format.part import TablePart
from tests.tables import rows as model
from tests.tables.write.test_writer import hashes

SCHEMA = hub.Schema(
    {
        "time": hub.Field("i8", index=True),
        "camera.image": hub.Field("u1", (None, None, 3), codec="png"),
        "lidar": hub.Field("f4", (None,)),
        "note": hub.Field(str, nullable=True),
    }
)


def drives(images=True):
    rng = np.random.default_rng(7)
    png = hub.Field("u1", (None, None, 3), codec="png")
    assert png.is_image
    result = {}
    for key, count in (("monday", 12), ("tuesday", 1), ("friday", 7)):
        result[key] = [
            {
                "time": np.int64(10 * i),
                "camera.image": rng.integers(0, 256, (3, 4, 3), "u1"),
                "lidar": rng.random(i % 4, "f4"),
                "note": None if i % 2 else f"{key} {i}",
            }
            for i in range(count)
        ]
    return result


def as_frame(spark_session, found):
    """The rows, shuffled, with images as nested lists, as Spark has no tensors."""
    kind = "drive string, time long, `camera.image` array<array<array<short>>>, lidar array<float>, note string"
    values = [
        (key, int(row["time"]), row["camera.image"].tolist(), row["lidar"].tolist(), row["note"])
        for key, rows in found.items()
        for row in rows
    ]
    return spark_session.createDataFrame([values[i] for i in np.random.default_rng(1).permutation(len(values))], kind)


def test_a_dataframe_becomes_the_table_that_one_process_writes(spark_session, s3_root):
    result = drives()
    with hub.table_writer("me/spark:v1", SCHEMA, root=s3_root) as w:
        spark.write_partitions(w, as_frame(spark_session, result), partition="drive", order_by="time")
    table = hub.load("me/spark:v1", root=s3_root)
    expected = model.write("me/local:v1", result, s3_root, SCHEMA)
    model.assert_rows(list(table), [row for key in sorted(result) for row in result[key]])
    assert hashes(table) == hashes(expected)
    assert not hub.diff("me/spark:v1", "me/local:v1", root=s3_root)


def test_failed_tasks_are_run_again_and_leave_no_row_twice(spark_session, root, tmp_path, monkeypatch):
    result = drives()
    frame = as_frame(spark_session, result)
    flag = os.fspath(tmp_path / "failed-once")
    whole = spark._Write.__call__

    def failing(self, batches, flag=flag, whole=whole):
        yield from whole(self, batches)
        if not os.path.exists(flag):
            open(flag, "w").close()
            # After the parts were uploaded, and before the driver hears of them.
            os._exit(1)

    class Failing(spark._Write):
        __call__ = failing

    monkeypatch.setattr(spark, "_Write", Failing)
    with hub.table_writer("me/spark:v1", SCHEMA, root=root) as w:
        spark.write_partitions(w, frame, partition="drive", order_by="time")
    assert os.path.exists(flag)
    model.assert_rows(list(hub.load("me/spark:v1", root=root)), [row for key in sorted(result) for row in result[key]])


def test_what_executors_finished_outlives_the_driver(spark_session, root):
    result = drives()
    frame = as_frame(spark_session, result)
    first = hub.table_writer("me/spark:v1", SCHEMA, root=root, resume=True)
    spark.write_partitions(first, frame.where("drive != 'friday'"), partition="drive", order_by="time")
    # That driver dies: it neither publishes nor aborts.
    with hub.table_writer("me/spark:v1", SCHEMA, root=root, resume=True) as w:
        assert w.keys == ["monday", "tuesday"]
        spark.write_partitions(w, frame, partition="drive", order_by="time")
    model.assert_rows(list(hub.load("me/spark:v1", root=root)), [row for key in sorted(result) for row in result[key]])
    assert [name for name in hub.list(root=root) if "writing" in name] == []


def test_a_frame_that_does_not_fit_is_refused_with_partition_row_and_field(spark_session, root):
    frame = as_frame(spark_session, drives())
    with hub.table_writer("me/spark:v1", SCHEMA, root=root) as w:
        with pytest.raises(hub.errors.ConfigError, match="no column 'lidar'"):
            spark.write_partitions(w, frame.drop("lidar"), partition="drive")
        with pytest.raises(hub.errors.ConfigError, match="a column 'more', which the schema does not know"):
            spark.write_partitions(w, frame.selectExpr("*", "1 as more"), partition="drive")
        with pytest.raises(hub.errors.ConfigError, match="nulls"):
            spark.write_partitions(w, frame.selectExpr("*").replace("friday", None, "drive"), partition="drive")
        bad = frame.selectExpr("drive", "1.5 * time + 0.25 as time", "`camera.image`", "lidar", "note")
        with pytest.raises(hub.errors.ConfigError, match=r"partition '.*time"):
            spark.write_partitions(w, bad, partition="drive", order_by="time")
    assert len(hub.load("me/spark:v1", root=root)) == 0


def test_parts_are_bytes_of_their_own_between_executors_and_driver(root):
    with hub.table_writer("me/spark:v1", SCHEMA, root=root) as w:
        with w.worker().partition("monday") as p:
            p.extend(drives()["monday"])
        assert bytes(TablePart.from_bytes(bytes(p.part))) == bytes(p.part)
        w.add(bytes(p.part))
