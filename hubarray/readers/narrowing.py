"""Predicates that are decided before rows are read: by an index, partition keys or statistics."""

from __future__ import annotations

from hubarray.readers.predicates import PredicateBase
from hubarray.readers.source import Source


def narrowed(source: Source, predicate: PredicateBase) -> tuple[Source, PredicateBase | None]:
    """A source of fewer rows, and what of the predicate only rows can decide.

    Parameters
    ----------
    source : Source
        Asked by its method ``narrowed``, if it has one.

    Returns
    -------
    (source, predicate or None)
    """
    decide = getattr(source, "narrowed", None)
    if decide is None:
        return source, predicate
    found: tuple[Source, PredicateBase | None] = decide(predicate)
    return found
