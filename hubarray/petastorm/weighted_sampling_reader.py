"""Petastorm's ``petastorm.weighted_sampling_reader``."""

from hubarray.readers.weighted import WeightedSamplingReader

__all__ = ["WeightedSamplingReader"]
