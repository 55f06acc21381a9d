"""Petastorm's names where Petastorm has them: change ``petastorm`` to ``hubarray.interop.petastorm`` in imports."""

from hubarray.errors import NoDataAvailableError
from hubarray.interop.petastorm.making import make_batch_reader, make_reader
from hubarray.readers.fields.transform import TransformSpec

__all__ = ["NoDataAvailableError", "TransformSpec", "make_batch_reader", "make_reader"]
