"""Epochs: in which order rows are read, by whom, and reading them ahead of their use."""
