"""Parquet as a source of epochs: its files, what their footers say, Petastorm's metadata, and rows."""
