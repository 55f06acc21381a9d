"""Values as colours: a window of values, and a map of colours over it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

# A few colours of each, between which all others lie; viridis, magma and cividis after matplotlib's, turbo after
# Google's, which are free for all to use.
_POINTS: Mapping[str, tuple[str, ...]] = {
    "grey": ("000000", "ffffff"),
    "viridis": ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"),
    "magma": ("000004", "1d1147", "51127c", "822681", "b73779", "e75263", "fc8961", "fec488", "fcfdbf"),
    "cividis": ("00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "fee838"),
    "turbo": ("30123b", "4662d7", "36aaf9", "1ae4b6", "72fe5e", "c8ef34", "faba39", "f66b19", "ca2a04", "7a0403"),
    "red-blue": ("2166ac", "67a9cf", "d1e5f0", "f7f7f7", "fddbc7", "ef8a62", "b2182b"),
    "bone": ("000000", "394058", "6d8a92", "a9c7c7", "ffffff"),
}
MAPS = tuple(_POINTS)
PARTS = ("abs", "phase", "real", "imag")
_MISSING = (255, 0, 255)
_MIN_BRIGHTNESS = 32


@cache
def table(name: str) -> np.ndarray:
    """256 colours of a map: uint8, (256, 3)."""
    points = np.array([[int(colour[i : i + 2], 16) for i in (0, 2, 4)] for colour in _POINTS[name]], float)
    places = np.linspace(0, len(points) - 1, 256)
    columns = [np.interp(places, np.arange(len(points)), points[:, i]) for i in range(3)]
    return np.rint(np.stack(columns, -1)).astype("u1")


def real_values(values: np.ndarray, part: str) -> np.ndarray:
    """Numbers with an order, of whatever numbers there are: of complex ones a part, of times their counts.

    Raises
    ------
    ValueError
        They are not numbers.
    """
    kind = values.dtype.kind
    if kind == "c":
        parts: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "abs": np.abs, "phase": np.angle, "real": np.real, "imag": np.imag,
        }  # fmt: skip
        return parts[part](values)
    if kind == "b":
        return values.view("u1")
    if kind in "mM":
        return np.where(np.isnat(values), np.nan, values.view("i8").astype("f8"))
    if kind == "V" and values.dtype.names is None:
        # bfloat16 and the float8 types, which NumPy has from others.
        try:
            return values.astype("f4")
        except (TypeError, ValueError):
            raise ValueError(f"{values.dtype} has no colours") from None
    if kind not in "iuf":
        raise ValueError("text has no colours" if kind in "TUSO" else f"{values.dtype} has no colours")
    return values


def window_of(values: np.ndarray, *, is_byte: bool) -> tuple[float, float]:
    """The window that a picture begins with: all of a byte, else all but a hundredth at both ends.

    If all bytes are small, they are a mask or class numbers, not brightness.

    Examples
    --------
    >>> window_of(np.array([0, 200], "u1"), is_byte=True), window_of(np.array([0, 1], "u1"), is_byte=True)
    ((0.0, 255.0), (0.0, 1.0))
    """
    if is_byte and (not values.size or values.max() >= _MIN_BRIGHTNESS):
        return 0.0, 255.0
    if is_byte:
        return float(values.min()), max(float(values.max()), float(values.min()) + 1)
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
    if not finite.size:
        return 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        # Halves, whose difference is no infinity.
        low, high = (2 * float(bound) for bound in np.percentile(finite.astype("f8") / 2, (0.5, 99.5)))
    if low == high:
        low, high = float(finite.min()), float(finite.max())
    # What is the same everywhere, or was wherever it was looked at, is dark.
    return (low, high) if high > low else (low, low + 1.0)


def scaled(values: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Values of a window as bytes, and which of them are none (NaN)."""
    if values.dtype == np.uint8 and (low, high) == (0.0, 255.0):
        return values, None
    missing = np.isnan(values) if values.dtype.kind == "f" else None
    # Halves, whose difference is no infinity.
    span = (high / 2 - low / 2) if high > low else 0.5
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        bytes_ = np.clip((values.astype("f8") / 2 - low / 2) / span * 255.0, 0, 255)
    return np.rint(np.nan_to_num(bytes_)).astype("u1"), missing if missing is not None and missing.any() else None


def coloured(values: np.ndarray, low: float, high: float, name: str) -> np.ndarray:
    """Return a picture of rows and columns: uint8, (height, width, 3). NaN is magenta."""
    bytes_, missing = scaled(values, low, high)
    picture = table(name)[bytes_]
    if missing is not None:
        picture[missing] = _MISSING
    return picture


def colours_of_channels(
    values: np.ndarray, low: float, high: float, picks: Sequence[int] = (), *, with_alpha: bool = False
) -> np.ndarray:
    """A picture whose channels are colours: uint8, (height, width, 3 or 4).

    Parameters
    ----------
    values : array
        The channels last: three, or four with alpha; or any number of which ``picks`` are red, green and blue.
    low, high : float
    picks : sequence of int
        -1 for a colour that is not there.
    with_alpha : bool
        Whether the fourth channel is alpha; else it is not shown. A pixel with NaN in a color is magenta.
    """
    if picks:
        channels, missing = scaled(values, low, high)
        nothing = np.zeros(values.shape[:2], "u1")
        picture = np.stack([nothing if pick < 0 else channels[..., pick] for pick in picks], -1)
        missing = None if missing is None else missing[..., [pick for pick in picks if pick >= 0]]
    else:
        picture, missing = scaled(values[..., :3], low, high)
    if missing is not None:
        picture = picture.copy()
        picture[missing.any(axis=-1)] = _MISSING
    if picks or not with_alpha:
        return picture
    alpha = values[..., 3:]
    opaque = float(np.iinfo(values.dtype).max) if values.dtype.kind in "iu" and alpha.max(initial=0) > 1 else 1.0
    return np.concatenate([picture, scaled(alpha, 0.0, opaque)[0]], -1)


def has_alpha(values: np.ndarray, channels: str | None = None) -> bool:
    """Return whether the fourth channel of a picture is alpha and not another band.

    Parameters
    ----------
    values : array
        The channels last.
    channels : str, optional
        The name of their axis.

    Examples
    --------
    >>> has_alpha(np.full((2, 2, 4), 65535, "u2")), has_alpha(np.full((2, 2, 4), 900, "u2"))
    (True, False)
    """
    if values.shape[-1] != 4 or (channels or "").lower().startswith(("band", "wavelength", "spectr")):
        return False
    alpha = values[..., 3]
    if values.dtype == np.uint8 or not alpha.size:
        return True
    most = float(np.iinfo(values.dtype).max) if values.dtype.kind in "iu" else 1.0
    low, high = float(alpha.min()), float(alpha.max())
    # Somewhere it is opaque, or nowhere is anything.
    return low >= 0 and high in (0.0, most)


def histogram(values: np.ndarray, bins: int = 64) -> tuple[list[int], float, float]:
    """Counts of values between the least and the most of them, which are finite."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
    if not finite.size:
        return [0] * bins, 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high / 2 - low / 2 == 0:
        return [int(finite.size)] + [0] * (bins - 1), low, high
    # Halves, whose difference is no infinity; and no edges, of which floats may have too few between two values.
    places = (finite.astype("f8") / 2 - low / 2) / (high / 2 - low / 2) * bins
    return np.bincount(np.clip(places, 0, bins - 1).astype(int), minlength=bins).tolist(), low, high
