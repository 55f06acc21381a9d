"""Finding the newest record of a gap-free log with few probes: pure, given a way to probe."""

from __future__ import annotations

from collections.abc import Callable


def newest_from(known: int, exists: Callable[[int], bool], most: int) -> int:
    """The largest number that exists, at or beyond one that is known to.

    Probes ``known + 1, + 2, + 4, ...`` until one is absent, then bisects. A
    newest number d beyond ``known`` costs at most 2 log2(d) + 2 probes, and one
    when d is 0. Relies on numbers being gap-free.

    Parameters
    ----------
    known : int
        A number that exists, or 0.
    exists : callable
        Called with each number to probe.
    most : int
        The largest number that there can be.

    Raises
    ------
    ValueError
        A number beyond that is said to exist.

    Examples
    --------
    >>> newest_from(3, lambda n: n <= 40, 1000)
    40
    """
    step = 1
    while exists(known + step):
        step *= 2
        if known + step > most:
            raise ValueError(f"{known + step // 2} is said to exist")
    low, high = step // 2, step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(known + middle):
            low = middle
        else:
            high = middle
    return known + low
