"""Each kind of version is registered here, with the class of its handles."""

from __future__ import annotations

from hubarray.api import registry
from hubarray.api.registry import Registration


def _array() -> Registration:
    from hubarray.arrays import kind
    from hubarray.handles.array import Array

    return Registration(kind, Array)


def _dataset() -> Registration:
    from hubarray.datasets import kind
    from hubarray.handles.dataset import Dataset

    return Registration(kind, Dataset)


def _table() -> Registration:
    # It brings pyarrow.
    from hubarray.handles.loader import RowLoader
    from hubarray.handles.table import Table
    from hubarray.tables import kind

    return Registration(kind, Table, RowLoader)


def register() -> None:
    """Register all kinds."""
    registry.register("array", _array)
    registry.register("dataset", _dataset)
    registry.register("table", _table)
