"""Petastorm's names, under its module layout."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub

NAMES = {
    "": ["make_reader", "make_batch_reader", "TransformSpec"],
    "codecs": ["ScalarCodec", "NdarrayCodec", "CompressedNdarrayCodec", "CompressedImageCodec"],
    "unischema": ["Unischema", "UnischemaField", "dict_to_spark_row", "insert_explicit_nulls", "match_unischema_fields"],
    "errors": ["NoDataAvailableError"],
    "ngram": ["NGram"],
    "predicates": ["PredicateBase", "in_set", "in_intersection", "in_lambda", "in_negate", "in_reduce",
                   "in_pseudorandom_split"],
    "selectors": ["SingleIndexSelector", "IntersectIndexSelector", "UnionIndexSelector"],
    "transform": ["TransformSpec", "edit_field", "transform_schema"],
    "reader": ["Reader", "make_reader"],
    "weighted_sampling_reader": ["WeightedSamplingReader"],
    "pytorch": ["DataLoader", "BatchedDataLoader", "InMemBatchedDataLoader"],
    "tf_utils": ["tf_tensors", "make_petastorm_dataset"],
    "spark": ["SparkDatasetConverter", "make_spark_converter"],
    "spark_utils": ["dataset_as_rdd"],
    "etl.dataset_metadata": ["get_schema_from_dataset_url", "materialize_dataset"],
    "etl.rowgroup_indexers": ["SingleFieldIndexer", "FieldNotNullIndexer"],
    "etl.rowgroup_indexing": ["build_rowgroup_index"],
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_where_petastorm_has_it(module):
    result = importlib.import_module(".".join(filter(None, ["hubarray.petastorm", module])))
    for name in NAMES[module]:
        assert callable(getattr(result, name))


def test_a_program_of_petastorms_runs_with_its_imports_changed(tmp_path):
    from hubarray.petastorm import make_reader
    from hubarray.petastorm.etl.rowgroup_indexers import SingleFieldIndexer
    from hubarray.petastorm.etl.rowgroup_indexing import build_rowgroup_index
    from hubarray.petastorm.predicates import in_lambda
    from hubarray.petastorm.pytorch import DataLoader
    from hubarray.petastorm.selectors import SingleIndexSelector

    pq.write_table(pa.table({"id": range(40), "x": np.arange(40.0)}), tmp_path / "a.parquet", row_group_size=10)
    build_rowgroup_index(str(tmp_path), None, [SingleFieldIndexer("ids", "id")])
    reader = make_reader(
        f"file://{tmp_path}", schema_fields=["id"], reader_pool_type="dummy", num_epochs=1,
        rowgroup_selector=SingleIndexSelector("ids", [3, 33]), predicate=in_lambda(["id"], lambda id: id % 2 == 0),
    )  # fmt: skip
    with DataLoader(reader, batch_size=4) as loader:
        ids = [int(item) for batch in loader for item in batch["id"]]
    assert sorted(ids) == [*range(0, 10, 2), *range(30, 40, 2)]


def test_the_plain_names_import_neither_torch_nor_spark():
    program = (
        "import sys, hubarray.petastorm, hubarray.petastorm.predicates as p, "
        "hubarray.petastorm.unischema; "
        "sys.exit(bool({'torch', 'tensorflow', 'pyspark'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
    assert issubclass(hub.errors.NoDataAvailableError, ValueError)


def test_options_of_petastorm_are_taken_in_its_order(tmp_path):
    from hubarray.petastorm import make_batch_reader, make_reader
    from hubarray.petastorm.etl.dataset_metadata import PetastormMetadataError, get_schema_from_dataset_url
    from hubarray.petastorm.unischema import insert_explicit_nulls

    pq.write_table(pa.table({"id": range(40), "x": np.arange(40.0)}), tmp_path / "a.parquet", row_group_size=10)
    url = f"file://{tmp_path}"
    assert list(get_schema_from_dataset_url(url, hdfs_driver="libhdfs").fields) == ["id", "x"]
    row = {"id": 1}
    insert_explicit_nulls(get_schema_from_dataset_url(url), row)
    assert row == {"id": 1, "x": None}
    rows = make_reader(
        url, ["id"], "dummy", 2, True, 4, None, False, False, hdfs_driver="libhdfs3", cache_row_size_estimate=1,
        zmq_copy_buffers=True, convert_early_to_numpy=True,
    )  # fmt: skip
    assert [int(row.id) for row in rows] == list(range(40))
    batches = make_batch_reader(url, ["id"], "dummy", 2, 4, None, False, False)
    assert [batch.id.tolist() for batch in batches] == [list(range(i, i + 10)) for i in range(0, 40, 10)]
    first, second = (make_reader(url, ["id"], cur_shard=0, shard_count=2, shard_seed=seed) for seed in (1, 2))
    assert [int(item.id) for item in first] != [int(item.id) for item in second]
    with pytest.raises(PetastormMetadataError, match="no such file"):
        get_schema_from_dataset_url(f"{url}/nothing")
    with pytest.raises(ValueError, match="given twice"):
        make_reader(url, ["id"], schema_fields=["x"])
    with pytest.raises(ValueError, match="filesystem="):
        make_reader(url, filesystem=object())
    with pytest.raises(ValueError, match="in a row"):
        make_reader(url, *range(40))


# The parameters of Petastorm 0.13.1, in its order.
PARAMETERS = {
    "etl.dataset_metadata:materialize_dataset":
        "spark dataset_url schema row_group_size_mb use_summary_metadata filesystem_factory",
    "etl.dataset_metadata:get_schema_from_dataset_url":
        "dataset_url_or_urls hdfs_driver storage_options filesystem",
    "etl.rowgroup_indexing:build_rowgroup_index": "dataset_url spark_context indexers hdfs_driver",
    "spark_utils:dataset_as_rdd": "dataset_url spark_session schema_fields hdfs_driver",
    "spark:make_spark_converter": "df parquet_row_group_size_bytes compression_codec dtype",
    "spark:SparkDatasetConverter.make_tf_dataset":
        "self batch_size prefetch num_epochs workers_count shuffling_queue_capacity",
    "spark:SparkDatasetConverter.make_torch_dataloader":
        "self batch_size num_epochs workers_count shuffling_queue_capacity data_loader_fn",
    "ngram:NGram": "fields delta_threshold timestamp_field timestamp_overlap",
    "transform:TransformSpec": "func edit_fields removed_fields selected_fields",
    "predicates:in_lambda": "predicate_fields predicate_func state_arg",
    "predicates:in_pseudorandom_split": "fraction_list subset_index predicate_field",
    "unischema:UnischemaField": "name numpy_dtype shape codec nullable",
    "weighted_sampling_reader:WeightedSamplingReader": "readers probabilities",
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_taken_by_name_and_in_petastorms_order(name):
    module, _, path = name.partition(":")
    result = importlib.import_module(f"hubarray.petastorm.{module}")
    for part in path.split("."):
        result = getattr(result, part)
    names = PARAMETERS[name].split()
    taken = [item for item in inspect.signature(result).parameters.values() if item.kind is item.POSITIONAL_OR_KEYWORD]
    assert [item.name for item in taken][: len(names)] == names
