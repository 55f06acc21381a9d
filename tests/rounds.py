"""How often a long test repeats itself: less in everyday runs, in full with ``make test-whole``."""

import os
from typing import TypeVar

T = TypeVar("T")


def rounds(everyday: T, whole: T) -> T:
    return whole if os.environ.get("HUBARRAY_TESTS") == "whole" else everyday
