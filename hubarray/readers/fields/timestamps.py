"""Moments: times of Python, pandas and NumPy, of whatever unit, as one value to compare. Pure."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np

_NANOSECONDS = {
    "W": 7 * 86_400 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6,
    "us": 10**3, "ns": 1,
}  # fmt: skip


class Moment(NamedTuple):
    """A moment, in nanoseconds since 1970 in UTC."""

    nanoseconds: int


def moment(value: Any) -> Any:
    """The moment that a date or time is; any other value as it is. Those without a zone are of UTC.

    Examples
    --------
    >>> moment(np.datetime64("2020-01-01")) == moment(datetime.date(2020, 1, 1))
    True
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        # Of pandas, which has nanoseconds.
        to_numpy = getattr(value, "to_datetime64", None)
        value = np.datetime64(value, "us") if to_numpy is None else to_numpy()
    elif isinstance(value, datetime.date):
        value = np.datetime64(value, "D")
    if not isinstance(value, np.datetime64) or np.isnat(value):
        return value
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("M8[D]"), "D", 1
    if unit not in _NANOSECONDS:
        return value
    return Moment(int(value.astype(np.int64)) * count * _NANOSECONDS[unit])
