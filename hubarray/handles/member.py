"""The public array of a dataset."""

from __future__ import annotations

from typing import Any, Self

from hubarray.datasets.description import description_of, view
from hubarray.datasets.member_handle import MemberHandle
from hubarray.errors import ConflictError
from hubarray.handles.array import Array
from hubarray.history.commits.handle import unpickled
from hubarray.names import Name
from hubarray.storage.url import Root


class DatasetArray(MemberHandle, Array):
    """An array of a dataset: ``dataset["image"]``.

    It works like an :class:`hubarray.Array`. A write through it is a commit of the dataset. Its log, tags and frozen
    state are those of the dataset.
    """

    __slots__ = ()

    def undo(self, steps: int = 1, *, message: str | None = None) -> Self:
        """Undo the newest changes, like :meth:`hubarray.Array.undo`, if they changed only this array.

        Raises
        ------
        ConfigError
            One of them also changed something else in the dataset. ``dataset.undo()`` undoes whole commits.
        NotFoundError, ConflictError
        """
        self._refuse_changes_of_others(steps)
        return super().undo(steps, message=message)

    def __reduce__(self) -> tuple[Any, ...]:
        number = self._record().head.number
        return _restored, (self._root, self._version.name, number, self._key, self._pinned is not None, self._id)


def _restored(root: Root, name: Name, number: int, key: str, pinned: bool, id: str) -> DatasetArray:
    version, record = unpickled(root, name, number, pinned=pinned)
    array = DatasetArray(root, version, view(record, key), pinned=pinned)
    if description_of(record).arrays[key].id != id:
        raise ConflictError(f"{record.name}: its array {key!r} was replaced; take it from the dataset again")
    return array
