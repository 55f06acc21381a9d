"""Rows by hash: which split a value falls into, and how often each row of a class is drawn. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import blake3
import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.source import Column, row_values
from hubarray.readers.order.permutation import fractions, hashes_at, key_of, permutation


def check_fractions(parts: Mapping[str, Any]) -> None:
    """Refuse fractions that are none, or more than everything.

    Raises
    ------
    ConfigError
    """
    for name, value in parts.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
            raise ConfigError(f"{name}={value!r}: give a fraction from 0 to 1")
    if not parts:
        raise ConfigError("name the parts and their fractions: train=0.8, val=0.1, test=0.1")
    if sum(parts.values()) > 1 + 1e-9:
        raise ConfigError(f"the fractions {dict(parts)} are {sum(parts.values()):.6g} together; give at most 1")


def value_text(value: Any) -> str:
    """A value as the text that is hashed: equal for a number of any type."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bytes):
        return "b" + plain.hex()
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return f"s{plain}" if isinstance(plain, str) else str(plain)


def value_fractions(column: Column, seed: int) -> np.ndarray:
    """Return a number in [0, 1) for each value, which depends only on the value and the seed.

    The first 8 bytes of BLAKE3 of ``seed:value``, as a fraction.

    Returns
    -------
    ndarray of float64
    """
    known: dict[str, float] = {}
    row_fractions = np.empty(len(column), np.float64)
    for i, value in enumerate(row_values(column)):
        text = value_text(value)
        if text not in known:
            digest = blake3.blake3(f"{seed}:{text}".encode()).digest(8)
            known[text] = float(fractions(np.uint64(int.from_bytes(digest, "little"))))
        row_fractions[i] = known[text]
    return row_fractions


def row_fractions(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a number in [0, 1) for each row number, which depends only on it and the seed."""
    return fractions(hashes_at(rows, seed, int(key_of(1))))


def dealt(where: np.ndarray, parts: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Which rows fall into each part: stretches of the numbers from 0 to 1, in the order of the parts.

    Examples
    --------
    >>> {name: rows.tolist() for name, rows in dealt(np.array([0.1, 0.9, 0.5]), {"a": 0.4, "b": 0.6}).items()}
    {'a': [0], 'b': [1, 2]}
    """
    ends = np.cumsum(list(parts.values()))
    # Whoever gives all of it leaves no row out for the last digit of a sum.
    if ends[-1] > 1 - 1e-9:
        ends[-1] = 1.0
    numbers = np.searchsorted(ends, where, "right")
    return {name: np.flatnonzero(numbers == i) for i, name in enumerate(parts)}


def drawn(column: Column, weights: Mapping[Any, float] | None, rows: int | None, seed: int) -> np.ndarray:
    """Rows such that values come as often as their weights say; every row of a value equally often, give or take one.

    Parameters
    ----------
    column : Column
    weights : mapping of value to float, or None
        Equal by default; values that are not named are left out.
    rows : int, optional
        How many in all; by default as few as leave no row of a weighted value out.
    seed : int

    Returns
    -------
    ndarray of int64
        Rising.

    Raises
    ------
    ConfigError
    """
    by_value: dict[Any, list[int]] = {}
    for i, value in enumerate(row_values(column)):
        by_value.setdefault(value.item() if isinstance(value, np.generic) else value, []).append(i)
    shares = dict.fromkeys(by_value, 1.0) if weights is None else dict(weights)
    for value, weight in shares.items():
        if value not in by_value:
            raise ConfigError(f"weights: no row has {value!r}; values are {_shown_values(list(by_value))}")
        if not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
            raise ConfigError(f"weights: {value!r} has weight {weight!r}; give a number from 0 on")
    shares = {value: weight for value, weight in shares.items() if weight > 0}
    total = sum(shares.values())
    if not shares:
        raise ConfigError("weights: no value has any")
    target_rows = rows
    if target_rows is None:
        target_rows = int(np.ceil(max(len(by_value[value]) * total / weight for value, weight in shares.items())))
        if target_rows > 1000 * max(1, len(column)):
            raise ConfigError(
                f"to include every row, {target_rows:,} rows would be drawn from {len(column):,}; give num_rows="
            )
    quotas = _quotas([weight / total for weight in shares.values()], target_rows)
    parts = []
    for (value, _), quota in zip(shares.items(), quotas, strict=True):
        of_it = np.asarray(by_value[value], np.int64)
        times, over = divmod(quota, len(of_it))
        text = int.from_bytes(blake3.blake3(value_text(value).encode()).digest(8), "little")
        parts += [np.repeat(of_it, times), of_it[permutation(len(of_it), seed, text)[:over]]]
    return np.sort(np.concatenate(parts)).astype(np.int64)


def _quotas(shares: Sequence[float], rows: int) -> list[int]:
    """Whole numbers that add up to the rows, each at most one from its share."""
    ends = np.floor(np.cumsum(shares) * rows + 0.5).astype(np.int64)
    ends[-1] = rows
    return np.diff(ends, prepend=0).tolist()


def _shown_values(values: list[Any]) -> str:
    return ", ".join(map(repr, values[:8])) + (", ..." if len(values) > 8 else "")
