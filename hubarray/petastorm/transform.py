"""Petastorm's ``petastorm.transform``."""

from hubarray.readers.fields.transform import TransformSpec, edit_field, transform_schema

__all__ = ["TransformSpec", "edit_field", "transform_schema"]
