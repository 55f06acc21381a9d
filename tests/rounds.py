"""How often a long test repeats itself: less in everyday runs, in full with ``make test-whole``."""

import os


def rounds(everyday: int, whole: int) -> int:
    return whole if os.environ.get("HUBARRAY_TESTS") == "whole" else everyday
