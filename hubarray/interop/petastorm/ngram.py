"""Petastorm's ``petastorm.ngram``."""

from hubarray.readers.ngram import NGram

__all__ = ["NGram"]
