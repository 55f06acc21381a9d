"""Which groups to read for some fields: the cheapest set that has them all. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

EXACT_CANDIDATES = 12


def cheapest(fields: Collection[str], groups: Mapping[str, Collection[str]], costs: Mapping[str, float]) -> list[str]:
    """The set of groups of least cost that together have the fields.

    Parameters
    ----------
    fields : collection of str
        Each in one group at least.
    groups : mapping of str to collection of str
        The fields of each group.
    costs : mapping of str to float
        Of reading a row of each group, in whatever unit: a request and its bytes.

    Returns
    -------
    list of str
        In the order of ``groups``. Exact for up to 12 candidates; above, greedy: the group with the least cost for each
        field that is still missing, again and again, and what turns out to be unneeded is left out.

    Examples
    --------
    >>> cheapest({"x", "y"}, {"a": {"x"}, "b": {"y"}, "c": {"x", "y", "z"}}, {"a": 2, "b": 2, "c": 3})
    ['c']
    """
    wanted = frozenset(fields)
    useful = {name: wanted & frozenset(has) for name, has in groups.items()}
    candidates = [name for name, has in useful.items() if has]
    # What only one group has decides for it.
    sure = {name for one in wanted for name in _only(one, useful)}
    missing = wanted.difference(*(useful[name] for name in sure)) if sure else wanted
    rest = [name for name in candidates if name not in sure and useful[name] & missing]
    choose = _exact if len(rest) <= EXACT_CANDIDATES else _greedy
    chosen = sure | choose(missing, {name: useful[name] & missing for name in rest}, costs)
    return [name for name in groups if name in chosen]


def _only(field: str, groups: Mapping[str, frozenset[str]]) -> Sequence[str]:
    having = [name for name, has in groups.items() if field in has]
    return having if len(having) == 1 else ()


def _exact(missing: frozenset[str], groups: Mapping[str, frozenset[str]], costs: Mapping[str, float]) -> set[str]:
    best: set[str] = set()
    least = float("inf") if missing else 0.0
    for count in range(1, len(groups) + 1):
        for some in itertools.combinations(groups, count):
            cost = sum(costs[name] for name in some)
            if cost < least and missing <= frozenset[str]().union(*(groups[name] for name in some)):
                best, least = set(some), cost
    return best


def _greedy(missing: frozenset[str], groups: Mapping[str, frozenset[str]], costs: Mapping[str, float]) -> set[str]:
    chosen: list[str] = []
    left = set(missing)
    while left:
        best = min(
            (name for name in groups if groups[name] & left), key=lambda name: costs[name] / len(groups[name] & left)
        )
        chosen.append(best)
        left -= groups[best]
    for name in list(chosen):
        others = frozenset[str]().union(*(groups[one] for one in chosen if one != name))
        if missing <= others:
            chosen.remove(name)
    return set(chosen)
