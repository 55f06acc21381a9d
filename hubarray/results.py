"""Classes that functions of hubarray return, for type hints and ``isinstance``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubarray.arrays.diff import Diff
from hubarray.arrays.write.transaction import Transaction
from hubarray.arrays.write.worker import ArrayPart, ArrayPartWriter, ArrayWorker
from hubarray.blobs.stats import Stats
from hubarray.datasets.diff import DatasetDiff
from hubarray.datasets.transaction import DatasetTransaction
from hubarray.history.log.timeline import Commit
from hubarray.history.maintenance.compact import Compaction
from hubarray.history.maintenance.garbage import CollectionReport
from hubarray.history.maintenance.repair import RepairReport
from hubarray.history.maintenance.transfer import TransferReport
from hubarray.history.maintenance.usage import StorageUsage
from hubarray.history.maintenance.verify import VerifyReport
from hubarray.lazy_names import attribute_of

if TYPE_CHECKING:
    from hubarray.tables.format.part import TablePart
    from hubarray.tables.index.diff import TableDiff
    from hubarray.tables.write.worker import TablePartition, TableWorker
    from hubarray.tables.write.writer import TableWriter

__all__ = [
    "ArrayPart",
    "ArrayPartWriter",
    "ArrayWorker",
    "CollectionReport",
    "Commit",
    "Compaction",
    "DatasetDiff",
    "DatasetTransaction",
    "Diff",
    "RepairReport",
    "Stats",
    "StorageUsage",
    "TableDiff",
    "TablePart",
    "TablePartition",
    "TableWorker",
    "TableWriter",
    "Transaction",
    "TransferReport",
    "VerifyReport",
]

# Imported at their first use: they bring pyarrow.
_LAZY = {
    "TableDiff": "hubarray.tables.index.diff",
    "TablePart": "hubarray.tables.format.part",
    "TablePartition": "hubarray.tables.write.worker",
    "TableWorker": "hubarray.tables.write.worker",
    "TableWriter": "hubarray.tables.write.writer",
}


def __getattr__(name: str) -> Any:
    return attribute_of(__name__, globals(), _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
