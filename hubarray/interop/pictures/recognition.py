"""Values as pictures, whatever they are: which arrays are images, and how they look. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from hubarray.interop.pictures import colours

_MIN_SIDE = 8
_MAX_COLOURED = 4 << 20
_MAX_TIMES_AS_LONG = 50
_MIN_POINTS = 32
_CHANNELS = (1, 3, 4)
_MAX_SIGNALS, _MAX_TIMES_AS_WIDE = 256, 64
_MAX_COORDINATES, _MAX_PLAIN_COORDINATES = 16, 4
_CLOUD_NAMES = re.compile("point|lidar|radar|cloud|xyz|scan|velodyne", re.IGNORECASE)
_LABEL_NAMES = re.compile("label|class|categor|caption", re.IGNORECASE)


def is_image(value: np.ndarray) -> bool:
    """Whether an array is one that people look at as an image.

    Examples
    --------
    >>> is_image(np.zeros((480, 640, 3), "u1")), is_image(np.zeros((1000, 4), "f4"))
    (True, False)
    """
    if value.dtype.kind not in "buif" or value.ndim not in (2, 3):
        return False
    if value.ndim == 3 and value.shape[2] not in _CHANNELS:
        return False
    least, most = sorted(value.shape[:2])
    return least >= _MIN_SIDE and most <= _MAX_TIMES_AS_LONG * least


def is_cloud(name: str, value: np.ndarray) -> bool:
    """Whether an array is a list of points in space: three coordinates, and maybe more of each.

    Examples
    --------
    >>> is_cloud("lidar", np.zeros((1000, 4), "f4")), is_cloud("imu", np.zeros((1000, 6), "f4"))
    (True, False)
    >>> is_cloud("boxes", np.zeros((99, 4), "f4")), is_cloud("pose", np.zeros((4, 4), "f4"))
    (False, False)
    """
    return value.ndim == 2 and may_be_cloud(name, value.shape, value.dtype.kind)


def may_be_image(shape: Sequence[int | None], kind: str) -> bool:
    """Whether arrays of a shape, where None is any length, and of a kind of dtype can be images.

    Examples
    --------
    >>> may_be_image((None, None, 3), "u"), may_be_image((None, 4), "f"), may_be_image((3, 3), "f")
    (True, False, False)
    """
    if kind not in "buif" or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (None, *_CHANNELS)):
        return False
    known = [length for length in shape[:2] if length is not None]
    return all(length >= _MIN_SIDE for length in known) and (
        len(known) < 2 or max(known) <= _MAX_TIMES_AS_LONG * min(known)
    )


def may_be_cloud(name: str, shape: Sequence[int | None], kind: str) -> bool:
    """Whether arrays of a shape, where None is any length, and of a kind of dtype can be points in space.

    Examples
    --------
    >>> may_be_cloud("lidar", (None, 4), "f"), may_be_cloud("boxes", (None, 4), "f"), may_be_cloud("pose", (4, 4), "f")
    (True, False, False)
    """
    if kind != "f" or len(shape) != 2 or shape[1] is None or are_boxes(name, shape):
        return False
    # More than coordinates and a brightness have other lists of numbers too, such as those of an inertial sensor.
    most = _MAX_COORDINATES if _CLOUD_NAMES.search(name) else _MAX_PLAIN_COORDINATES
    return 3 <= shape[1] <= most and (shape[0] is None or shape[0] >= _MIN_POINTS)


def are_boxes(name: str, shape: Sequence[int | None]) -> bool:
    """Whether arrays of a shape are lists of boxes over images, by what they are called: four numbers each."""
    return len(shape) == 2 and shape[1] == 4 and "box" in name.lower()


def are_labels(name: str, value: np.ndarray) -> bool:
    """Whether an array says what is in boxes, or in images, by what it is called: a number or a text each."""
    return value.ndim == 1 and value.dtype.kind in "buiTSUO" and is_label(name)


def are_signals(rows: int, columns: int) -> bool:
    """Whether a few rows are so long that they are signals, and no picture.

    Examples
    --------
    >>> are_signals(32, 100_000), are_signals(480, 640)
    (True, False)
    """
    return rows <= _MAX_SIGNALS and columns > _MAX_TIMES_AS_WIDE * rows


def is_label(name: str) -> bool:
    """Whether values of this name say what is seen.

    Examples
    --------
    >>> is_label("front.labels"), is_label("class_id"), is_label("speed")
    (True, True, False)
    """
    return _LABEL_NAMES.search(name) is not None


def belonging(image: str, others: Iterable[str], every_image: Iterable[str]) -> list[str]:
    """Names of what is drawn over an image: what shares the beginning of its name, else what shares it with no image.

    Examples
    --------
    >>> every = ["front.image", "rear.image"]
    >>> belonging("front.image", ["front.boxes", "rear.boxes"], every), belonging("rear.image", ["boxes"], every)
    (['front.boxes'], ['boxes'])
    >>> belonging("rear.image", ["front.boxes"], every)
    []
    """
    own = _beginning(image)
    taken = {_beginning(name) for name in every_image}
    among = list(others)
    return [name for name in among if _beginning(name) == own] or [
        name for name in among if _beginning(name) not in taken
    ]


def _beginning(name: str) -> str:
    return name.rpartition(".")[0]


def pixels(value: np.ndarray, channels: str | None = None) -> np.ndarray:
    """An image as uint8 of (height, width, 3 or 4); ``channels`` is the name of its last axis, where that is known."""
    plane = value[..., 0] if value.ndim == 3 and value.shape[2] == 1 else value
    real = colours.real_values(plane, "abs")
    is_byte = real.dtype == np.uint8 and value.dtype.kind != "b"
    if real.ndim == 2:
        low, high = colours.window_of(real, is_byte=is_byte)
        return colours.coloured(real, low, high, "grey")
    # Of bools true is opaque.
    with_alpha = value.dtype.kind == "b" or colours.has_alpha(real, channels)
    with_alpha = with_alpha and real.shape[-1] == 4
    low, high = (0.0, 255.0) if is_byte else colours.window_of(real[..., :3], is_byte=is_byte)
    return colours.colours_of_channels(real, low, high, with_alpha=with_alpha)


def small_pixels(value: np.ndarray, side: int) -> np.ndarray:
    """As :func:`pixels`, of every so many elements where an image is far larger than it is to be seen."""
    height, width = value.shape[:2]
    step = max(1, max(height, width) // (2 * side), math.ceil(math.sqrt(height * width / _MAX_COLOURED)))
    return pixels(value[::step, ::step])


def cloud(value: np.ndarray, most: int) -> np.ndarray:
    """Points as float32 of (n, 4), three coordinates and a brightness from 0 to 1, without those that are NaN."""
    thinned = value[:: max(1, -(-len(value) // most))]
    points = np.zeros((len(thinned), 4), "<f4")
    with np.errstate(over="ignore"):
        points[:, :3] = thinned[:, :3]
    light = thinned[:, 3] if thinned.shape[1] > 3 else thinned[:, 2]
    # What is no number, or too far away for a float32, is nowhere.
    finite = np.isfinite(points[:, :3]).all(axis=1) & np.isfinite(light)
    points, light = points[finite], light[finite].astype("f8")
    if len(light) and light.max() > light.min():
        points[:, 3] = (light - light.min()) / (light.max() - light.min())
    return points


def from_above(points: np.ndarray, side: int) -> np.ndarray:
    """Points as :func:`cloud` gives them, seen along the third coordinate: uint8 of (side, side, 3).

    All but a hundredth at the edges is there, since one far point would make a dot of the rest. A pixel shows the
    brightest of its points.
    """
    picture = np.zeros((side, side, 3), "u1")
    if not len(points):
        return picture
    places = points[:, :2].astype("f8")
    low, high = np.percentile(places, (0.5, 99.5), axis=0)
    span = float((high - low).max())
    # Halves of the largest floats may still be infinite, and points may all lie in one place.
    scale = (side - 1) / span if 0 < span < np.inf else 0.0
    at = np.rint((places - (low + high) / 2) * scale + (side - 1) / 2)
    inside = ((at >= 0) & (at < side)).all(axis=1)
    columns, rows = at[inside].astype("i8").T
    light = np.full((side, side), -1.0, "f4")
    np.maximum.at(light, (side - 1 - rows, columns), points[inside, 3])
    seen = light >= 0
    picture[seen] = colours.table("viridis")[64:][np.rint(light[seen] * 191).astype("i8")]
    return picture
