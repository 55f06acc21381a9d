"""Petastorm's ``petastorm.predicates``."""

from hubarray.readers.fields.predicates import (
    PredicateBase,
    in_intersection,
    in_lambda,
    in_negate,
    in_pseudorandom_split,
    in_reduce,
    in_set,
)

__all__ = ["PredicateBase", "in_intersection", "in_lambda", "in_negate", "in_pseudorandom_split", "in_reduce", "in_set"]
