"""PyTorch datasets and loaders."""

from hubarray.interop.torch.readers import BatchedDataLoader, DataLoader, InMemBatchedDataLoader

__all__ = ["BatchedDataLoader", "DataLoader", "InMemBatchedDataLoader"]
