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
import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError(
        "hubarray does not run on Windows, because it locks and opens files in ways that only POSIX has: use it in WSL"
    )

from hubarray import errors, lazy_names, moved
from hubarray.api.catalog import array, diff, exists, flush, load, log
from hubarray.api.catalog import list_ as list
from hubarray.api.datasets import dataset
from hubarray.api.maintenance import collect_garbage, compact, du, repair, transfer, verify
from hubarray.api.retry import retry
from hubarray.api.tags import rename, tag, tags, untag
from hubarray.api.versions import copy, delete, expire, freeze, merge_version, restore, undo
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.blobs.fetch import stats
from hubarray.config import configure
from hubarray.errors import HubError
from hubarray.handles import kinds
from hubarray.handles.array import Array
from hubarray.handles.dataset import Dataset
from hubarray.handles.member import DatasetArray
from hubarray.interop.export.export import export
from hubarray.interop.import_.arrays import import_
from hubarray.interop.store import store
from hubarray.storage.url import Root

if TYPE_CHECKING:
    from hubarray import petastorm, results
    from hubarray.api.tables import read_index, row_loader, table_writer, write_index
    from hubarray.handles.loader import RowLoader
    from hubarray.handles.table import Table
    from hubarray.interop.export.references import references
    from hubarray.interop.import_.tables import import_table
    from hubarray.readers.factory import make_batch_reader, make_reader
    from hubarray.readers.fields.ngram import NGram
    from hubarray.readers.fields.transform import TransformSpec
    from hubarray.readers.parquet.writing import parquet_writer, write_dask
    from hubarray.readers.reader import Reader
    from hubarray.readers.splits import balanced, split
    from hubarray.tables.format.schema import Field, Schema
    from hubarray.tables.index.join import join, join_asof
    from hubarray.viewer.serving import view

# Imported at their first use: they bring pyarrow.
_LAZY = {
    "Field": "hubarray.tables.format.schema",
    "NGram": "hubarray.readers.fields.ngram",
    "Reader": "hubarray.readers.reader",
    "RowLoader": "hubarray.handles.loader",
    "Schema": "hubarray.tables.format.schema",
    "Table": "hubarray.handles.table",
    "TransformSpec": "hubarray.readers.fields.transform",
    "balanced": "hubarray.readers.splits",
    "import_table": "hubarray.interop.import_.tables",
    "join": "hubarray.tables.index.join",
    "join_asof": "hubarray.tables.index.join",
    "make_batch_reader": "hubarray.readers.factory",
    "make_reader": "hubarray.readers.factory",
    "parquet_writer": "hubarray.readers.parquet.writing",
    "read_index": "hubarray.api.tables",
    "references": "hubarray.interop.export.references",
    "row_loader": "hubarray.api.tables",
    "split": "hubarray.readers.splits",
    "table_writer": "hubarray.api.tables",
    "view": "hubarray.viewer.serving",
    "write_dask": "hubarray.readers.parquet.writing",
    "write_index": "hubarray.api.tables",
}
_MODULES = ("interop", "petastorm", "results")

__version__ = "0.2.0"

__all__ = [
    "Array",
    "ArraySpec",
    "Dataset",
    "DatasetArray",
    "Field",
    "HubError",
    "NGram",
    "Reader",
    "Root",
    "RowLoader",
    "Schema",
    "Table",
    "TransformSpec",
    "array",
    "balanced",
    "collect_garbage",
    "compact",
    "configure",
    "copy",
    "dataset",
    "delete",
    "diff",
    "du",
    "errors",
    "exists",
    "expire",
    "export",
    "flush",
    "freeze",
    "import_",
    "import_table",
    "join",
    "join_asof",
    "list",
    "load",
    "log",
    "make_batch_reader",
    "make_reader",
    "merge_version",
    "parquet_writer",
    "petastorm",
    "read_index",
    "references",
    "rename",
    "repair",
    "restore",
    "results",
    "retry",
    "row_loader",
    "split",
    "stats",
    "store",
    "table_writer",
    "tag",
    "tags",
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
    if name in _MODULES:
        return importlib.import_module(f"hubarray.{name}")
    if name in lazy_names.MOVED_NAMES:
        return lazy_names.moved_name(name)
    return lazy_names.attribute_of(__name__, globals(), _LAZY, name)


def __dir__() -> Any:
    # Not the packages below, which are attributes once they are imported.
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
