"""Statistics of arrays, block by block through Dask."""
