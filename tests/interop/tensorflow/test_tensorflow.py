"""tf.data datasets over arrays."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError
from tests.interop import ROWS
from tests.optional import Optional
from tests.tables import rows as model

tf = Optional("tensorflow")


def labels_of(dataset):
    seen = []
    for images, labels in dataset.as_numpy_iterator():
        np.testing.assert_array_equal(images[..., 0, 0], labels)
        seen += np.atleast_1d(labels).tolist()
    return seen


def test_the_specification_and_the_count_are_exact(pair):
    images, labels = pair
    single = images.to_tensorflow()
    assert single.element_spec == tf.TensorSpec((8, 8), tf.float32)
    assert len(single) == ROWS
    both = images.to_tensorflow(labels, batch_size=32, drop_last=True)
    assert both.element_spec == (tf.TensorSpec((32, 8, 8), tf.float32), tf.TensorSpec((32,), tf.int64))
    assert len(both) == ROWS // 32 == sum(1 for _ in both)
    assert images.to_tensorflow(batch_size=32).element_spec.shape.as_list() == [None, 8, 8]


def test_every_sample_comes_once_in_order_or_shuffled_anew_in_each_pass(pair):
    images, labels = pair
    assert labels_of(images.to_tensorflow(labels)) == list(range(ROWS))
    assert labels_of(images.to_tensorflow(labels, batch_size=32)) == list(range(ROWS))
    shuffled = images.to_tensorflow(labels, batch_size=32, shuffle=True, seed=4)
    first, second = labels_of(shuffled), labels_of(shuffled)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    assert labels_of(images.to_tensorflow(labels, batch_size=32, shuffle=True, seed=4)) == first


def test_tf_datas_own_steps_work_on_it(pair):
    images, labels = pair
    dataset = images.to_tensorflow(labels).shuffle(100).batch(10).map(lambda x, y: (x, y)).prefetch(2).repeat(2)
    assert sorted(labels_of(dataset)) == sorted([*range(ROWS), *range(ROWS)])


def test_bad_input_is_refused_with_the_names(pair, make_root):
    images, _ = pair
    root = make_root("local")
    with pytest.raises(ConfigError, match=r"t/images:v0 has 300, t/short:v0 has 10"):
        images.to_tensorflow(hub.array(10, "t/short:v0", "i8", root=root))
    with pytest.raises(ConfigError, match="no tensors of dtype"):
        hub.array(4, "t/when:v0", "M8[s]", root=root).to_tensorflow()
    with pytest.raises(ConfigError, match="no axes"):
        hub.array((), "t/scalar:v0", root=root).to_tensorflow()


def test_rows_of_a_table_are_dictionaries_of_columns_and_ragged_ones_ragged_tensors(root):
    values = [{"n": np.int64(i), "points": np.full((i, 2), i, "f4"), "name": str(i)} for i in range(6)]
    schema = hub.Schema({"n": hub.Field("i8"), "points": hub.Field("f4", (None, 2)), "name": hub.Field(str)})
    model.write("me/points:v1", {0: values}, root, schema)
    table = hub.load("me/points:v1", root=root)
    single = table.to_tensorflow()
    assert single.element_spec["points"] == tf.TensorSpec((None, 2), tf.float32)
    assert [row["points"].shape[0] for row in single] == list(range(6))
    for batch in table.to_tensorflow(batch_size=2, shuffle=True, seed=1):
        assert batch["points"].row_lengths().numpy().tolist() == batch["n"].numpy().tolist()
        assert [int(name) for name in batch["name"].numpy()] == batch["n"].numpy().tolist()
