"""TensorFlow's datasets over readers."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from tests.optional import Optional

tf = Optional("tensorflow")
tensorflow_readers = Optional("hubarray.interop.tensorflow.readers")


@pytest.fixture
def folder(tmp_path):
    fields = [
        hub.petastorm.UnischemaField("id", np.int64),
        hub.petastorm.UnischemaField("image", np.uint8, (4, None), hub.petastorm.NdarrayCodec()),
        hub.petastorm.UnischemaField("name", np.str_),
    ]
    with hub.parquet_writer(tmp_path / "data", hub.petastorm.Unischema("Rows", fields), rows_per_row_group=7) as writer:
        for i in range(20):
            writer.write({"id": i, "image": np.full((4, i), i, "u1"), "name": str(i)})
    return tmp_path / "data"


def test_rows_are_named_tuples_of_tensors_of_the_schemas_shapes(folder):
    with hub.make_reader(folder, seed=1) as reader:
        dataset = tensorflow_readers.make_petastorm_dataset(reader)
        assert dataset.element_spec.image == tf.TensorSpec((4, None), tf.uint8)
        for _ in range(2):
            seen = [int(row.id) for row in dataset if row.image.shape == (4, int(row.id)) and int(row.name) == row.id]
            assert sorted(seen) == list(range(20))


def test_batches_have_a_first_axis(tmp_path):
    when = [datetime.datetime(2020, 1, 1, i) for i in range(5)]
    table = pa.table({"x": np.arange(5.0), "when": pa.array(when, pa.timestamp("us")), "d": [Decimal("1.50")] * 5})
    pq.write_table(table, tmp_path / "a.parquet")
    with hub.make_batch_reader(tmp_path / "a.parquet") as reader:
        (batch,) = tensorflow_readers.make_petastorm_dataset(reader)
    assert batch.x.numpy().tolist() == [0, 1, 2, 3, 4]
    assert batch.when.numpy()[1] - batch.when.numpy()[0] == 3600 * 10**9
    assert batch.d.numpy()[0] == b"1.50"


def test_windows_are_dictionaries_by_offset(folder):
    ngram = hub.NGram({0: ["id"], 1: ["id", "name"]}, delta_threshold=5, timestamp_field="id")
    with hub.make_reader(folder, ngram, shuffle_row_groups=False) as reader:
        seen = [(int(row[0].id), int(row[1].id)) for row in tensorflow_readers.make_petastorm_dataset(reader)]
    assert seen[:3] == [(0, 1), (1, 2), (2, 3)]


def test_a_null_is_an_error_that_names_the_field(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "note": ["a", None]}), tmp_path / "a.parquet")
    with hub.make_reader(tmp_path / "a.parquet") as reader, pytest.raises(Exception, match="'note': is null"):
        list(tensorflow_readers.make_petastorm_dataset(reader))


def test_tensors_of_a_graph_give_a_row_at_each_run(folder):
    with tf.Graph().as_default(), hub.make_reader(folder, ["id", "image"], shuffle_row_groups=False) as reader:
        row = tensorflow_readers.tf_tensors(reader)
        assert row.image.shape.as_list() == [4, None]
        with tf.compat.v1.Session() as session:
            assert [int(session.run(row.id)) for _ in range(3)] == [0, 1, 2]
    with hub.make_reader(folder) as reader, pytest.raises(hub.errors.ConfigError, match="in eager mode write"):
        tensorflow_readers.tf_tensors(reader)


def test_nulls_of_integers_are_refused_in_rows_and_in_batches(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1, None, 2**60 + 1], pa.int64())}), tmp_path / "n.parquet")
    for make in (hub.make_reader, hub.make_batch_reader):
        with pytest.raises(Exception, match="'a': is null"):
            list(tensorflow_readers.make_petastorm_dataset(make(tmp_path)))


def test_the_specs_of_windows_are_those_of_their_fields(folder):
    ngram = hub.NGram({0: ["id"], 1: ["id", "image"]}, delta_threshold=5, timestamp_field="id")
    with hub.make_reader(folder, ngram) as reader:
        spec = tensorflow_readers.make_petastorm_dataset(reader).element_spec
    assert spec[0].id == tf.TensorSpec((), tf.int64)
    assert spec[1].image == tf.TensorSpec((4, None), tf.uint8)
    assert set(spec[0]._fields) == {"id"}


def test_a_graph_gets_windows_and_batches(folder):
    ngram = hub.NGram({0: ["id"], 1: ["id"]}, delta_threshold=5, timestamp_field="id")
    with tf.Graph().as_default(), hub.make_reader(folder, ngram, shuffle_row_groups=False) as reader:
        row = tensorflow_readers.tf_tensors(reader)
        with tf.compat.v1.Session() as session:
            assert [tuple(map(int, session.run((row[0].id, row[1].id)))) for _ in range(2)] == [(0, 1), (1, 2)]
    with tf.Graph().as_default(), hub.make_batch_reader(folder, ["id"], shuffle_row_groups=False) as reader:
        batch = tensorflow_readers.tf_tensors(reader)
        with tf.compat.v1.Session() as session:
            assert session.run(batch.id).tolist() == list(range(7))
