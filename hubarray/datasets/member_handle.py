"""An array of a dataset. Its commits are those of the dataset."""

from __future__ import annotations

from functools import partial

from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.write.transaction import Transaction
from hubarray.blobs.pack import PackWriter
from hubarray.datasets.description import description_of, view
from hubarray.datasets.diff import DatasetDiff, diff_datasets
from hubarray.datasets.operations import ChangeArray, ChangeDataset
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.commits.commit import Operation, commit
from hubarray.history.commits.handle import newest_record
from hubarray.history.log.version import Version
from hubarray.history.records.record import Member, Record
from hubarray.storage.url import Root


class MemberHandle(ArrayHandle):
    """The elements of an array of a dataset. Its commits are those of the dataset."""

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

    def transaction(self, message: str | None = None) -> Transaction:
        """See :meth:`hubarray.Array.transaction`."""
        return Transaction(self, message, view=partial(view, name=self._key))

    def _view(self, record: Record) -> Record:
        entry = description_of(record).arrays.get(self._key)
        if entry is None:
            raise NotFoundError(
                f"{record.name}: its array {self._key!r} was dropped, or has another name now; take it from the "
                "dataset again"
            )
        if entry.id != self._id:
            raise ConflictError(f"{record.name}: its array {self._key!r} was replaced; take it from the dataset again")
        return view(record, self._key)

    def _refuse_changes_of_others(self, steps: int) -> None:
        """Raise ConfigError if one of the newest commits changed something else of the dataset.

        Raises
        ------
        ConfigError, NotFoundError, ConflictError
        """
        newest_record(self)
        after, taken = _member(self._record()).whole, 0
        while type(steps) is int and taken < steps and after.head.number > 1:
            before = self._version.base_record(after.head.number - 1)
            difference = diff_datasets((self._version, before), (self._version, after), elements=False)
            has_other_attrs = before.attrs != after.attrs
            if difference or has_other_attrs:
                own = DatasetDiff(
                    changed={key: array_diff for key, array_diff in difference.changed.items() if key == self._key}
                )
                if difference != own or has_other_attrs:
                    raise ConfigError(
                        f"{after.name}: changed more than the array {self._key!r}; dataset.undo() takes back all of it"
                    )
                taken += 1
            after = before

    def _commit(
        self,
        operation: Operation,
        base: Record,
        message: str | None = None,
        *,
        packs: PackWriter | None = None,
        began: float | None = None,
    ) -> None:
        # A commit of the dataset.
        whole = _member(base).whole
        change = ChangeArray(self._key, operation, id=self._id)
        whole_operation = ChangeDataset([change], seen=whole, is_small=operation.is_small)
        commit(self._version, whole_operation, base=whole, message=message, packs=packs, began=began)


def _member(record: Record) -> Member:
    assert record.member is not None
    return record.member
