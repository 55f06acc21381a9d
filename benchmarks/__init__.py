"""Benchmarks: ``python -m benchmarks NAME [--json]``, or ``make bench`` for all."""
