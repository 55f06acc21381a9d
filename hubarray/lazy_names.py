"""Names of a module that are imported at their first use, and old names of public ones."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

from hubarray import process

# Where the public names of 0.1 are now; they work until 0.4.
MOVED_NAMES = {
    "AccessDeniedError": "errors.AccessDeniedError",
    "AlreadyExistsError": "errors.AlreadyExistsError",
    "Commit": "results.Commit",
    "CommitOutcomeUnknown": "errors.CommitOutcomeUnknown",
    "Compaction": "results.Compaction",
    "CompressedImageCodec": "petastorm.CompressedImageCodec",
    "CompressedNdarrayCodec": "petastorm.CompressedNdarrayCodec",
    "ConfigError": "errors.ConfigError",
    "ConflictError": "errors.ConflictError",
    "CorruptDataError": "errors.CorruptDataError",
    "DatasetDiff": "results.DatasetDiff",
    "DatasetTransaction": "results.DatasetTransaction",
    "Diff": "results.Diff",
    "FieldNotNullIndexer": "petastorm.FieldNotNullIndexer",
    "FormatVersionError": "errors.FormatVersionError",
    "FrozenError": "errors.FrozenError",
    "Garbage": "results.CollectionReport",
    "IntersectIndexSelector": "petastorm.IntersectIndexSelector",
    "InvalidNameError": "errors.InvalidNameError",
    "MissingPackageError": "errors.MissingPackageError",
    "NdarrayCodec": "petastorm.NdarrayCodec",
    "NoDataAvailableError": "errors.NoDataAvailableError",
    "NotFoundError": "errors.NotFoundError",
    "ObjectMissingError": "errors.ObjectMissingError",
    "Part": "results.ArrayPart",
    "PartWriter": "results.ArrayPartWriter",
    "PredicateBase": "petastorm.PredicateBase",
    "ReadOnlyError": "errors.ReadOnlyError",
    "ReaderStoppedError": "errors.ReaderStoppedError",
    "Repair": "results.RepairReport",
    "Report": "results.VerifyReport",
    "RowGroupSelectorBase": "petastorm.RowGroupSelectorBase",
    "ScalarCodec": "petastorm.ScalarCodec",
    "SingleFieldIndexer": "petastorm.SingleFieldIndexer",
    "SingleIndexSelector": "petastorm.SingleIndexSelector",
    "SourceError": "errors.SourceError",
    "Stats": "results.Stats",
    "StorageError": "errors.StorageError",
    "TableDiff": "results.TableDiff",
    "TablePart": "results.TablePart",
    "TablePartition": "results.TablePartition",
    "TableWorker": "results.TableWorker",
    "TableWriter": "results.TableWriter",
    "TagNotFoundError": "errors.TagNotFoundError",
    "Transaction": "results.Transaction",
    "Transferred": "results.TransferReport",
    "UnavailableError": "errors.UnavailableError",
    "UnionIndexSelector": "petastorm.UnionIndexSelector",
    "Unischema": "petastorm.Unischema",
    "UnischemaField": "petastorm.UnischemaField",
    "UnsafeStoreError": "errors.UnsafeStoreError",
    "UnsortedRowsError": "errors.UnsortedRowsError",
    "Usage": "results.StorageUsage",
    "WeightedSamplingReader": "petastorm.WeightedSamplingReader",
    "Worker": "results.ArrayWorker",
    "build_rowgroup_index": "petastorm.build_rowgroup_index",
    "dataset_as_rdd": "petastorm.dataset_as_rdd",
    "dict_to_spark_row": "petastorm.dict_to_spark_row",
    "in_intersection": "petastorm.in_intersection",
    "in_lambda": "petastorm.in_lambda",
    "in_negate": "petastorm.in_negate",
    "in_pseudorandom_split": "petastorm.in_pseudorandom_split",
    "in_reduce": "petastorm.in_reduce",
    "in_set": "petastorm.in_set",
    "make_petastorm_dataset": "petastorm.make_petastorm_dataset",
    "make_spark_converter": "petastorm.make_spark_converter",
    "materialize_dataset": "petastorm.materialize_dataset",
    "merge": "join",
    "merge_asof": "join_asof",
    "tf_tensors": "petastorm.tf_tensors",
}


def attribute_of(module: str, names: dict[str, Any], lazy: Mapping[str, str], name: str) -> Any:
    """The attribute that a module's ``__getattr__`` is asked for, which is kept for the next time.

    Parameters
    ----------
    module : str
    names : dict
        The module's own.
    lazy : mapping of str to str
        The module behind each name.
    name : str

    Raises
    ------
    AttributeError
    """
    if name not in lazy:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    with process.importing:
        value = names[name] = getattr(importlib.import_module(lazy[name]), name)
    return value


def moved_name(name: str) -> Any:
    """The object behind an old public name, with a DeprecationWarning that says the new one."""
    module, _, attribute = f"hubarray.{MOVED_NAMES[name]}".rpartition(".")
    warnings.warn(
        f"hub.{name} is hub.{MOVED_NAMES[name]} now; the old name works until version 0.4",
        DeprecationWarning,
        stacklevel=3,
    )
    with process.importing:
        return getattr(importlib.import_module(module), attribute)
