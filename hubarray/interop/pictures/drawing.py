"""Pixels as PNG."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from hubarray import process
from hubarray.errors import MissingPackageError


def _pillow() -> Any:
    try:
        with process.importing:
            from PIL import Image
    except ImportError:
        raise MissingPackageError(
            "pictures need the package 'pillow', which is not installed: pip install 'hubarray[view]'"
        ) from None
    return Image


def png(pixels: np.ndarray) -> bytes:
    """A PNG of uint8 pixels of (height, width, 3 or 4)."""
    out = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(pixels)).save(out, "png", compress_level=1)
    return out.getvalue()


def stretched(pixels: np.ndarray, times: int, shape: tuple[int, int]) -> np.ndarray:
    """Each pixel as many, where fewer elements were read than a tile has pixels."""
    if times == 1:
        return pixels
    return pixels.repeat(times, 0)[: shape[0]].repeat(times, 1)[:, : shape[1]]


def thumbnail(pixels: np.ndarray, side: int) -> bytes:
    """A PNG of at most so many pixels a side."""
    image = _pillow().fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side, side))
    out = io.BytesIO()
    image.save(out, "png", compress_level=1)
    return out.getvalue()
