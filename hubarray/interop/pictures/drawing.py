"""Pixels as PNG, WebP and JPEG."""

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


# PNG is exact; of the others the quality.
_QUALITIES: dict[str, dict[str, int]] = {"png": {"compress_level": 1}, "webp": {"quality": 85, "method": 2},
                                         "jpeg": {"quality": 90}}  # fmt: skip
KINDS = tuple(_QUALITIES)


def png(pixels: np.ndarray) -> bytes:
    """A PNG of uint8 pixels of (height, width, 3 or 4)."""
    return encoded(pixels, "png")


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    """Uint8 pixels of (height, width, 3 or 4) as one of :data:`KINDS`; as JPEG they lose their alpha."""
    out = io.BytesIO()
    colours = pixels[..., :3] if kind == "jpeg" else pixels
    _pillow().fromarray(np.ascontiguousarray(colours)).save(out, kind, **_QUALITIES[kind])
    return out.getvalue()


def stretched(pixels: np.ndarray, times: int, shape: tuple[int, int]) -> np.ndarray:
    """Repeat pixels if fewer elements were read than a tile has pixels."""
    if times == 1:
        return pixels
    return pixels.repeat(times, 0)[: shape[0]].repeat(times, 1)[:, : shape[1]]


def thumbnail(pixels: np.ndarray, side: int) -> bytes:
    """Return a PNG with at most this number of pixels per side."""
    image = _pillow().fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side, side))
    out = io.BytesIO()
    image.save(out, "png", compress_level=1)
    return out.getvalue()
