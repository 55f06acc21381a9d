"""Petastorm's names, under its module layout."""

import importlib
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
    "unischema": ["Unischema", "UnischemaField", "dict_to_spark_row", "match_unischema_fields"],
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
    "etl.dataset_metadata": ["materialize_dataset"],
    "etl.rowgroup_indexers": ["SingleFieldIndexer", "FieldNotNullIndexer"],
    "etl.rowgroup_indexing": ["build_rowgroup_index"],
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_where_petastorm_has_it(module):
    found = importlib.import_module(".".join(filter(None, ["hubarray.interop.petastorm", module])))
    for name in NAMES[module]:
        assert callable(getattr(found, name))


def test_a_program_of_petastorms_runs_with_its_imports_changed(tmp_path):
    from hubarray.interop.petastorm import make_reader
    from hubarray.interop.petastorm.etl.rowgroup_indexers import SingleFieldIndexer
    from hubarray.interop.petastorm.etl.rowgroup_indexing import build_rowgroup_index
    from hubarray.interop.petastorm.predicates import in_lambda
    from hubarray.interop.petastorm.pytorch import DataLoader
    from hubarray.interop.petastorm.selectors import SingleIndexSelector

    pq.write_table(pa.table({"id": range(40), "x": np.arange(40.0)}), tmp_path / "a.parquet", row_group_size=10)
    build_rowgroup_index(str(tmp_path), None, [SingleFieldIndexer("ids", "id")])
    reader = make_reader(
        f"file://{tmp_path}", schema_fields=["id"], reader_pool_type="dummy", num_epochs=1,
        rowgroup_selector=SingleIndexSelector("ids", [3, 33]), predicate=in_lambda(["id"], lambda id: id % 2 == 0),
    )  # fmt: skip
    with DataLoader(reader, batch_size=4) as loader:
        ids = [int(one) for batch in loader for one in batch["id"]]
    assert sorted(ids) == [*range(0, 10, 2), *range(30, 40, 2)]


def test_the_plain_names_import_neither_torch_nor_spark():
    program = (
        "import sys, hubarray.interop.petastorm, hubarray.interop.petastorm.predicates as p, "
        "hubarray.interop.petastorm.unischema; "
        "sys.exit(bool({'torch', 'tensorflow', 'pyspark'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
    assert issubclass(hub.NoDataAvailableError, ValueError)
