"""Row groups that filters pass over unread, by the keys of folders and the statistics of footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.disk_cache import DiskCache
from hubarray.readers.parquet import statistics, summary
from hubarray.readers.parquet.files import DataFile, Location
from hubarray.readers.parquet.footers import Footer, metadata
from hubarray.tables.format.conditions import Clause
from hubarray.tables.format.statistics import Range, range_answer
from hubarray.threads import Threads

_THREADS = 16


def answers(
    clauses: Sequence[Sequence[Clause]],
    location: Location,
    files: Sequence[DataFile],
    footers: Sequence[Footer],
    units: Sequence[tuple[int, int]],
    keys: Mapping[int, Mapping[str, Any]],
    cache: DiskCache | None,
) -> list[bool | None]:
    """Return for each row group whether all its rows match, none does, or they must be read.

    Files that their folders' names decide are not looked at. The statistics of the others come from ``_metadata``,
    where it says them, or else from their footers.

    Parameters
    ----------
    clauses
        Same as in :func:`hubarray.tables.format.statistics.range_answer`.
    units : sequence of (file, row group)
    keys : mapping of int to mapping
        Of each file the values that the names of its folders say.
    cache : DiskCache or None
        Keeps footers.
    """
    known = {f: _key_ranges(values) for f, values in keys.items()}
    answer_by_file = {f: range_answer(clauses, ranges) for f, ranges in known.items()}
    names = sorted(
        {name for clause in clauses for name, _, _ in clause}
        - {name for names_of_file in keys.values() for name in names_of_file}
    )
    unsure = sorted(f for f, answer in answer_by_file.items() if answer is None) if names else []
    stored = _stored_ranges(location, files, footers, unsure, names, cache)
    return [
        range_answer(clauses, stored[f][group] | known[f])
        if f in stored and group < len(stored[f])
        else answer_by_file[f]
        for f, group in units
    ]


def _key_ranges(values: Mapping[str, Any]) -> dict[str, Range]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return {name: (value, value, False) for name, value in plain.items() if value is not None}


def _stored_ranges(
    location: Location,
    files: Sequence[DataFile],
    footers: Sequence[Footer],
    numbers: Sequence[int],
    fields: Sequence[str],
    cache: DiskCache | None,
) -> dict[int, statistics.Ranges]:
    if not numbers:
        return {}
    summed = summary.ranges(location, [files[f] for f in numbers], fields)
    known_ranges = {}
    for f in numbers:
        ranges = summed.get(files[f].relative, [])
        # Written anew since the dataset was opened, it may be about other row groups.
        if len(ranges) == len(footers[f].rows):
            known_ranges[f] = ranges
    left = [f for f in numbers if f not in known_ranges]
    if left:
        with Threads(min(_THREADS, len(left)), "hubarray-footers") as threads:
            read = list(threads.map(lambda f: metadata.of(location, files[f], cache), left))
        known_ranges |= dict(zip(left, statistics.ranges(read, fields), strict=True))
    return known_ranges
