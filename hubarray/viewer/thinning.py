"""Curves of many elements as few points that keep every peak. Pure."""

from __future__ import annotations

import math

import numpy as np

MAX_POINTS = 2000


def width_of(count: int) -> int:
    """How many elements a stretch has of which the least and the most are drawn."""
    return max(1, -(-count // (MAX_POINTS // 2)))


def thinned(
    curves: dict[str, np.ndarray], first: int = 0, step: int = 1, width: int | None = None
) -> tuple[list[int], dict[str, list[float | None]]]:
    """Curves of one length as pairs of the least and the most of each stretch, so that no peak is lost.

    Parameters
    ----------
    curves : dict of str to array
        Numbers with an order.
    first, step : int
        Where the first element lies, and how far it is from one to the next.
    width : int, optional
        Elements of a stretch, if these are a piece of longer curves; by default as :func:`width_of`.

    Returns
    -------
    (list of int, dict of str to list of float or None)
        The places, and at each place of every curve a number; None for what is not finite.

    Examples
    --------
    >>> thinned({"a": np.array([1.0, np.nan])}, 10, 5)
    ([10, 15], {'a': [1.0, None]})
    """
    count = len(next(iter(curves.values())))
    width = width_of(count) if width is None else width
    if width == 1:
        return [first + step * i for i in range(count)], {name: plain(curve) for name, curve in curves.items()}
    begins = np.arange(0, count, width)
    drawn = {}
    for name, curve in curves.items():
        both = np.stack([np.fmin.reduceat(curve, begins), np.fmax.reduceat(curve, begins)], -1)
        # In the order in which they come, so that what falls is drawn as falling.
        lows, highs = (
            (curve, curve)
            if curve.dtype.kind != "f"
            else (np.where(np.isnan(curve), end, curve) for end in (np.inf, -np.inf))
        )
        falls = np.array([np.argmax(most) < np.argmin(least) for least, most in
                          zip(np.split(lows, begins[1:]), np.split(highs, begins[1:]), strict=True)])  # fmt: skip
        both[falls] = both[falls][:, ::-1]
        drawn[name] = plain(both.reshape(-1))
    ends = np.minimum(begins + width - 1, count - 1)
    return (first + step * np.stack([begins, ends], -1).reshape(-1)).tolist(), drawn


def plain(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON has them: None for what is not finite."""
    return [value if math.isfinite(value) else None for value in values.astype("f8").tolist()]
