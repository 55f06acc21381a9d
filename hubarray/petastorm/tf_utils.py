"""Petastorm's ``petastorm.tf_utils``."""

from hubarray.interop.tensorflow.readers import make_petastorm_dataset, tf_tensors

__all__ = ["make_petastorm_dataset", "tf_tensors"]
