"""Datasets: several arrays under one name, one log."""
