"""Petastorm's names where Petastorm has them: change ``petastorm`` to ``hubarray.petastorm`` in imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubarray.errors import NoDataAvailableError
from hubarray.lazy_names import attribute_of
from hubarray.petastorm.making import make_batch_reader, make_reader
from hubarray.readers.fields.transform import TransformSpec

if TYPE_CHECKING:
    from hubarray.interop.spark.readers import (
        dataset_as_rdd,
        dict_to_spark_row,
        make_spark_converter,
        materialize_dataset,
    )
    from hubarray.interop.tensorflow.readers import make_petastorm_dataset, tf_tensors
    from hubarray.readers.fields.cell_codecs import (
        CompressedImageCodec,
        CompressedNdarrayCodec,
        NdarrayCodec,
        ScalarCodec,
    )
    from hubarray.readers.fields.ngram import NGram
    from hubarray.readers.fields.predicates import (
        PredicateBase,
        in_intersection,
        in_lambda,
        in_negate,
        in_pseudorandom_split,
        in_reduce,
        in_set,
    )
    from hubarray.readers.fields.selectors import (
        IntersectIndexSelector,
        RowGroupSelectorBase,
        SingleIndexSelector,
        UnionIndexSelector,
    )
    from hubarray.readers.fields.unischema import Unischema, UnischemaField
    from hubarray.readers.parquet.index_writer import build_rowgroup_index
    from hubarray.readers.parquet.indexes import FieldNotNullIndexer, SingleFieldIndexer
    from hubarray.readers.weighted import WeightedSamplingReader

__all__ = [
    "CompressedImageCodec",
    "CompressedNdarrayCodec",
    "FieldNotNullIndexer",
    "IntersectIndexSelector",
    "NGram",
    "NdarrayCodec",
    "NoDataAvailableError",
    "PredicateBase",
    "RowGroupSelectorBase",
    "ScalarCodec",
    "SingleFieldIndexer",
    "SingleIndexSelector",
    "TransformSpec",
    "UnionIndexSelector",
    "Unischema",
    "UnischemaField",
    "WeightedSamplingReader",
    "build_rowgroup_index",
    "dataset_as_rdd",
    "dict_to_spark_row",
    "in_intersection",
    "in_lambda",
    "in_negate",
    "in_pseudorandom_split",
    "in_reduce",
    "in_set",
    "make_batch_reader",
    "make_petastorm_dataset",
    "make_reader",
    "make_spark_converter",
    "materialize_dataset",
    "tf_tensors",
]

# Imported at their first use: they bring what Spark's, TensorFlow's and others' adapters need.
_LAZY = {
    "CompressedImageCodec": "hubarray.readers.fields.cell_codecs",
    "CompressedNdarrayCodec": "hubarray.readers.fields.cell_codecs",
    "FieldNotNullIndexer": "hubarray.readers.parquet.indexes",
    "IntersectIndexSelector": "hubarray.readers.fields.selectors",
    "NGram": "hubarray.readers.fields.ngram",
    "NdarrayCodec": "hubarray.readers.fields.cell_codecs",
    "PredicateBase": "hubarray.readers.fields.predicates",
    "RowGroupSelectorBase": "hubarray.readers.fields.selectors",
    "ScalarCodec": "hubarray.readers.fields.cell_codecs",
    "SingleFieldIndexer": "hubarray.readers.parquet.indexes",
    "SingleIndexSelector": "hubarray.readers.fields.selectors",
    "UnionIndexSelector": "hubarray.readers.fields.selectors",
    "Unischema": "hubarray.readers.fields.unischema",
    "UnischemaField": "hubarray.readers.fields.unischema",
    "WeightedSamplingReader": "hubarray.readers.weighted",
    "build_rowgroup_index": "hubarray.readers.parquet.index_writer",
    "dataset_as_rdd": "hubarray.interop.spark.readers",
    "dict_to_spark_row": "hubarray.interop.spark.readers",
    "in_intersection": "hubarray.readers.fields.predicates",
    "in_lambda": "hubarray.readers.fields.predicates",
    "in_negate": "hubarray.readers.fields.predicates",
    "in_pseudorandom_split": "hubarray.readers.fields.predicates",
    "in_reduce": "hubarray.readers.fields.predicates",
    "in_set": "hubarray.readers.fields.predicates",
    "make_petastorm_dataset": "hubarray.interop.tensorflow.readers",
    "make_spark_converter": "hubarray.interop.spark.readers",
    "materialize_dataset": "hubarray.interop.spark.readers",
    "tf_tensors": "hubarray.interop.tensorflow.readers",
}


def __getattr__(name: str) -> Any:
    return attribute_of(__name__, globals(), _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
