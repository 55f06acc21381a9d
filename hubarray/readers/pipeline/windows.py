"""Which rows a window may be made of: stretches of a source, and the anchors in them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np

from hubarray import process
from hubarray.errors import ConfigError
from hubarray.readers.fields.ngram import NGram
from hubarray.readers.fields.predicates import PredicateBase, mask_of
from hubarray.readers.fields.source import SegmentedRows, Source, taken, users_function
from hubarray.readers.pipeline.skip_damaged import read_around

_KEPT = 64


def stretched(source: Source, across: bool) -> SegmentedRows:
    """The stretches of a source that no window leaves."""
    stretches = getattr(source, "stretches", None)
    if stretches is None:
        return SegmentedRows(np.asarray([0, source.rows], np.int64))
    segmented: SegmentedRows = stretches(across)
    return segmented


def has_repeated_rows(source: Source) -> bool:
    """Whether some row comes several times, so that it would be a neighbour of itself."""
    repeats = getattr(source, "repeats", None)
    return repeats is not None and bool(repeats())


class WindowIndex:
    """The windows of a source's stretches; those looked at last are remembered.

    Parameters
    ----------
    source : Source
    ngram : NGram
    predicate : PredicateBase or None
        Windows are made of the rows that it includes.
    skip_errors : bool
        Whether to leave out rows whose times or predicate fields cannot be read. No window spans them.
    """

    def __init__(
        self, source: Source, ngram: NGram, predicate: PredicateBase | None, *, skip_errors: bool = False
    ) -> None:
        self._source, self._ngram, self._predicate, self._skip_errors = source, ngram, predicate, skip_errors
        self._bounds, self._order = stretched(source, ngram.across_row_groups)
        self._places: np.ndarray | None = None
        if self._order is not None:
            self._places = np.empty(len(self._order), np.int64)
            self._places[self._order] = np.arange(len(self._order))
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WindowIndex, skip_errors=self._skip_errors), (self._source, self._ngram, self._predicate)

    def windows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """The windows that begin at some rows.

        Returns
        -------
        (slots, windows, skipped)
            Which of the rows begin one, the rows that each is made of, and how many rows were left out.
        """
        numbers = np.searchsorted(self._bounds, rows if self._places is None else self._places[rows], "right") - 1
        slots, spans, skipped = [], [], 0
        for number in np.unique(numbers).tolist():
            passing, anchors, damaged = self._stretch(number)
            skipped += int(np.isin(rows[numbers == number], damaged).sum())
            here = np.flatnonzero(numbers == number)
            first_rows = passing[anchors]
            at = np.searchsorted(first_rows, rows[here])
            begins = (at < len(first_rows)) & (first_rows[np.minimum(at, max(0, len(first_rows) - 1))] == rows[here]
                                               if len(first_rows) else np.zeros(len(here), bool))  # fmt: skip
            slots.append(here[begins])
            starts = anchors[at[begins]]
            spans.append(passing[starts[:, None] + np.arange(self._ngram.length)[None, :]])
        if not slots:
            return np.zeros(0, np.int64), np.zeros((0, self._ngram.length), np.int64), skipped
        order = np.argsort(np.concatenate(slots), kind="stable")
        return np.concatenate(slots)[order], np.concatenate(spans)[order], skipped

    def _stretch(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that windows are made of, the places of those that begin one, and the rows that are damaged."""
        with self._lock:
            known = self._known.get(number)
            if known is not None:
                self._known.move_to_end(number)
                return known
        every = np.arange(self._bounds[number], self._bounds[number + 1])
        every = every if self._order is None else self._order[every]
        field = self._ngram.timestamp_field
        names = sorted({field} | (self._predicate.get_fields() if self._predicate is not None else set()))
        if self._skip_errors:
            is_readable, columns = read_around(self._source, every, names)
        else:
            is_readable, columns = np.ones(len(every), bool), dict(self._source.read(every, names))
        rows, times = every[is_readable], columns[field]
        # Which readable rows follow a damaged one.
        runs = np.cumsum(~is_readable)[is_readable]
        if self._predicate is not None:
            asked = {name: columns[name] for name in sorted(self._predicate.get_fields())}
            with users_function(self._source, rows):
                mask = mask_of(self._predicate, asked, len(rows), batched=False)
            rows, times, runs = rows[mask], taken(times, mask), runs[mask]
        stamps = np.asarray(times)
        if stamps.dtype.kind not in "iufmM" and len(rows):
            raise ConfigError(f"NGram: {field!r} holds nulls, or values without an order in time")
        breaks = None if is_readable.all() else np.concatenate([[False], np.diff(runs) != 0])[: len(rows)]
        anchors = self._ngram.anchors(stamps, breaks) if len(rows) else np.zeros(0, np.int64)
        window_rows = rows, anchors, every[~is_readable]
        with self._lock:
            self._known[number] = window_rows
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return window_rows
