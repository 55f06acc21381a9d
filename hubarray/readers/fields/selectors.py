"""Selectors: which row groups a reader looks at, by an index of them. Named as Petastorm's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hubarray.errors import ConfigError


class RowGroupIndex(Protocol):
    """An index of row groups, which :func:`hubarray.petastorm.build_rowgroup_index` made."""

    def get_row_group_indexes(self, value_key: Any = None) -> set[int]:
        """The numbers of the row groups that have a value."""


class RowGroupSelectorBase:
    """Base class of selectors; yours has :meth:`get_index_names` and :meth:`select_row_groups`."""

    def get_index_names(self) -> list[str]:
        """The indexes that it looks into."""
        raise NotImplementedError

    def select_row_groups(self, index_dict: Mapping[str, RowGroupIndex]) -> set[int]:
        """The numbers of the row groups to read.

        Parameters
        ----------
        index_dict : mapping of str to RowGroupIndex
            Each index of the dataset by its name.
        """
        raise NotImplementedError


class SingleIndexSelector(RowGroupSelectorBase):
    """Row groups that have one of some values in an index.

    Parameters
    ----------
    index_name : str
    values_to_select : list
    """

    def __init__(self, index_name: str, values_to_select: Sequence[Any]) -> None:
        self._name, self._values = index_name, list(values_to_select)

    def get_index_names(self) -> list[str]:
        """The indexes that it looks into."""
        return [self._name]

    def select_row_groups(self, index_dict: Mapping[str, RowGroupIndex]) -> set[int]:
        """The numbers of the row groups to read."""
        index = index_dict[self._name]
        return {number for value in self._values for number in index.get_row_group_indexes(value)}


class _SeveralSelector(RowGroupSelectorBase):
    def __init__(self, single_index_selectors: Sequence[RowGroupSelectorBase]) -> None:
        if not single_index_selectors:
            raise ConfigError(f"{type(self).__name__}: give at least one selector")
        self._selectors = list(single_index_selectors)

    def get_index_names(self) -> list[str]:
        """The indexes that it looks into."""
        return [name for selector in self._selectors for name in selector.get_index_names()]


class IntersectIndexSelector(_SeveralSelector):
    """Row groups that all of some selectors select."""

    def select_row_groups(self, index_dict: Mapping[str, RowGroupIndex]) -> set[int]:
        """The numbers of the row groups to read."""
        return set.intersection(*(selector.select_row_groups(index_dict) for selector in self._selectors))


class UnionIndexSelector(_SeveralSelector):
    """Row groups that any of some selectors selects."""

    def select_row_groups(self, index_dict: Mapping[str, RowGroupIndex]) -> set[int]:
        """The numbers of the row groups to read."""
        return set.union(*(selector.select_row_groups(index_dict) for selector in self._selectors))
