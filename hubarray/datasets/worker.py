"""Processes that write to several arrays for one transaction of a dataset."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from hubarray.arrays.write.worker import ArrayPart, ArrayPartWriter, ArrayWorker
from hubarray.datasets.description import Description, Entry, view_of
from hubarray.errors import ConfigError, HubError
from hubarray.history.records.record import Record

Parts = dict[str, ArrayPart]
"""What a worker wrote, by array."""


def added_array(record: Record, name: str, entry: Entry) -> Record:
    """Return a record as seen by an array that is not in any record yet: without chunks, and not cached by its
    digest."""
    return replace(view_of(record, Description({name: entry}), name), digest="")


class DatasetWorker:
    """A transaction over several arrays in another process; ``t.worker()`` returns it.

    Each ``with`` block has its own :class:`DatasetPartWriter`.
    """

    def __init__(self, workers: dict[str, ArrayWorker]) -> None:
        self._workers = workers
        self._blocks = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return DatasetWorker, (self._workers,)

    def __enter__(self) -> DatasetPartWriter:
        writer = DatasetPartWriter(self._workers)
        if not hasattr(self._blocks, "open"):
            self._blocks.open = []
        self._blocks.open.append(writer)
        return writer

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._blocks.open.pop().close(abandon=kind is not None)


class DatasetPartWriter:
    """The writer in the block of a worker: ``w["image"]`` supports NumPy's indexing. After the block, it has a part."""

    def __init__(self, workers: dict[str, ArrayWorker]) -> None:
        self._workers = workers
        self._writers: dict[str, ArrayPartWriter] = {}
        self._part: Parts | None = None

    def __getitem__(self, name: str) -> ArrayPartWriter:
        """Return an array to write to.

        Raises
        ------
        ConfigError, HubError
        """
        if self._part is not None:
            raise HubError("the worker's block has ended; use w within it")
        if name not in self._workers:
            raise ConfigError(
                f"the dataset has no array {name!r} that workers write to; it has {', '.join(self._workers)}"
            )
        if name not in self._writers:
            self._writers[name] = self._workers[name].open()
        return self._writers[name]

    @property
    def part(self) -> Parts:
        """The parts of the arrays that the block wrote, after its end."""
        if self._part is None:
            raise HubError("a worker's part is there after its 'with' block")
        return self._part

    def close(self, *, abandon: bool) -> None:
        """End the block."""
        for writer in self._writers.values():
            writer.close(abandon=abandon)
        if not abandon:
            self._part = {name: writer.part for name, writer in self._writers.items()}
