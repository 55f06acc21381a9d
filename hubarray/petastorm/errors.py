"""Petastorm's ``petastorm.errors``."""

from hubarray.errors import NoDataAvailableError, ReaderStoppedError

__all__ = ["NoDataAvailableError", "ReaderStoppedError"]
