"""An array of a dataset: in every respect an array, whose commits are those of the dataset."""

from __future__ import annotations

from functools import partial
from typing import Any

from hubarray.arrays.array import Array
from hubarray.arrays.write.worker import View
from hubarray.blobs.pack import PackWriter
from hubarray.datasets.description import description_of, view
from hubarray.datasets.diff import DatasetDiff, diff_datasets
from hubarray.datasets.operations import Steps, on_array
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.commits.commit import Operation, commit
from hubarray.history.commits.handle import unpickled
from hubarray.history.log.version import Version
from hubarray.history.records.record import Member, Record
from hubarray.names import Name
from hubarray.storage.url import Root


class DatasetArray(Array):
    """An array of a dataset: ``dataset["image"]``.

    It takes all that an :class:`hubarray.Array` does. A write through it is a commit of the dataset; its log, its tags
    and its frozen state are the dataset's.
    """

    __slots__ = ("_id", "_key")

    def __init__(self, root: Root, version: Version, record: Record, *, pinned: bool, id: str | None = None) -> None:
        member = _member(record)
        self._key = member.name
        # One that is in no record yet brings its id.
        self._id = description_of(member.whole).arrays[member.name].id if id is None else id
        super().__init__(root, version, record, pinned=pinned)

    @property
    def key(self) -> str:
        """Its name in the dataset; see :attr:`hubarray.Array.key`."""
        return self._key

    def __repr__(self) -> str:
        return super().__repr__().replace("hubarray.Array ", f"hubarray.Array {self._key!r} of ", 1)

    def __reduce__(self) -> tuple[Any, ...]:
        number = self._record().head.number
        return _restored, (self._root, self._version.name, number, self._key, self._pinned is not None, self._id)

    def view_of_workers(self) -> View:
        """See :meth:`hubarray.Array.view_of_workers`."""
        return partial(view, name=self._key)

    def _view(self, record: Record) -> Record:
        there = description_of(record).arrays.get(self._key)
        if there is None:
            raise NotFoundError(
                f"{record.name}: its array {self._key!r} was dropped, or has another name now; take it from the "
                "dataset again"
            )
        if there.id != self._id:
            raise ConflictError(f"{record.name}: its array {self._key!r} was replaced; take it from the dataset again")
        return view(record, self._key)

    def undo(self, steps: int = 1, *, message: str | None = None) -> Array:
        """Take back the newest changes, as :meth:`hubarray.Array.undo`, where they are of this array alone.

        Raises
        ------
        ConfigError
            One of them changed something else of the dataset: ``dataset.undo()`` takes back whole commits.
        NotFoundError, ConflictError
        """
        self.newest_state()
        after, taken = _member(self._record()).whole, 0
        while type(steps) is int and taken < steps and after.head.number > 1:
            before = self._version.base_record(after.head.number - 1)
            found = diff_datasets((self._version, before), (self._version, after), elements=False)
            has_other_attrs = before.attrs != after.attrs
            if found or has_other_attrs:
                own = DatasetDiff(changed={key: one for key, one in found.changed.items() if key == self._key})
                if found != own or has_other_attrs:
                    raise ConfigError(
                        f"{after.name}: changed more than the array {self._key!r}; dataset.undo() takes back all of it"
                    )
                taken += 1
            after = before
        return super().undo(steps, message=message)

    def commit_operation(
        self,
        operation: Operation,
        base: Record,
        message: str | None = None,
        *,
        packs: PackWriter | None = None,
        began: float | None = None,
    ) -> None:
        """Commit an operation on this array, as a commit of the dataset."""
        whole = _member(base).whole
        steps = Steps([on_array(self._key, operation, id=self._id)], seen=whole, quick=operation.quick)
        commit(self._version, steps, base=whole, message=message, packs=packs, began=began)


def _member(record: Record) -> Member:
    assert record.member is not None
    return record.member


def _restored(root: Root, name: Name, number: int, key: str, pinned: bool, id: str) -> DatasetArray:
    version, record = unpickled(root, name, number, pinned=pinned)
    array = DatasetArray(root, version, view(record, key), pinned=pinned)
    if description_of(record).arrays[key].id != id:
        raise ConflictError(f"{record.name}: its array {key!r} was replaced; take it from the dataset again")
    return array
