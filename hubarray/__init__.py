"""hubarray: NumPy arrays that live in a bucket under a name and a version, and feel local.

::

    import hubarray as hub

    a = hub.array((100_000, 512, 512, 3), name="lab/photos:v0", dtype="uint8")
    a[0] = image                            # in the bucket when this line returns
    b = hub.load("lab/photos:v0")           # on any other machine
    b[0:10, 100:200, 100:200].mean()        # fetches only the chunks it touches

A slice passes: ``array -> selection, plan (which chunks) -> manifest
(where they are) -> memory cache -> fetch -> disk cache -> storage -> hash ->
codecs -> result``. An assignment passes: ``array -> operation -> commit``, which
encloses ``plan -> codecs -> pack -> storage -> record -> log``. The folders are
layers, and imports only point down: ``docs/architecture.md`` draws them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hubarray import moved, process
from hubarray.api.catalog import array, diff, exists, flush, load, log
from hubarray.api.catalog import list_ as list
from hubarray.api.datasets import dataset
from hubarray.api.maintenance import collect_garbage, compact, du, repair, transfer, verify
from hubarray.api.tags import rename, tag, tags, untag
from hubarray.api.versions import copy, delete, expire, freeze, merge_version, restore, undo
from hubarray.arrays.diff import Diff
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.write.transaction import Transaction
from hubarray.arrays.write.worker import Part, PartWriter, Worker
from hubarray.blobs.fetch import stats
from hubarray.blobs.stats import Stats
from hubarray.config import configure
from hubarray.datasets.diff import DatasetDiff
from hubarray.datasets.transaction import DatasetTransaction
from hubarray.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitOutcomeUnknown,
    ConfigError,
    ConflictError,
    CorruptDataError,
    FormatVersionError,
    FrozenError,
    HubError,
    InvalidNameError,
    MissingPackageError,
    NoDataAvailableError,
    NotFoundError,
    ObjectMissingError,
    ReaderStoppedError,
    ReadOnlyError,
    SourceError,
    StorageError,
    TagNotFoundError,
    UnavailableError,
    UnsafeStoreError,
    UnsortedRowsError,
)
from hubarray.handles import kinds
from hubarray.handles.array import Array
from hubarray.handles.dataset import Dataset
from hubarray.handles.member import DatasetArray
from hubarray.history.commits.retry import retry
from hubarray.history.log.timeline import Commit
from hubarray.history.maintenance.compact import Compaction
from hubarray.history.maintenance.garbage import Garbage
from hubarray.history.maintenance.repair import Repair
from hubarray.history.maintenance.transfer import Transferred
from hubarray.history.maintenance.usage import Usage
from hubarray.history.maintenance.verify import Report
from hubarray.interop.export.export import export
from hubarray.interop.import_.arrays import import_
from hubarray.interop.store import store
from hubarray.storage.url import Root

if TYPE_CHECKING:
    from hubarray.api.tables import read_index, row_loader, table_writer, write_index
    from hubarray.handles.loader import RowLoader
    from hubarray.handles.table import Table
    from hubarray.interop.export.references import references
    from hubarray.interop.import_.tables import import_table
    from hubarray.interop.spark.readers import (
        dataset_as_rdd,
        dict_to_spark_row,
        make_spark_converter,
        materialize_dataset,
    )
    from hubarray.interop.tensorflow.readers import make_petastorm_dataset, tf_tensors
    from hubarray.readers.factory import make_batch_reader, make_reader
    from hubarray.readers.fields.field_codecs import (
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
    from hubarray.readers.fields.transform import TransformSpec
    from hubarray.readers.fields.unischema import Unischema, UnischemaField
    from hubarray.readers.parquet.index_writer import build_rowgroup_index
    from hubarray.readers.parquet.indexes import FieldNotNullIndexer, SingleFieldIndexer
    from hubarray.readers.parquet.writing import parquet_writer, write_dask
    from hubarray.readers.reader import Reader
    from hubarray.readers.splits import balanced, split
    from hubarray.readers.weighted import WeightedSamplingReader
    from hubarray.tables.format.part import TablePart
    from hubarray.tables.format.schema import Field, Schema
    from hubarray.tables.index.diff import TableDiff
    from hubarray.tables.index.join import merge, merge_asof
    from hubarray.tables.write.worker import TablePartition, TableWorker
    from hubarray.tables.write.writer import TableWriter
    from hubarray.viewer.serving import view

# Imported at their first use: they bring pyarrow.
_LAZY = {
    "CompressedImageCodec": "hubarray.readers.fields.field_codecs",
    "CompressedNdarrayCodec": "hubarray.readers.fields.field_codecs",
    "Field": "hubarray.tables.format.schema",
    "NGram": "hubarray.readers.fields.ngram",
    "NdarrayCodec": "hubarray.readers.fields.field_codecs",
    "PredicateBase": "hubarray.readers.fields.predicates",
    "Reader": "hubarray.readers.reader",
    "RowLoader": "hubarray.handles.loader",
    "ScalarCodec": "hubarray.readers.fields.field_codecs",
    "Schema": "hubarray.tables.format.schema",
    "Table": "hubarray.handles.table",
    "TableDiff": "hubarray.tables.index.diff",
    "TablePart": "hubarray.tables.format.part",
    "TablePartition": "hubarray.tables.write.worker",
    "TableWorker": "hubarray.tables.write.worker",
    "TableWriter": "hubarray.tables.write.writer",
    "TransformSpec": "hubarray.readers.fields.transform",
    "Unischema": "hubarray.readers.fields.unischema",
    "UnischemaField": "hubarray.readers.fields.unischema",
    "import_table": "hubarray.interop.import_.tables",
    "in_intersection": "hubarray.readers.fields.predicates",
    "in_lambda": "hubarray.readers.fields.predicates",
    "in_negate": "hubarray.readers.fields.predicates",
    "in_pseudorandom_split": "hubarray.readers.fields.predicates",
    "in_reduce": "hubarray.readers.fields.predicates",
    "in_set": "hubarray.readers.fields.predicates",
    "make_batch_reader": "hubarray.readers.factory",
    "make_reader": "hubarray.readers.factory",
    "merge": "hubarray.tables.index.join",
    "merge_asof": "hubarray.tables.index.join",
    "parquet_writer": "hubarray.readers.parquet.writing",
    "write_dask": "hubarray.readers.parquet.writing",
    "materialize_dataset": "hubarray.interop.spark.readers",
    "dict_to_spark_row": "hubarray.interop.spark.readers",
    "dataset_as_rdd": "hubarray.interop.spark.readers",
    "make_spark_converter": "hubarray.interop.spark.readers",
    "make_petastorm_dataset": "hubarray.interop.tensorflow.readers",
    "tf_tensors": "hubarray.interop.tensorflow.readers",
    "SingleIndexSelector": "hubarray.readers.fields.selectors",
    "IntersectIndexSelector": "hubarray.readers.fields.selectors",
    "UnionIndexSelector": "hubarray.readers.fields.selectors",
    "RowGroupSelectorBase": "hubarray.readers.fields.selectors",
    "SingleFieldIndexer": "hubarray.readers.parquet.indexes",
    "FieldNotNullIndexer": "hubarray.readers.parquet.indexes",
    "build_rowgroup_index": "hubarray.readers.parquet.index_writer",
    "split": "hubarray.readers.splits",
    "balanced": "hubarray.readers.splits",
    "WeightedSamplingReader": "hubarray.readers.weighted",
    "read_index": "hubarray.api.tables",
    "references": "hubarray.interop.export.references",
    "row_loader": "hubarray.api.tables",
    "table_writer": "hubarray.api.tables",
    "view": "hubarray.viewer.serving",
    "write_index": "hubarray.api.tables",
}

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "Array",
    "ArraySpec",
    "Commit",
    "CommitOutcomeUnknown",
    "Compaction",
    "CompressedImageCodec",
    "CompressedNdarrayCodec",
    "ConfigError",
    "ConflictError",
    "CorruptDataError",
    "Dataset",
    "DatasetArray",
    "DatasetDiff",
    "DatasetTransaction",
    "Diff",
    "Field",
    "FieldNotNullIndexer",
    "FormatVersionError",
    "FrozenError",
    "Garbage",
    "HubError",
    "IntersectIndexSelector",
    "InvalidNameError",
    "MissingPackageError",
    "NGram",
    "NdarrayCodec",
    "NoDataAvailableError",
    "NotFoundError",
    "ObjectMissingError",
    "Part",
    "PartWriter",
    "PredicateBase",
    "ReadOnlyError",
    "Reader",
    "ReaderStoppedError",
    "Repair",
    "Report",
    "Root",
    "RowGroupSelectorBase",
    "RowLoader",
    "ScalarCodec",
    "Schema",
    "SingleFieldIndexer",
    "SingleIndexSelector",
    "SourceError",
    "Stats",
    "StorageError",
    "Table",
    "TableDiff",
    "TablePart",
    "TablePartition",
    "TableWorker",
    "TableWriter",
    "TagNotFoundError",
    "Transaction",
    "Transferred",
    "TransformSpec",
    "UnavailableError",
    "UnionIndexSelector",
    "Unischema",
    "UnischemaField",
    "UnsafeStoreError",
    "UnsortedRowsError",
    "Usage",
    "WeightedSamplingReader",
    "Worker",
    "array",
    "balanced",
    "build_rowgroup_index",
    "collect_garbage",
    "compact",
    "configure",
    "copy",
    "dataset",
    "dataset_as_rdd",
    "delete",
    "dict_to_spark_row",
    "diff",
    "du",
    "exists",
    "expire",
    "export",
    "flush",
    "freeze",
    "import_",
    "import_table",
    "in_intersection",
    "in_lambda",
    "in_negate",
    "in_pseudorandom_split",
    "in_reduce",
    "in_set",
    "list",
    "load",
    "log",
    "make_batch_reader",
    "make_petastorm_dataset",
    "make_reader",
    "make_spark_converter",
    "materialize_dataset",
    "merge",
    "merge_asof",
    "merge_version",
    "parquet_writer",
    "read_index",
    "references",
    "rename",
    "repair",
    "restore",
    "retry",
    "row_loader",
    "split",
    "stats",
    "store",
    "table_writer",
    "tag",
    "tags",
    "tf_tensors",
    "transfer",
    "undo",
    "untag",
    "verify",
    "view",
    "write_dask",
    "write_index",
]


moved.install()
kinds.register()


def __getattr__(name: str) -> Any:
    if name == "interop":
        return importlib.import_module("hubarray.interop")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'hubarray' has no attribute {name!r}")
    with process.importing:
        found = globals()[name] = getattr(importlib.import_module(module), name)
    return found


def __dir__() -> Any:
    return sorted([*globals(), *_LAZY])
