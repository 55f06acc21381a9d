"""Extents: which of a manifest's numbers are those of one member of a version, an array of a dataset. Pure.

A member numbers its blobs from 0. Each extent maps a stretch of these numbers onto one of the manifest's, as long: a
power of two, aligned to itself on both sides. Extents are given out as numbers are first written, so that one that
is mostly empty takes little of the manifest; ``docs/FORMAT.md``, "Datasets", has the rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.errors import ConfigError

Numbers = npt.NDArray[np.uint64]

LEAST = 8
# Of members that are written here and there: so many extents of a size, then larger ones.
_ALIKE = 16
_MAX_DOUBLINGS = 48
# Of more members that grow together so many numbers of all of them, which are a few leaves of the manifest.
_FEW_MEMBERS, _TOGETHER = 8, 1 << 13
MAX_EXTENTS = 4096
_MAX_TRIPLE = 3
MAX_NUMBERS = 1 << 63


def _none() -> Numbers:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class Extents:
    """The extents of one member, by its own numbers.

    Attributes
    ----------
    firsts : array of uint64
        The member's number that each begins with, in order.
    starts : array of uint64
        The manifest's number that each begins with.
    sizes : array of uint64
    """

    firsts: Numbers = field(default_factory=_none)
    starts: Numbers = field(default_factory=_none)
    sizes: Numbers = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extents) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def in_manifest(self, numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The manifest's numbers of the member's, and which have one; the others are 0."""
        return _mapped(numbers, self.firsts, self.starts, self.sizes)

    def in_member(self, numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The member's numbers of the manifest's, and which are the member's at all."""
        order = np.argsort(self.starts)
        return _mapped(numbers, self.starts[order], self.firsts[order], self.sizes[order])

    def includes(self, other: Extents) -> bool:
        """Whether every extent of another is one of these."""
        return {tuple(triple) for triple in other.to_json()} <= {tuple(triple) for triple in self.to_json()}

    def with_room(self, numbers: Numbers, following: int, *, members: int = 1) -> tuple[Extents, int]:
        """Extents that have all of some numbers.

        Parameters
        ----------
        numbers : array of uint64
            The member's, sorted.
        following : int
            The first of the manifest's numbers that nobody has been given.
        members : int
            How many share the manifest. What they write next lies close together, as long as their extents are short.

        Returns
        -------
        (Extents, int)
            And what nobody has been given then.

        Raises
        ------
        ConfigError
            The manifest has no room for them.
        """
        extents, rest = self, numbers
        while True:
            rest = rest[~extents.in_manifest(rest)[1]]
            if not len(rest):
                return extents, following
            extents, following = extents._with_one(int(rest[0]), following, members)

    def _with_one(self, number: int, following: int, members: int) -> tuple[Extents, int]:
        if len(self) >= MAX_EXTENTS:
            raise ConfigError(f"an array was written in more than {MAX_EXTENTS} places apart; use larger chunks")
        size = self._size(number, members)
        first, start = number // size * size, -(-following // size) * size
        if start + size > MAX_NUMBERS:
            raise ConfigError("the arrays have more chunks than a manifest can number; use larger chunks")
        at = int(np.searchsorted(self.firsts, np.uint64(first)))
        made = Extents(
            np.insert(self.firsts, at, np.uint64(first)),
            np.insert(self.starts, at, np.uint64(start)),
            np.insert(self.sizes, at, np.uint64(size)),
        )
        return made, start + size

    def _size(self, number: int, members: int) -> int:
        """How long the extent of a number is: as all there is behind its end, longer where there are many, and free."""
        size = LEAST << min(len(self) // _ALIKE, _MAX_DOUBLINGS)
        if len(self) and number < int(self.firsts[-1] + self.sizes[-1]) + LEAST:
            following = 1 << (int(self.sizes.sum()).bit_length() - 1)
            if members > _FEW_MEMBERS:
                following = min(following, max(LEAST, (1 << (_TOGETHER // members).bit_length()) // 2))
            size = max(size, following)
        while size > LEAST and not self._is_free(number // size * size, size):
            size //= 2
        return size

    def _is_free(self, first: int, size: int) -> bool:
        at = int(np.searchsorted(self.firsts, np.uint64(first), side="right"))
        before = at == 0 or int(self.firsts[at - 1] + self.sizes[at - 1]) <= first
        return before and (at == len(self) or int(self.firsts[at]) >= first + size)

    def without(self, first: int, end: int) -> tuple[Extents, list[tuple[int, int]]]:
        """The rest without a stretch of the member's numbers, and the manifest's stretches that are absent then.

        An extent that the stretch has in part stays.
        """
        stretches, merged = [], []
        for own, start, size in self.to_json():
            low, high = max(own, first), min(own + size, end)
            if low < high:
                stretches.append((start + low - own, start + high - own))
            merged.append(not (first <= own and own + size <= end))
        mask = np.array(merged, bool)
        return Extents(self.firsts[mask], self.starts[mask], self.sizes[mask]), stretches

    def to_json(self) -> list[list[int]]:
        """Triples: first number of the member, first of the manifest, how many."""
        return [
            list(triple) for triple in zip(self.firsts.tolist(), self.starts.tolist(), self.sizes.tolist(), strict=True)
        ]

    @staticmethod
    def from_json(members: Sequence[Sequence[Any]]) -> list[Extents]:
        """Return the extents of several members, from what :meth:`to_json` gave, once :func:`check_triples` saw it."""
        # One array for all: those of a thousand members would take longer to make than to check.
        columns = np.array([*itertools.chain(*members)], np.uint64).reshape(-1, 3).T.copy()
        bounds = itertools.accumulate(map(len, members), initial=0)
        return [Extents(*columns[:, begin:end]) for begin, end in itertools.pairwise(bounds)]


def check_triples(triples: Sequence[Any]) -> None:
    """Check what an untrusted record has as the extents of one member.

    Raises
    ------
    ValueError
    """
    if len(triples) > MAX_EXTENTS:
        raise ValueError(f"has {len(triples)} extents, more than {MAX_EXTENTS}")
    end = 0
    for triple in triples:
        if not isinstance(triple, list) or len(triple) != _MAX_TRIPLE:
            raise ValueError("are not triples of numbers")
        first, start, size = triple
        if not type(first) is type(start) is type(size) is int or first < 0 or start < 0:
            raise ValueError("are not triples of numbers")
        if size < LEAST or size & (size - 1) or first % size or start % size:
            raise ValueError("has an extent that is not a power of two, or not aligned to itself")
        if first < end or start + size > MAX_NUMBERS or first + size > 1 << 64:
            raise ValueError("has extents that overlap, or beyond what can be numbered")
        end = first + size


def are_apart(every: Iterable[Extents], following: int) -> bool:
    """Whether no number of the manifest is in two extents, and none at or behind what nobody has been given."""
    extents = list(every)
    starts = np.concatenate([_none(), *(member.starts for member in extents)])
    ends = starts + np.concatenate([_none(), *(member.sizes for member in extents)])
    order = np.argsort(starts)
    return bool((starts[order][1:] >= ends[order][:-1]).all()) and int(ends.max(initial=0)) <= following


def _mapped(
    numbers: Numbers, firsts: Numbers, starts: Numbers, sizes: Numbers
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    out = np.zeros(len(numbers), np.uint64)
    if not len(firsts) or not len(numbers):
        return out, np.zeros(len(numbers), bool)
    numbers = numbers.astype(np.uint64)
    which = np.searchsorted(firsts, numbers, side="right").astype(np.int64) - 1
    is_inside = which >= 0
    within = numbers - firsts[np.maximum(which, 0)]
    is_inside &= within < sizes[np.maximum(which, 0)]
    out[is_inside] = starts[which[is_inside]] + within[is_inside]
    return out, is_inside
