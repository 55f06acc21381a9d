"""Petastorm's ``petastorm.pytorch``."""

from hubarray.interop.torch_readers import BatchedDataLoader, DataLoader, InMemBatchedDataLoader

__all__ = ["BatchedDataLoader", "DataLoader", "InMemBatchedDataLoader"]
