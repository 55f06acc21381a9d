"""Petastorm's ``petastorm.reader``."""

from hubarray.petastorm.making import make_batch_reader, make_reader
from hubarray.readers.reader import Reader

__all__ = ["Reader", "make_batch_reader", "make_reader"]
