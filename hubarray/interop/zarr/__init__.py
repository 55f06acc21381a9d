"""Arrays and datasets as Zarr stores."""

from hubarray.interop.zarr.store import HubStore

__all__ = ["HubStore"]
