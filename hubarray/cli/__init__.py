"""The command line: ``hubarray`` and ``python -m hubarray``."""
