"""Permutations that are the same everywhere and for ever. Pure.

A state that was saved years ago must still mean the same order, so no library's generator is used: its stream may
change between versions. A permutation is the argsort of splitmix64's outputs (Steele, Lea and Flood, "Fast
splittable pseudorandom number generators", 2014); its finaliser is a bijection, so there are no ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, of uint64."""
    with np.errstate(over="ignore"):
        mixed = (values ^ (values >> _SHIFTS[0])) * _MULTIPLIERS[0]
        mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _MULTIPLIERS[1]
    value: np.ndarray = mixed ^ (mixed >> _SHIFTS[2])
    return value


def key_of(*numbers: int) -> np.uint64:
    """A key that names a permutation: each number, below 2**64, mixed into what came before it.

    Examples
    --------
    >>> int(key_of(0, 1)) != int(key_of(1, 0))
    True
    """
    key = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for number in numbers:
            key = mix(key + _GOLDEN + mix(np.asarray([number % (1 << 64)], np.uint64) + _GOLDEN))
    derived: np.uint64 = key[0]
    return derived


def hashes(count: int, *key: int, first: int = 0) -> np.ndarray:
    """As many outputs of splitmix64 from a state that the key names, all different.

    Parameters
    ----------
    count : int
    *key : int
    first : int
        The number of the first one; output ``i`` does not depend on how many are asked for.

    Returns
    -------
    ndarray of uint64
    """
    return hashes_at(np.arange(first, first + count, dtype=np.uint64), *key)


def hashes_at(numbers: np.ndarray, *key: int) -> np.ndarray:
    """Those outputs of :func:`hashes` that have some numbers, which are not negative."""
    with np.errstate(over="ignore"):
        return mix(key_of(*key) + (numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def permutation(count: int, *key: int) -> np.ndarray:
    """The numbers below ``count`` in an order that the key names.

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> permutation(6, 0, 0).tolist()
    [0, 2, 3, 5, 1, 4]
    """
    return np.argsort(hashes(count, *key)).astype(np.int64, copy=False)


def fractions(values: Any) -> np.ndarray:
    """Hashes as float64 from 0 on and below 1, by their upper 53 bits."""
    return (np.asarray(values, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def chosen_seed() -> int:
    """A seed that differs from run to run."""
    drawn = np.random.SeedSequence().generate_state(1, np.uint64)[0]
    return int(key_of(int(drawn)) >> np.uint64(2))
