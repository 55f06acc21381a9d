"""Parquet and Petastorm datasets as a source of epochs: a unit is a row group."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import blake3
import numpy as np
import pyarrow as pa

from hubarray import config, process
from hubarray.blobs.disk_cache import DiskCache
from hubarray.errors import ConfigError, SourceError
from hubarray.limits import Budget
from hubarray.parquet_limits import read_row_group
from hubarray.readers.fields.arrow_fields import column_of
from hubarray.readers.fields.cell_codecs import CompressedImageCodec, CompressedNdarrayCodec
from hubarray.readers.fields.filters import FilterPredicate
from hubarray.readers.fields.predicates import PredicateBase, clause_of, in_set
from hubarray.readers.fields.selectors import RowGroupSelectorBase
from hubarray.readers.fields.source import Column, Columns, SegmentedRows, taken
from hubarray.readers.fields.unischema import Unischema, UnischemaField, no_field, schema_of
from hubarray.readers.order.planning import EXPANSION
from hubarray.readers.parquet import petastorm_metadata, pruning, summary
from hubarray.readers.parquet.cells import decoded, placed
from hubarray.readers.parquet.files import DataFile, Location, listed_of, located, requested
from hubarray.readers.parquet.footers import (
    Footer,
    cache_key,
    footers_of,
    keep,
    kept_in,
    metadata,
    opened_as_listed,
)  # fmt: skip
from hubarray.readers.parquet.indexes import indexes_of
from hubarray.readers.parquet.keys import NULL_KEY, key_value
from hubarray.redaction import shown_text
from hubarray.tables.format.conditions import Clause

# Of a row of a row group, whatever its columns are: its places in orders of rows, while it is read.
_ROW_BYTES = 64
# No more digits than an int64 holds in any case.
_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class ParquetSource:
    """Rows of Parquet files. See :class:`hubarray.readers.fields.source.Source`.

    Made by :func:`parquet_source`.

    Attributes
    ----------
    is_petastorm : bool
        Whether a Unischema says how cells are decoded.
    files : list of DataFile
    """

    chunk_rows = 1
    # Files that were left out because their footers could not be read.
    files_skipped = 0

    def __init__(
        self,
        location: Location,
        files: Sequence[DataFile],
        footers: Sequence[Footer],
        schema: Unischema | None,
        *,
        units: Sequence[tuple[int, int]] | None = None,
        cache: tuple[str, int] | None = None,
        max_decoded_bytes: int | None = None,
    ) -> None:
        # Looked up here: the settings of another process are none of this source's.
        self._max_decoded_bytes = config.max_decoded_bytes(max_decoded_bytes)
        self.location, self.files = location, list(files)
        self.where = location.where
        self.is_petastorm = schema is not None
        self._footers = list(footers)
        self._declared = schema
        self._cache_place = cache
        arrow = self._common_schema()
        self._keys = [file.keys for file in self.files]
        self.key_fields = self._key_fields(arrow)
        if schema is None:
            schema = schema_of("parquet", arrow, self.key_fields.values())
            if not schema.fields:
                raise no_field(schema, next(iter(arrow.names), ""), self.where)
        self.schema = schema
        # Of each unit its file, and the row group in it.
        every = [(f, g) for f, footer in enumerate(self._footers) for g in range(len(footer.rows))]
        self.units: list[tuple[int, int]] = list(every if units is None else units)
        lengths = [self._footers[f].rows[g] for f, g in self.units]
        Budget(self._max_decoded_bytes, f"{self.where}: a row group").take(_ROW_BYTES * max(lengths, default=0))
        self.unit_bounds: np.ndarray | None = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.rows = int(self.unit_bounds[-1])
        sizes = sum(self._footers[f].sizes[g] for f, g in self.units)
        self.row_bytes = max(1.0, _decoded_bytes(sizes / max(1, self.rows), schema))
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._disk: DiskCache | None = None
        # Of each thread, which reads one run after the other.
        self._counts = threading.local()

    def cache_counts(self) -> tuple[int, int]:
        """Row groups that the disk cache had, and that it had not, of what this thread read."""
        return getattr(self._counts, "hits", 0), getattr(self._counts, "misses", 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (
            self.location, self.files, self._footers, self._declared, self.units, self._cache_place,
            self._max_decoded_bytes,
        )  # fmt: skip

    def with_units(self, units: Sequence[tuple[int, int]]) -> ParquetSource:
        """The same files, of which only some row groups are read."""
        return self._like(units, self._cache_place)

    def cached(self, cache: tuple[str, int]) -> ParquetSource:
        """Return the same row groups with a cache folder of this size."""
        return self._like(self.units, cache)

    def _like(self, units: Sequence[tuple[int, int]], cache: tuple[str, int] | None) -> ParquetSource:
        made = _remade(
            self.location, self.files, self._footers, self._declared, units, cache, self._max_decoded_bytes
        )  # fmt: skip
        made.files_skipped = self.files_skipped
        return made

    def identity(self) -> str:
        """The identity of the files, their sizes and times, and the row groups, independent of their place."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        encoded = json.dumps([[file.state for file in self.files], self.units]).encode()
        return f"Parquet files {blake3.blake3(encoded).hexdigest()[:16]}"

    def unit_of(self, row: int) -> int:
        """The unit that a row is in."""
        assert self.unit_bounds is not None
        return int(np.searchsorted(self.unit_bounds, row, "right")) - 1

    @property
    def is_near(self) -> bool:
        """Whether its files are this machine's."""
        return self.location.client.is_local

    def where_of(self, row: int) -> str:
        """The file and row group of a row, for messages."""
        f, group = self.units[self.unit_of(row)]
        return f"{self.where}/{self.files[f].relative}, row group {group}"

    def key_values(self, f: int) -> dict[str, Any]:
        """The values that the names of a file's folders say."""
        pieces_by_name = {}
        for name, field in self.key_fields.items():
            text = self._keys[f].get(name)
            pieces_by_name[name] = None if text in (None, NULL_KEY) else key_value(field, text)
        return pieces_by_name

    def narrowed(self, predicate: PredicateBase) -> tuple[ParquetSource, PredicateBase | None]:
        """The row groups that a predicate may include rows of; and the predicate, if rows have to be looked at."""
        units, rest = self.kept_units(predicate)
        return self if len(units) == len(self.units) else self.with_units([self.units[i] for i in units]), rest

    def kept_units(self, predicate: PredicateBase) -> tuple[list[int], PredicateBase | None]:
        """As :meth:`narrowed`, the numbers of the units."""
        fields, every = predicate.get_fields(), list(range(len(self.units)))
        if fields <= set(self.key_fields):
            answers = {f: self._included(predicate, f) for f in {f for f, _ in self.units}}
            return [i for i in every if answers[self.units[i][0]]], None
        clauses = self._range_clauses(predicate)
        if clauses is None:
            return every, predicate
        keys = {f: self.key_values(f) for f in {f for f, _ in self.units}}
        answer = pruning.answers(clauses, self.location, self.files, self._footers, self.units, keys, _footer_cache())
        return [i for i in every if answer[i] is not False], predicate if None in answer else None

    def _range_clauses(self, predicate: PredicateBase) -> list[list[Clause]] | None:
        if isinstance(predicate, in_set):
            clause = clause_of(predicate, self.schema)
            return None if clause is None else [[clause]]
        return predicate.range_clauses() if isinstance(predicate, FilterPredicate) else None

    def selected(self, selector: RowGroupSelectorBase) -> ParquetSource:
        """The row groups that a selector selects.

        Raises
        ------
        ConfigError, SourceError
        """
        return self.with_units([self.units[i] for i in sorted(self.selected_units(selector))])

    def selected_units(self, selector: RowGroupSelectorBase) -> set[int]:
        """As :meth:`selected`, the numbers of the units."""
        known = indexes_of(self)
        for name in selector.get_index_names():
            if name not in known:
                raise ConfigError(f"{self.where}: has no index {name!r}; there are {', '.join(sorted(known))[:300]}")
        chosen = selector.select_row_groups(known)
        return {i for i in range(len(self.units)) if i in chosen}

    def row_names(self) -> np.ndarray:
        """A number for each row that stays the same when files are added: of its file's path and its place there."""
        of_file = [int.from_bytes(blake3.blake3(file.relative.encode()).digest()[:7], "little") for file in self.files]
        starts = [np.concatenate([[0], np.cumsum(footer.rows)]) for footer in self._footers]
        row_numbers = np.empty(self.rows, np.int64)
        assert self.unit_bounds is not None
        for (f, group), first, stop in zip(self.units, self.unit_bounds[:-1], self.unit_bounds[1:], strict=True):
            begin = of_file[f] + int(starts[f][group])
            row_numbers[first:stop] = np.arange(begin, begin + stop - first)
        return row_numbers

    def _included(self, predicate: PredicateBase, f: int) -> bool:
        values = self.key_values(f)
        if isinstance(predicate, FilterPredicate):
            return bool(predicate.mask({name: [value] for name, value in values.items()}, 1)[0])
        return bool(predicate.do_include(values))

    def stretches(self, across: bool) -> SegmentedRows:
        """The row groups; or the runs of row groups whose folders say equal keys."""
        assert self.unit_bounds is not None
        if not across:
            return SegmentedRows(self.unit_bounds)
        keys = [self._keys[f] for f, _ in self.units]
        changes = [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]
        return SegmentedRows(np.concatenate([[0], self.unit_bounds[changes], [self.rows]]).astype(np.int64))

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Some columns of some rows, in the order that the rows are given in."""
        assert self.unit_bounds is not None
        # By unit, and within it in the order of the file: a whole row group is then copied once, to where its rows go.
        order = np.argsort(rows, kind="stable")
        units = np.searchsorted(self.unit_bounds, rows[order], "right") - 1
        bounds = [0, *(np.flatnonzero(np.diff(units)) + 1).tolist(), len(rows)] if len(rows) else []
        read_columns: dict[str, Column] = {name: [] for name in columns}
        for a, b in pairwise(bounds):
            unit, places = int(units[a]), order[a:b]
            local = rows[places] - int(self.unit_bounds[unit])
            for name, column in self._unit(unit, local, columns).items():
                read_columns[name] = placed(read_columns[name], column, places, len(rows))
        return read_columns

    def _unit(self, unit: int, local: np.ndarray, columns: Sequence[str]) -> dict[str, Column]:
        f, group = self.units[unit]
        stored = [name for name in columns if name not in self.key_fields]
        try:
            table = self._table(f, group, stored) if stored else None
        except SourceError as error:
            assert self.unit_bounds is not None
            # Nothing of it can be read.
            error.damaged_rows = range(int(self.unit_bounds[unit]), int(self.unit_bounds[unit + 1]))
            raise
        count = self._footers[f].rows[group]
        if table is not None and table.num_rows != count:
            raise SourceError(f"{self._named(f, group)}: has {table.num_rows} rows, and its footer said {count}")
        whole = len(local) == count and bool((local == np.arange(count)).all())
        read_columns: dict[str, Column] = {}
        budget = Budget(self._max_decoded_bytes, self._named(f, group))
        for name in columns:
            if table is None or name not in stored:
                read_columns[name] = self._key_column(f, name, len(local))
                continue
            column = table.column(name)
            field = self.schema.fields[name]
            try:
                if self.is_petastorm:
                    chosen = column if whole else column.take(pa.array(local))
                    read_columns[name] = decoded(field, chosen, budget)
                else:
                    plain = column_of(column)
                    read_columns[name] = plain if whole else taken(plain, local)
            except (SourceError, pa.ArrowException, UnicodeDecodeError) as error:
                raise SourceError(f"{self._named(f, group)}: {shown_text(str(error))[:300]}") from None
        return read_columns

    def stored(self, unit: int, columns: Sequence[str]) -> dict[str, list[Any]]:
        """Cells of a unit as its file has them: encoded ones as bytes."""
        if not columns:
            return {}
        table = self._table(*self.units[unit], columns)
        return {name: table.column(name).to_pylist() for name in columns}

    def _named(self, f: int, group: int) -> str:
        return f"{self.where}/{self.files[f].relative}, row group {group}"

    def _key_column(self, f: int, name: str, rows: int) -> Column:
        value = self.key_values(f)[name]
        if isinstance(value, np.generic) and not isinstance(value, (np.str_, np.bytes_)):
            return np.full(rows, value)
        return [value] * rows

    def _table(self, f: int, group: int, columns: Sequence[str]) -> pa.Table:
        disk = None if self.files[f].is_fresh else self._cache()
        key = ""
        if disk is not None:
            key = cache_key("row group", *self.location.place, *self.files[f].state, group, sorted(columns))
            stored = kept_in(disk, key)
            hits, misses = self.cache_counts()
            self._counts.hits, self._counts.misses = hits + (stored is not None), misses + (stored is None)
            if stored is not None:
                with pa.ipc.open_file(pa.BufferReader(stored)) as file:
                    return file.read_all()
        file_metadata = metadata.of(self.location, self.files[f])
        rows = self._footers[f].rows
        if file_metadata.num_row_groups != len(rows) or file_metadata.row_group(group).num_rows != rows[group]:
            raise SourceError(
                f"{self._named(f, group)}: its footer declares other rows than the summary of the dataset; write the "
                "summary anew, or delete it"
            )
        table = requested(
            self.location, self._named(f, group), partial(self._row_group, f, group, file_metadata, columns)
        )
        stored_names = set(table.column_names)
        missing = [name for name in columns if name not in stored_names]
        if missing:
            raise SourceError(f"{self._named(f, group)}: has no column {shown_text(missing[0])!r}")
        if disk is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as out:
                out.write_table(table)
            keep(disk, key, memoryview(sink.getvalue()))
        return table

    def _row_group(self, f: int, group: int, file_metadata: Any, columns: Sequence[str]) -> pa.Table:
        with opened_as_listed(self.location, self.files[f]) as opened:
            metadata.require_same(self.location, self.files[f], opened)
            return read_row_group(
                opened, file_metadata, group, columns, max_bytes=self._max_decoded_bytes, where=self._named(f, group),
                is_remote=not self.is_near,
            )  # fmt: skip

    def _cache(self) -> DiskCache | None:
        if self._cache_place is None:
            return None
        with self._lock:
            if self._disk is None:
                self._disk = DiskCache(*self._cache_place)
            return self._disk

    def _common_schema(self) -> pa.Schema:
        first = self._footers[0].schema
        if len(set(first.names)) != len(first.names):
            raise SourceError(f"{self.where}: has two columns of one name")
        for file, footer in zip(self.files, self._footers, strict=True):
            if footer.schema is first or footer.schema.equals(first):
                continue
            difference = _difference(first, footer.schema)
            if difference:
                raise SourceError(
                    f"{self.where}/{shown_text(file.relative)}: {difference} in {shown_text(self.files[0].relative)}; "
                    "files of a dataset have equal columns: read those that have as datasets of their own"
                )
        return first

    def _key_fields(self, arrow: pa.Schema) -> dict[str, UnischemaField]:
        names = list(dict.fromkeys(name for keys in self._keys for name in keys))
        columns = {}
        for name in names:
            if name in arrow.names:
                continue
            if self._declared is not None:
                if name in self._declared.fields:
                    columns[name] = self._declared.fields[name]
                continue
            values = {None if keys.get(name) == NULL_KEY else keys.get(name) for keys in self._keys}
            whole = all(value is None or _WHOLE_NUMBER.fullmatch(value) for value in values)
            kind: Any = np.int64 if whole else np.str_
            columns[name] = UnischemaField(name, kind, (), None, None in values)
        return columns


def _remade(
    location: Location,
    files: list[DataFile],
    footers: list[Footer],
    schema: Unischema | None,
    units: Sequence[tuple[int, int]],
    cache: tuple[str, int] | None,
    max_decoded_bytes: int | None = None,
) -> ParquetSource:
    return ParquetSource(
        location, files, footers, schema, units=units, cache=cache, max_decoded_bytes=max_decoded_bytes
    )  # fmt: skip


def _footer_cache() -> DiskCache | None:
    settings = config.current()
    return DiskCache(settings.cache_dir, settings.disk_cache_bytes) if settings.disk_cache_bytes else None


def _decoded_bytes(stored: float, schema: Unischema) -> float:
    """About what a row takes once its cells are decoded."""
    fields = [field for field in schema.fields.values() if field.codec is not None and field.shape]
    kinds = [
        field.codec.image_codec if isinstance(field.codec, CompressedImageCodec) else "other"
        for field in fields
        if None in field.shape and isinstance(field.codec, (CompressedImageCodec, CompressedNdarrayCodec))
    ]
    fixed = sum(
        math.prod(n for n in field.shape if n is not None) * np.dtype(field.numpy_dtype).itemsize
        for field in fields
        if None not in field.shape and np.dtype(field.numpy_dtype).kind in "biufc"
    )
    return max(float(fixed), stored * max((EXPANSION[kind] for kind in kinds), default=1.0))


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    """How the columns of two files differ, in words; empty where they do not."""
    for name in first.names:
        if name not in other.names:
            return f"has no column {shown_text(name)[:80]!r}, which there is"
        first_type, other_type = first.field(name).type, other.field(name).type
        if first_type != other_type:
            return f"column {shown_text(name)[:80]!r} is of {shown_text(str(other_type))[:80]}, and of {first_type}"
    extra = [name for name in other.names if name not in first.names]
    return f"has a column {shown_text(extra[0])[:80]!r} that is not expected" if extra else ""


def parquet_source(
    paths: Paths,
    *,
    storage_options: Mapping[str, Any] | None = None,
    cache: tuple[str, int] | None = None,
    skip_errors: bool = False,
    max_decoded_bytes: int | None = None,
) -> ParquetSource:
    """Open a Parquet dataset: its files are listed, and their footers read where no summary has them.

    Parameters
    ----------
    paths : path, URL, or a list of them
    cache : (folder, bytes), optional
        A disk cache for row groups.
    skip_errors : bool
        Leave out files whose footers cannot be read, with a warning.
    max_decoded_bytes : int, optional
        How many bytes the columns of a row group may decode to. The default is the setting.

    Raises
    ------
    NotFoundError, SourceError, ConfigError
    """
    places = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not places:
        raise ConfigError("give at least one path or URL of Parquet files")
    location, files = listed_of([located(path, storage_options) for path in places])
    schema, known = None, {}
    if len(places) == 1 and not files[0].is_named:
        schema = petastorm_metadata.schema_of(location)
        known = summary.known_footers(location, files)
    elif len(places) == 1:
        schema = petastorm_metadata.schema_in_file(location, files[0], skip_errors=skip_errors)
    if schema is None:
        schema = petastorm_metadata.schema_above(location, files[0])
        if schema is not None:
            # Folders above the one that was named say columns, too.
            files = [replace(file, is_named=True) for file in files]
    disk = _footer_cache()
    footers, refused = footers_of(location, files, known, disk, skip_errors=skip_errors)
    files = [file for file in files if file.path not in refused]
    if schema is not None:
        stored = footers[0].schema.names
        lacking = [
            field for field in schema.fields if field not in stored and not any(field in file.keys for file in files)
        ]
        if lacking:
            raise SourceError(
                f"{location.where}: its schema has a field {shown_text(lacking[0])[:80]!r}, which the files do not have"
            )
    source = ParquetSource(location, files, footers, schema, cache=cache, max_decoded_bytes=max_decoded_bytes)
    source.files_skipped = len(refused)
    return source
