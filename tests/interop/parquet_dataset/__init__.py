"""Parquet and Petastorm datasets."""
