"""Petastorm's ``petastorm.codecs``."""

from hubarray.readers.fields.cell_codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec

__all__ = ["CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec"]
