"""Old names of modules: pickles name the module in which a class was when they were made."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Of 0.1, those whose classes and functions pickles name.
MOVED = {
    "hubarray.arrays.array": "hubarray.handles.array",
    "hubarray.datasets.dataset": "hubarray.handles.dataset",
    "hubarray.datasets.member": "hubarray.handles.member",
    "hubarray.tables.table": "hubarray.handles.table",
    "hubarray.tables.diff": "hubarray.tables.index.diff",
    "hubarray.tables.loader": "hubarray.handles.loader",
    "hubarray.tables.part": "hubarray.tables.format.part",
    "hubarray.tables.schema": "hubarray.tables.format.schema",
    "hubarray.tables.service_column": "hubarray.tables.format.index_column",
    "hubarray.tables.windows": "hubarray.tables.read.windows",
    "hubarray.tables.worker": "hubarray.tables.write.worker",
    "hubarray.arrays.spec": "hubarray.arrays.metadata.spec",
    "hubarray.arrays.worker": "hubarray.arrays.write.worker",
    "hubarray.history.compact": "hubarray.history.maintenance.compact",
    "hubarray.history.garbage": "hubarray.history.maintenance.garbage",
    "hubarray.history.repair": "hubarray.history.maintenance.repair",
    "hubarray.history.transfer": "hubarray.history.maintenance.transfer",
    "hubarray.history.usage": "hubarray.history.maintenance.usage",
    "hubarray.history.timeline": "hubarray.history.log.timeline",
    "hubarray.readers.unischema": "hubarray.readers.fields.unischema",
    "hubarray.readers.field_codecs": "hubarray.readers.fields.cell_codecs",
    "hubarray.readers.ngram": "hubarray.readers.fields.ngram",
    "hubarray.readers.predicates": "hubarray.readers.fields.predicates",
    "hubarray.readers.transform": "hubarray.readers.fields.transform",
    "hubarray.readers.selectors": "hubarray.readers.fields.selectors",
    "hubarray.readers.source": "hubarray.readers.fields.source",
    "hubarray.readers.filters": "hubarray.readers.fields.filters",
    "hubarray.interop.lazy": "hubarray.interop.statistics.lazy",
    "hubarray.interop.torch_items": "hubarray.interop.torch.items",
    "hubarray.interop.torch_readers": "hubarray.interop.torch.readers",
    "hubarray.interop.torch_stream": "hubarray.interop.torch.stream",
    "hubarray.interop.torch_tables": "hubarray.interop.torch.tables",
    "hubarray.interop.torch_values": "hubarray.interop.torch.tensors",
    "hubarray.interop.tensorflow_readers": "hubarray.interop.tensorflow.readers",
    "hubarray.interop.spark_readers": "hubarray.interop.spark.readers",
    "hubarray.history.verify": "hubarray.history.maintenance.verify",
}
# Classes that pickles of 0.1 name, and that have another name now.
RENAMED = {
    "hubarray.history.garbage": {"Garbage": "CollectionReport"},
    "hubarray.history.repair": {"Repair": "RepairReport"},
    "hubarray.history.transfer": {"Transferred": "TransferReport"},
    "hubarray.history.usage": {"Usage": "StorageUsage"},
    "hubarray.history.verify": {"Report": "VerifyReport"},
    "hubarray.arrays.worker": {"Part": "ArrayPart", "Worker": "ArrayWorker"},
}
# Packages whose modules have kept their names.
PACKAGES = {
    "hubarray.interop.parquet_dataset": "hubarray.readers.parquet",
    "hubarray.interop.petastorm": "hubarray.petastorm",
}
# The one that programs import, and not only pickles.
_DEPRECATED = "hubarray.interop.petastorm"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a module under its old name, as one that has the names of the new one."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        new = _new(fullname)
        spec = importlib.util.find_spec(new) if new else None
        if spec is None:
            return None
        is_package = spec.submodule_search_locations is not None
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        moved = importlib.import_module(_new(module.__name__))
        vars(module).update({name: value for name, value in vars(moved).items() if not name.startswith("__")})
        if module.__name__ == _DEPRECATED:
            warnings.warn(
                f"{_DEPRECATED} is {PACKAGES[_DEPRECATED]} now; the old name works until version 0.4",
                DeprecationWarning,
                stacklevel=2,
            )
        for old, name in RENAMED.get(module.__name__, {}).items():
            setattr(module, old, getattr(moved, name))


def _new(module: str) -> str:
    """The name that a module has now; empty of one that has not moved."""
    for old, package in PACKAGES.items():
        if module == old or module.startswith(f"{old}."):
            return package + module.removeprefix(old)
    return MOVED.get(module, "")


def install() -> None:
    """Have Python find moved modules; it asks last, for modules that nothing else has."""
    sys.meta_path.append(_Finder())
