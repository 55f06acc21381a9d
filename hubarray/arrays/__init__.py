"""Arrays: indexing, chunk grids, codecs, reading and writing."""
