"""Imports all that hostile input may reach."""

import hubarray
import hubarray.interop.sources
import hubarray.readers.parquet.source

for name in hubarray.__all__:
    getattr(hubarray, name)
