"""Petastorm's ``petastorm.codecs``."""

from hubarray.readers.fields.field_codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec

__all__ = ["CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec"]
