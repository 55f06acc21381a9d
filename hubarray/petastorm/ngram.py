"""Petastorm's ``petastorm.ngram``."""

from hubarray.readers.fields.ngram import NGram

__all__ = ["NGram"]
