"""Indexes of row groups: which of them have a value. Ours are JSON beside the files; Petastorm's pickled ones are read.

`_hubarray_index.json` has `version`, `files` (path, size, time and row groups of each, in the order that numbers row
groups) and `indexes` by name: `field`, and `values`, pairs of a value and the numbers of the row groups that have it,
or `rows`, the numbers of those where the field is not null.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.limits import parse_json
from hubarray.readers.parquet import petastorm_metadata
from hubarray.readers.parquet.files import read_small
from hubarray.readers.parquet.pickled import pickled_indexes

NAME = "_hubarray_index.json"
MAX_BYTES = 1 << 30
_MAX_VALUES, _MAX_VALUES_OF_GROUP = 1 << 18, 1 << 14
VALUES = (str, int, float, bool)


@dataclass(frozen=True)
class SingleFieldIndexer:
    """An index of the values of a field; of a list, of what is in it.

    Parameters
    ----------
    index_name, index_field : str
    """

    index_name: str
    index_field: str


@dataclass(frozen=True)
class FieldNotNullIndexer:
    """An index of the row groups in which a field is not always null.

    Parameters
    ----------
    index_name, index_field : str
    """

    index_name: str
    index_field: str


class _Index:
    """Row groups by value, or of any value."""

    def __init__(self, name: str, values: Mapping[Any, Sequence[int]], rows: Sequence[int] | None = None) -> None:
        self._name, self._values, self._rows = name, values, rows

    def get_row_group_indexes(self, value_key: Any = None) -> set[int]:
        """The numbers of the row groups that have a value."""
        if self._rows is not None:
            return set(self._rows)
        value = value_key.item() if isinstance(value_key, np.generic) else value_key
        if not isinstance(value, Hashable):
            raise ConfigError(
                f"rowgroup_selector: {str(value)[:80]} is not a value of an index; give text, numbers or bools"
            )
        if value not in self._values:
            raise SourceError(f"rowgroup_selector: index {self._name!r} has no value {value_key!r}")
        return set(self._values[value])


def files_of(source: Any) -> list[list[Any]]:
    """The files of a source as an index notes them, each with its number of row groups."""
    groups = [0] * len(source.files)
    for f, _ in source.units:
        groups[f] += 1
    return [[*file.state, count] for file, count in zip(source.files, groups, strict=True)]


def parse_indexes(data: bytes, where: str, groups: int) -> dict[str, Any]:
    """The contents of an index file, checked as far as its outline.

    Raises
    ------
    SourceError
    """
    try:
        # A row group may have some thousands of values of its own.
        parsed = parse_json(data, max_values=_MAX_VALUES + _MAX_VALUES_OF_GROUP * groups)
        if parsed["version"] != 1:
            raise SourceError(f"{where}: was written by a newer hubarray; upgrade, or build the index again")
        if not isinstance(parsed["files"], list) or not isinstance(parsed["indexes"], dict):
            raise ValueError("it has no files, or no indexes")
    except SourceError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{where}: is damaged: {str(error)[:200]}. Build the index again") from None
    return dict(parsed)


def indexes_of(source: Any) -> dict[str, _Index]:
    """The indexes of a dataset, by their names.

    Raises
    ------
    SourceError
        They are damaged, or of other files.
    ConfigError
        There are none.
    """
    data = read_small(source.location, NAME, MAX_BYTES)
    where = f"{source.where}/{NAME}"
    if data is None:
        common = petastorm_metadata.common_metadata(source.location) or {}
        if petastorm_metadata.PICKLED_INDEX_KEY not in common:
            raise ConfigError(
                f"{source.where}: has no index of row groups; hub.petastorm.build_rowgroup_index makes one"
            )
        _check_counted(source, common.get(petastorm_metadata.ROW_GROUPS_KEY))
        indexes = pickled_indexes(common[petastorm_metadata.PICKLED_INDEX_KEY], source.where)
        return {name: _Index(name, values) for name, values in indexes.items()}
    parsed = parse_indexes(data, where, len(source.units))
    if parsed["files"] != files_of(source):
        raise SourceError(f"{where}: describes other files than there are; build the index again")
    most = len(source.units)
    try:
        return {name: _index(name, index_json, most) for name, index_json in parsed["indexes"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{where}: is damaged: {str(error)[:200]}. Build the index again") from None


def _check_counted(source: Any, counted: bytes | None) -> None:
    """Refuse an index of Petastorm's that numbers row groups of other files than there are."""
    try:
        counted_groups = parse_json(counted or b"null")
    except ValueError:
        counted_groups = None
    if counted_groups != {file[0]: file[-1] for file in files_of(source)}:
        raise SourceError(
            f"{source.where}: its index of row groups describes other files than there are; "
            "hub.petastorm.build_rowgroup_index makes a new one"
        )


def _index(name: str, index_json: Any, most: int) -> _Index:
    if "rows" in index_json:
        return _Index(name, {}, _numbers(index_json["rows"], most))
    values = {}
    for key, rows in index_json["values"]:
        if not isinstance(key, VALUES):
            raise ValueError("a value is neither text, a number nor a boolean")
        values[key] = _numbers(rows, most)
    return _Index(name, values)


def _numbers(numbers: Any, most: int) -> list[int]:
    if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < most for number in numbers):
        raise ValueError("it names row groups that are not there")
    return numbers
