"""The columns of a loader: what the fields of several tables are called, and which tables stand behind each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hubarray.tables.format.index_column import ServiceColumn
from hubarray.tables.format.schema import PARTITION, Schema


@dataclass(frozen=True)
class Column:
    """A column of a loader: a field, and the tables that have it, of which the first with the row counts."""

    name: str
    field: str
    tables: tuple[int, ...]


def _has_twin(field: str, no_fields: Collection[str], known: Collection[str]) -> bool:
    """Whether a second column of this name got a suffix: then the first is one table's, and no key of both.

    It is a column of the index that is not a field. Some suffixes are known. pandas gives one to every name that both
    indexes have, the partition's too, unless that was dropped.
    """
    suffixes = {name.removeprefix(PARTITION) for name in no_fields if name.startswith(PARTITION)} - {""} | {*known}
    twins = {name.removeprefix(field) for name in no_fields if name.startswith(field)} - {""}
    return bool(twins & suffixes) if suffixes else any(twin.startswith("_") for twin in twins)


def _are_linked(merges: Sequence[set[str]]) -> bool:
    """Whether tables are connected by merges, given those of each."""
    reached = {*merges[0]}
    for _ in merges:
        reached |= {merge for own in merges if own & reached for merge in own}
    return all(own & reached for own in merges)


def name_columns(
    tables: Sequence[tuple[ServiceColumn, Schema]],
    index_names: Collection[str],
    are_exclusive: Callable[[Sequence[int]], bool],
) -> tuple[dict[str, Column], dict[str, str]]:
    """The columns, and the names that several tables claim.

    A field that another table has, too, is called by its name and its table's suffix, but for those that the tables
    were merged on. Tables share a name if their values are the same, or no row is of two of them.

    Parameters
    ----------
    tables : sequence of (ServiceColumn, Schema)
    index_names : collection of str
        The other columns of the index.
    are_exclusive : callable
        Whether no row is of two of some tables, given by their positions.

    Returns
    -------
    (columns, ambiguous)
        Columns by name, in the order of tables and schemas; and for each ambiguous name, its tables.
    """
    having: dict[str, list[int]] = {}
    for i, (_, schema) in enumerate(tables):
        for field in schema:
            having.setdefault(field, []).append(i)

    no_fields = {*index_names} - {*having}

    def is_key(field: str, table_numbers: Sequence[int]) -> bool:
        if _are_linked([{merge[:-1] for merge, name in tables[i][0].on if name == field} for i in table_numbers]):
            return True
        by_pandas = field in index_names and all(tables[i][1][field].index for i in table_numbers)
        suffixes = {tables[i][0].suffix for i in table_numbers} - {""}
        return by_pandas and not _has_twin(field, no_fields, suffixes)

    claimed: dict[str, tuple[str, list[int]]] = {}
    for i, (column, schema) in enumerate(tables):
        for field in schema:
            clashes = len(having[field]) > 1 and not is_key(field, having[field])
            name = field + column.suffix if clashes else field
            claimed.setdefault(name, (field, []))[1].append(i)
    columns, ambiguous = {}, {}
    for name, (field, table_numbers) in claimed.items():
        if len(table_numbers) == 1 or is_key(field, table_numbers) or are_exclusive(table_numbers):
            columns[name] = Column(name, field, tuple(table_numbers))
        else:
            ambiguous[name] = " and ".join(str(tables[i][0].table) for i in table_numbers)
    return columns, ambiguous
