"""Which rows a window may be made of: stretches of a source, and the anchors in them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from hubarray import process
from hubarray.errors import ConfigError
from hubarray.readers.ngram import NGram
from hubarray.readers.predicates import PredicateBase, mask_of
from hubarray.readers.source import Source, taken, users_function

_KEPT = 64


def stretch_bounds(source: Source, across: bool) -> np.ndarray:
    """The first row of each stretch that no window leaves, and the number of all rows."""
    told = getattr(source, "stretches", None)
    if told is not None:
        found: np.ndarray = told(across)
        return found
    return np.asarray([0, source.rows], np.int64)


class Stretches:
    """The windows of a source's stretches; those looked at last are remembered.

    Parameters
    ----------
    source : Source
    ngram : NGram
    predicate : PredicateBase or None
        Windows are made of the rows that it includes.
    """

    def __init__(self, source: Source, ngram: NGram, predicate: PredicateBase | None) -> None:
        self._source, self._ngram, self._predicate = source, ngram, predicate
        self._bounds = stretch_bounds(source, ngram.across_row_groups)
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return Stretches, (self._source, self._ngram, self._predicate)

    def windows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The windows that begin at some rows.

        Returns
        -------
        (slots, windows)
            Which of the rows begin one, and the rows that each is made of.
        """
        numbers = np.searchsorted(self._bounds, rows, "right") - 1
        slots, found = [], []
        for number in np.unique(numbers).tolist():
            passing, anchors = self._stretch(number)
            here = np.flatnonzero(numbers == number)
            first_rows = passing[anchors]
            at = np.searchsorted(first_rows, rows[here])
            begins = (at < len(first_rows)) & (first_rows[np.minimum(at, max(0, len(first_rows) - 1))] == rows[here]
                                               if len(first_rows) else np.zeros(len(here), bool))  # fmt: skip
            slots.append(here[begins])
            starts = anchors[at[begins]]
            found.append(passing[starts[:, None] + np.arange(self._ngram.length)[None, :]])
        if not slots:
            return np.zeros(0, np.int64), np.zeros((0, self._ngram.length), np.int64)
        order = np.argsort(np.concatenate(slots), kind="stable")
        return np.concatenate(slots)[order], np.concatenate(found)[order]

    def _stretch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        with self._lock:
            known = self._known.get(number)
            if known is not None:
                self._known.move_to_end(number)
                return known
        rows = np.arange(self._bounds[number], self._bounds[number + 1])
        field = self._ngram.timestamp_field
        names = {field} | (self._predicate.get_fields() if self._predicate is not None else set())
        columns = dict(self._source.read(rows, sorted(names)))
        if self._predicate is not None:
            asked = {name: columns[name] for name in sorted(self._predicate.get_fields())}
            with users_function(self._source, rows):
                mask = mask_of(self._predicate, asked, len(rows), batched=False)
            rows, times = rows[mask], taken(columns[field], mask)
        else:
            times = columns[field]
        stamps = np.asarray(times)
        if stamps.dtype.kind not in "iufmM" and len(rows):
            raise ConfigError(f"NGram: {field!r} holds nulls, or what has no order in time")
        found = rows, self._ngram.anchors(stamps) if len(rows) else np.zeros(0, np.int64)
        with self._lock:
            self._known[number] = found
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found
