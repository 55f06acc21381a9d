"""What is stored: photographs-like samples and volumes, compressible and not. Made, not shipped."""

from __future__ import annotations

import numpy as np


def photographs(count: int, side: int, *, seed: int = 0) -> np.ndarray:
    """Smooth colour fields, a tenth of the pixels noisy, uint8, shape ``(count, side, side, 3)``; they halve in lz4."""
    rng = np.random.default_rng(seed)
    out = np.empty((count, side, side, 3), np.uint8)
    ramp = np.linspace(0, 1, side, dtype=np.float32)
    noise = rng.integers(0, 6, (side, side, 3), np.uint8) * (rng.random((side, side, 1)) < 0.1)
    for i in range(count):
        a, b, c = rng.random((3, 3), np.float32)
        down, across = np.sin(6 * np.outer(ramp, a)) * b, np.cos(5 * np.outer(ramp, c)) * a
        field = np.clip(120 + 60 * (down[:, None, :] + across[None, :, :]), 0, 245)
        out[i] = field.astype(np.uint8) + np.roll(
            noise.astype(np.uint8), int(rng.integers(side)), axis=int(rng.integers(2))
        )
    return out


def noise(shape: tuple[int, ...], *, seed: int = 0) -> np.ndarray:
    """Bytes that do not compress, uint8."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def volume(shape: tuple[int, ...], *, seed: int = 0) -> np.ndarray:
    """A smooth float32 field with a little noise."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 6, n, dtype=np.float32) for n in shape), indexing="ij", sparse=True)
    field = sum(np.sin(axis) for axis in axes)
    return np.asarray(field + np.round(rng.random(shape, np.float32), 2) * np.float32(0.01), np.float32)
