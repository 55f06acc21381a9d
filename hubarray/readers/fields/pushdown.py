"""Predicates that are decided before rows are read: by an index, partition keys or statistics."""

from __future__ import annotations

from hubarray.readers.fields.predicates import AsFrames, PredicateBase, is_elementwise
from hubarray.readers.fields.source import Source


def narrowed(source: Source, predicate: PredicateBase, *, batched: bool = False) -> tuple[Source, PredicateBase | None]:
    """A source of fewer rows, and what of the predicate only rows can decide.

    Parameters
    ----------
    source : Source
        Asked by its method ``narrowed``, if it has one.
    predicate : PredicateBase
    batched : bool
        Of batches: one that looks at a whole batch is asked with DataFrames here too.

    Returns
    -------
    (source, predicate or None)
    """
    decide = getattr(source, "narrowed", None)
    if decide is None:
        return source, predicate
    asked = AsFrames(predicate) if batched and not is_elementwise(predicate) else predicate
    found, rest = decide(asked)
    return found, predicate if rest is not None else None
