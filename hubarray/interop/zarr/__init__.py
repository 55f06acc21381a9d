"""Arrays and datasets as Zarr stores."""

from hubarray.interop.zarr.array_store import HubStore

__all__ = ["HubStore"]
