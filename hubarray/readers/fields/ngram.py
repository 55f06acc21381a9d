"""N-grams: windows of consecutive rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from numbers import Number
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, UnsortedRowsError
from hubarray.readers.fields.unischema import Unischema, UnischemaField, match_unischema_fields

FieldPattern = UnischemaField | str


class NGram:
    """Windows of consecutive rows whose time differences do not exceed a threshold.

    An item of the reader is a dictionary with a row of the named fields per offset.

    Parameters
    ----------
    fields : dict of int to list of (UnischemaField or str)
        The fields at each offset, with patterns as in ``schema_fields``. Offsets between the smallest and the largest
        are part of the window, even if they are not named.
    delta_threshold : number or timedelta
        Maximum increase of ``timestamp_field`` from one row to the next; a ``timedelta64`` for times.
    timestamp_field : UnischemaField or str
        A field, or a pattern that matches the whole name of exactly one field.
    timestamp_overlap : bool
        Whether windows may share rows. If not, each window starts after the end of the previous one.
    schema : Unischema, optional
        Schema of the dataset. The default is that of the reader.
    across_row_groups : bool
        Whether windows may span row groups, in one file or in consecutive files. In a table, windows never leave a
        partition, and always span blocks.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.NGram({-1: ["id"], 0: ["id", "image"]}, delta_threshold=4, timestamp_field="id").length
    2
    """

    def __init__(
        self,
        fields: Mapping[int, Sequence[FieldPattern]],
        delta_threshold: Any,
        timestamp_field: FieldPattern,
        timestamp_overlap: bool = True,
        *,
        schema: Unischema | None = None,
        across_row_groups: bool = False,
    ) -> None:
        if not isinstance(fields, Mapping) or not fields or not all(type(key) is int for key in fields):
            raise ConfigError("NGram: fields is a dictionary of offsets, such as {0: ['id'], 1: ['id', 'image']}")
        if not all(isinstance(names, (list, tuple)) for names in fields.values()):
            raise ConfigError("NGram: of each offset, fields has a list of names")
        if isinstance(delta_threshold, timedelta):
            delta_threshold = np.timedelta64(delta_threshold)
        if not isinstance(delta_threshold, (Number, np.timedelta64)):
            raise ConfigError(f"NGram: delta_threshold={delta_threshold!r} is not a number")
        if not isinstance(timestamp_field, (str, UnischemaField)):
            raise ConfigError(f"NGram: timestamp_field={timestamp_field!r} is not a field")
        self._patterns = {key: list(fields[key]) for key in sorted(fields)}
        self.delta_threshold = delta_threshold
        if not isinstance(timestamp_overlap, (bool, np.bool_)):
            raise ConfigError(f"NGram: timestamp_overlap={timestamp_overlap!r}: give True or False")
        self.timestamp_field = timestamp_field if isinstance(timestamp_field, str) else timestamp_field.name
        self.timestamp_overlap = bool(timestamp_overlap)
        self.across_row_groups = across_row_groups
        self._resolved: dict[int, list[UnischemaField]] | None = None
        if schema is not None:
            self.resolve(schema)

    @property
    def length(self) -> int:
        """Number of rows of a window."""
        return max(self._patterns) - min(self._patterns) + 1

    @property
    def first_offset(self) -> int:
        """The offset of the first row of a window, its anchor."""
        return min(self._patterns)

    @property
    def fields(self) -> dict[int, list[UnischemaField]]:
        """The fields of each offset, after :meth:`resolve`."""
        if self._resolved is None:
            raise ConfigError("NGram: its fields are known when a reader, or schema=, has said the schema")
        return self._resolved

    def resolve(self, schema: Unischema) -> None:
        """Find the fields that match the patterns.

        Raises
        ------
        ConfigError
            A pattern matches no field, or the pattern of the timestamp does not match exactly one.
        """
        self._resolved = {
            key: match_unischema_fields(schema, patterns) if patterns else []
            for key, patterns in self._patterns.items()
        }
        if self.timestamp_field not in schema.fields:
            timestamp_names = [field.name for field in match_unischema_fields(schema, [self.timestamp_field])]
            if len(timestamp_names) != 1:
                raise ConfigError(
                    f"NGram: timestamp_field={self.timestamp_field!r} matches {', '.join(timestamp_names)[:200]}; "
                    "windows follow one of them"
                )
            self.timestamp_field = timestamp_names[0]

    def field_names(self) -> list[str]:
        """Return the names of all fields of a window, including the timestamp."""
        names = {field.name for fields in self.fields.values() for field in fields}
        return sorted(names | {self.timestamp_field})

    def anchors(self, timestamps: np.ndarray, breaks: np.ndarray | None = None) -> np.ndarray:
        """Return the positions of the first rows of windows.

        Parameters
        ----------
        timestamps : ndarray
            Timestamps of the rows, in their order.
        breaks : ndarray of bool, optional
            For each row, whether windows end before it.

        Raises
        ------
        UnsortedRowsError
            The timestamps decrease within a window.
        ConfigError
            The threshold is a number and the timestamps are times, or the other way around.

        Examples
        --------
        >>> import numpy as np
        >>> gram = NGram({0: ["id"], 1: ["id"]}, 4, "id")
        >>> gram.anchors(np.array([0, 3, 8, 10, 11, 20, 23])).tolist()
        [0, 2, 3, 5]
        """
        count, length = len(timestamps), self.length
        if count < length:
            return np.zeros(0, np.int64)
        steps = _steps(timestamps)
        joined = np.ones(len(steps), bool) if breaks is None else ~breaks[1:]
        if length > 1 and (joined & (timestamps[1:] < timestamps[:-1])).any():
            raise UnsortedRowsError(
                f"NGram: rows are not sorted by {self.timestamp_field!r}; sort the index of a table by it, or the "
                "dataset when it is written"
            )
        if length > 1 and (steps.dtype.kind == "m") != isinstance(self.delta_threshold, np.timedelta64):
            kind_text = "are times: give a timedelta" if steps.dtype.kind == "m" else "are numbers: give a number"
            raise ConfigError(
                f"NGram: delta_threshold={self.delta_threshold!r}, and {self.timestamp_field!r} {kind_text}"
            )
        close = joined & _at_most(steps, self.delta_threshold)
        # How many of the steps of each window are close enough.
        sums = np.concatenate([[0], np.cumsum(close)])
        whole = np.flatnonzero(sums[length - 1 :] - sums[: count - length + 1] == length - 1)
        if self.timestamp_overlap or not len(whole):
            return whole
        taken, after = [], None
        starts = np.zeros(count, np.int64) if breaks is None else np.cumsum(breaks)
        stretch = -1
        for at in whole.tolist():
            if starts[at] != stretch:
                stretch, after = starts[at], None
            if after is None or timestamps[at] > after:
                taken.append(at)
                after = timestamps[at + length - 1]
        return np.asarray(taken, np.int64)


def _steps(timestamps: np.ndarray) -> np.ndarray:
    """From each to the next, where they grow: integers without a sign, which have room for every step."""
    if timestamps.dtype.kind in "iu":
        wide = timestamps.astype(np.int64 if timestamps.dtype.kind == "i" else np.uint64).view(np.uint64)
        return wide[1:] - wide[:-1]
    differences: np.ndarray = timestamps[1:] - timestamps[:-1]
    return differences


def _at_most(steps: np.ndarray, threshold: Any) -> np.ndarray:
    if steps.dtype.kind == "u":
        if not threshold >= 0:
            return np.zeros(len(steps), bool)
        threshold = np.uint64(min(math.floor(min(threshold, 2**64)), 2**64 - 1))
    is_close: np.ndarray = steps <= threshold
    return is_close
