"""Spark and readers' datasets: written by Spark, read into it, and DataFrames fed to training."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.interop.spark import readers as spark_readers
from hubarray.interop.spark import tables as spark
from tests.optional import Optional
from tests.tables import rows as model

torch = Optional("torch")

FIELDS = [
    hub.petastorm.UnischemaField("id", np.int32, (), hub.petastorm.ScalarCodec("IntegerType")),
    hub.petastorm.UnischemaField("image", np.uint8, (4, None), hub.petastorm.CompressedImageCodec("png")),
    hub.petastorm.UnischemaField("note", np.str_, (), None, True),
]
SCHEMA = hub.petastorm.Unischema("Frames", FIELDS)


def row_of(i):
    return {"id": np.int32(i), "image": np.full((4, 1 + i % 3), i, "u1"), "note": None if i % 2 else str(i)}


@pytest.fixture
def dataset(spark_session, tmp_path):
    url = str(tmp_path / "data")
    with spark_readers.materialize_dataset(spark_session, url, SCHEMA, row_group_size_mb=1):
        rows = [spark_readers.dict_to_spark_row(SCHEMA, row_of(i)) for i in range(30)]
        spark_session.createDataFrame(rows, SCHEMA.as_spark_schema()).repartition(3).write.parquet(url)
    return url


def test_a_dataset_that_spark_wrote_is_read_with_its_schema(dataset):
    with hub.make_reader(dataset) as reader:
        assert reader.schema == SCHEMA
        seen = {int(row.id): row for row in reader}
    assert sorted(seen) == list(range(30))
    for i, row in seen.items():
        np.testing.assert_array_equal(row.image, row_of(i)["image"])
        assert row.note == row_of(i)["note"]


def test_times_are_the_same_to_spark_as_to_others(tmp_path, spark_session):
    moment = np.datetime64("2020-01-02T03:04:05.000006")
    codec = hub.petastorm.ScalarCodec("TimestampType")
    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("x", np.datetime64, (), codec)])
    zone = spark_session.conf.get("spark.sql.session.timeZone")
    spark_session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    with hub.parquet_writer(tmp_path / "ours", schema) as writer:
        writer.write({"x": moment})
    (row,) = spark_session.read.parquet(str(tmp_path / "ours")).selectExpr("unix_micros(x) AS x").collect()
    assert row.x == moment.astype(np.int64)
    with spark_readers.materialize_dataset(spark_session, str(tmp_path / "spark"), schema):
        rows = [spark_readers.dict_to_spark_row(schema, {"x": moment})]
        spark_session.createDataFrame(rows, schema.as_spark_schema()).write.parquet(str(tmp_path / "spark"))
    spark_session.conf.set("spark.sql.session.timeZone", zone)
    with hub.make_reader(str(tmp_path / "spark")) as reader:
        assert [row.x for row in reader] == [moment]


def test_the_setting_of_spark_is_as_it_was(spark_session, dataset):
    assert spark_session.conf.get("parquet.block.size", None) is None


def test_a_dataset_is_an_rdd_of_named_tuples(spark_session, dataset):
    rows = spark_readers.dataset_as_rdd(dataset, spark_session, ["id", "ima.*"])
    assert sorted(rows.map(lambda row: int(row.id)).collect()) == list(range(30))
    first = rows.filter(lambda row: row.id == 7).first()
    np.testing.assert_array_equal(first.image, row_of(7)["image"])
    assert first._fields == ("id", "image")


def test_a_row_that_does_not_fit_is_refused_before_spark_sees_it():
    with pytest.raises(hub.errors.ConfigError, match="image"):
        spark_readers.dict_to_spark_row(SCHEMA, row_of(1) | {"image": np.zeros((5, 1), "u1")})


def test_a_dataframe_is_fed_to_pytorch_and_tensorflow(spark_session, tmp_path):
    frame = spark_session.range(100).selectExpr(
        "id", "cast(id as double) / 2 as half", "array(cast(id as double)) as list"
    )
    converter = spark_readers.make_spark_converter(frame, tmp_path / "cache")
    assert len(converter) == 100
    with converter.make_torch_dataloader(batch_size=20, num_epochs=1) as loader:
        batches = list(loader)
    assert [len(batch["id"]) for batch in batches] == [20] * 5
    assert batches[0]["half"].dtype == torch.float32
    assert sorted(int(item) for batch in batches for item in batch["id"]) == list(range(100))
    with converter.make_tf_dataset(batch_size=25, num_epochs=1) as dataset:
        seen = [batch.half.numpy() for batch in dataset]
    assert sorted(np.concatenate(seen).tolist()) == [i / 2 for i in range(100)]
    again = spark_session.range(100).selectExpr(
        "id", "cast(id as double) / 2 as half", "array(cast(id as double)) as list"
    )
    assert spark_readers.make_spark_converter(again, tmp_path / "cache") is converter
    assert all(url.startswith(converter.cache_dir_url) for url in converter.file_urls)
    converter.delete()
    with pytest.raises(hub.errors.NotFoundError), converter.make_torch_dataloader():
        pass


def test_a_table_is_a_dataframe(spark_session, s3_root):
    rows = {key: model.drive(key, 15) for key in ("a", "b")}
    model.write("me/drives:v1", rows, s3_root)
    index = hub.read_index("me/drives:v1", root=s3_root)
    frame = spark.to_dataframe(index[index["frame"] >= 10], spark_session, ["log_id", "frame", "pose", "lidar"])
    result = {(row.log_id, row.frame): row for row in frame.collect()}
    assert sorted(result) == [(key, i) for key in ("a", "b") for i in range(10, 15)]
    for (key, i), row in result.items():
        np.testing.assert_array_equal(row.pose, rows[key][i]["pose"])
        assert row.lidar == rows[key][i]["lidar"].tolist()
    assert spark.to_dataframe("me/drives:v1", spark_session, root=s3_root).count() == 30
    hub.array(4, "me/array:v1", root=s3_root)
    with pytest.raises(hub.errors.ConfigError, match="is not a table"):
        spark.to_dataframe("me/array:v1", spark_session, root=s3_root)


DIGITS = {"train": 1000, "test": 200}


def made_digits(count, seed):
    """Images of a bright bar whose place says the digit, with noise, as pairs of an image and a digit."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        digit = int(rng.integers(10))
        image = rng.integers(0, 40, (28, 28))
        image[4:24, 2 + 2 * digit : 6 + 2 * digit] += 200
        yield image.astype(np.uint8), digit


@pytest.fixture(scope="module")
def digits_schema():
    from pyspark.sql.types import IntegerType

    from hubarray.petastorm.codecs import NdarrayCodec, ScalarCodec
    from hubarray.petastorm.unischema import Unischema, UnischemaField

    return Unischema(
        "MnistSchema",
        [
            UnischemaField("idx", np.int_, (), ScalarCodec(IntegerType()), False),
            UnischemaField("digit", np.int_, (), ScalarCodec(IntegerType()), False),
            UnischemaField("image", np.uint8, (28, 28), NdarrayCodec(), False),
        ],
    )


@pytest.fixture(scope="module")
def digits_url(digits_schema, spark_session, tmp_path_factory):
    from hubarray.petastorm.etl.dataset_metadata import materialize_dataset
    from hubarray.petastorm.unischema import dict_to_spark_row

    url = f"file://{tmp_path_factory.mktemp('mnist')}"
    for seed, (part, count) in enumerate(DIGITS.items()):
        with materialize_dataset(spark_session, f"{url}/{part}", digits_schema, 128):
            rows = [
                {"idx": idx, "digit": digit, "image": image.reshape(28, 28)}
                for idx, (image, digit) in enumerate(made_digits(count, seed))
            ]
            frame = spark_session.createDataFrame(
                [dict_to_spark_row(digits_schema, row) for row in rows], digits_schema.as_spark_schema()
            )
            frame.coalesce(1).write.mode("overwrite").option("compression", "none").parquet(f"{url}/{part}")
    return url


def as_tensor(row):
    """The transform: an image of bytes as a tensor of floats, with an axis of channels, about zero."""
    import torch

    image = torch.from_numpy(row["image"].reshape(28, 28, 1).transpose(2, 0, 1).copy()).to(torch.float32) / 255
    return {"image": (image - 0.1307) / 0.3081, "digit": row["digit"]}


def network():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 10, kernel_size=5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, kernel_size=5), nn.Dropout2d(),
        nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, 10),
        nn.LogSoftmax(dim=1),
    )  # fmt: skip


def test_the_program_of_petastorms_mnist_example_learns_with_its_imports_changed(digits_url):
    """The schema, the writing by Spark, the transform and the loops are as in that example, without torchvision."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    from hubarray.petastorm import TransformSpec, make_reader
    from hubarray.petastorm.pytorch import DataLoader

    torch.manual_seed(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    transform = TransformSpec(as_tensor, removed_fields=["idx"])
    options = {"num_epochs": 1, "transform_spec": transform}
    correct = seen = 0
    for _ in range(4):
        model.train()
        trained = 0
        with DataLoader(
            make_reader(f"{digits_url}/train", seed=1, shuffle_rows=True, **options), batch_size=64
        ) as loader:
            for row in loader:
                data, target = row["image"], row["digit"]
                assert data.shape[1:] == (1, 28, 28)
                assert data.dtype == torch.float32
                optimizer.zero_grad()
                loss = F.nll_loss(model(data), target)
                loss.backward()
                optimizer.step()
                trained += len(data)
        assert trained == DIGITS["train"]
        model.eval()
        correct = seen = 0
        with DataLoader(make_reader(f"{digits_url}/test", **options), batch_size=1000) as loader, torch.no_grad():
            for row in loader:
                data, target = row["image"], row["digit"]
                result = model(data).max(1, keepdim=True)[1]
                correct += result.eq(target.view_as(result)).sum().item()
                seen += data.shape[0]
        assert seen == DIGITS["test"]
    assert correct > 0.8 * seen
