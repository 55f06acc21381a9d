"""Image files as values of a table's field: their own bytes where the field takes them, else their pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.arrays.images import image_header
from hubarray.errors import SourceError
from hubarray.interop.sources.stills import Still, is_class_palette, pixels, still_of
from hubarray.progress import announce
from hubarray.tables.block import MAX_BLOCK_BYTES
from hubarray.tables.schema import Field

_MOST_IMAGE_BYTES = MAX_BLOCK_BYTES // 2


class StoredImages:
    """How images become values of a field.

    Parameters
    ----------
    where : str
        What they are of.
    stills : mapping of str to Still
        Facts of the images, by what errors call them.
    given : Field, optional
        By default one that loses nothing: JPEG where all are JPEG, else PNG; grey where all are, or are masks of one
        palette, with alpha where one has it, and 16 bits where all have them.
    nullable : bool
        Whether some rows have no image.

    Raises
    ------
    SourceError
        No field holds them all exactly.
    """

    def __init__(
        self, where: str, stills: Mapping[str, Still], given: Field | None = None, *, nullable: bool = False
    ) -> None:
        moving = next((name for name, one in stills.items() if one.frames > 1), None)
        if moving is not None:
            raise SourceError(f"{moving}: has {stills[moving].frames} frames, of which a table would keep one")
        self._seen = None if given is not None else list(stills.values())
        numbers = is_class_palette(list(stills.values()))
        self.field = given if given is not None else _field_of(where, stills, numbers=numbers, nullable=nullable)
        self._codec = None if self.field.codec is None or not self.field.is_image else str(self.field.codec["name"])
        shape = self.field.shape
        self._channels = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else None
        self._longest = sorted(
            (one for one in stills.values() if one.palette), key=lambda one: len(one.palette or b"")
        )[-1:]
        # What was looked at were JPEG; what comes later may be others.
        self._is_only_jpeg = given is None and self._codec == "jpeg"
        # Whoever asks for colours gets those of a palette.
        self._numbers = numbers and self._channels in (1, None)

    def value(self, where: str, data: bytes) -> bytes | np.ndarray:
        """The value of an image file.

        Parameters
        ----------
        where : str
            For errors.
        data : bytes
            Its content.

        Raises
        ------
        SourceError
            It cannot be read, is too large, or is no image that the field holds without loss.
        """
        if self._codec is not None and self._is_stored_as_it_is(data):
            return data
        self._check_like(where, still_of(where, data))
        found = pixels(where, data, numbers=self._numbers)
        if found.nbytes > _MOST_IMAGE_BYTES:
            raise SourceError(f"{where}: has {found.shape[0]:,} x {found.shape[1]:,} pixels, more than are imported")
        if found.dtype == bool:
            found = found.astype(np.uint8) * np.uint8(255)
        return _with_channels(where, found, self._channels) if self._channels is not None else found

    def _check_like(self, where: str, still: Still) -> None:
        """Refuse an image that those which the field was made for are not like."""
        if still.frames > 1:
            raise SourceError(f"{where}: has {still.frames} frames, of which a table would keep one")
        if self._seen is None or not self._seen:
            return
        if self._is_only_jpeg and still.kind != "JPEG":
            raise SourceError(
                f"{where}: is no JPEG, as the images before it are, and would lose by becoming one; give schema= with "
                "an image of codec png"
            )
        if still.is_wide != self._seen[0].is_wide:
            raise SourceError(f"{where}: has other bits a colour than the images before it; import it apart")
        if self._numbers and not is_class_palette([*self._seen[:1], *self._longest, still]):
            raise SourceError(f"{where}: has another palette than the images before it; give schema= with 3 channels")

    def _is_stored_as_it_is(self, data: bytes) -> bool:
        try:
            shape, dtype = image_header(str(self._codec), data)
        except ValueError:
            return False
        channels = shape[2] if len(shape) == 3 else 1
        return dtype == str(self.field.dtype) and channels == self._channels


def _field_of(where: str, stills: Mapping[str, Still], *, numbers: bool, nullable: bool) -> Field:
    every = list(stills.values())
    if all(one.kind == "JPEG" for one in every):
        channels, dtype, codec = (1 if every and all(one.channels == 1 for one in every) else 3), "u1", "jpeg"
        odd = sum(one.channels != channels for one in every)
        if odd:
            announce(f"{where}: {odd:,} of {len(every):,} JPEG are not RGB, and are compressed anew as such")
        return Field(dtype, (None, None) if channels == 1 else (None, None, 3), codec=codec, nullable=nullable)
    wide = {one.is_wide for one in every}
    if len(wide) > 1:
        names = [next(name for name, one in stills.items() if one.is_wide == kind) for kind in (True, False)]
        raise SourceError(
            f"{names[0]} has more than 8 bits, and {names[1]} has 8: scaling one of them would change its values; "
            "import them apart"
        )
    colours = {one.channels if numbers else one.colours for one in every}
    alpha = bool(colours & {2, 4})
    channels = 1 if colours == {1} else 2 if colours == {2} else 4 if alpha else 3
    photographs = sum(one.kind == "JPEG" for one in every)
    if photographs:
        announce(
            f"{where}: {photographs:,} of {len(every):,} images are JPEG, and are stored as PNG, several times as "
            "large, for JPEG would change the others; give schema= for another codec"
        )
    shape = (None, None) if channels == 1 else (None, None, channels)
    return Field("u2" if wide == {True} else "u1", shape, codec="png", nullable=nullable)


def _with_channels(where: str, found: np.ndarray, channels: int) -> np.ndarray:
    """Pixels with so many channels: grey is grey in each, and where there is no alpha all is opaque.

    Raises
    ------
    SourceError
        Colours, or what is transparent, would be lost.
    """
    have = 1 if found.ndim == 2 else found.shape[2]
    if have == channels:
        return found if found.ndim == 2 or channels > 1 else found[:, :, 0]
    planes: list[Any] = [found] if found.ndim == 2 else [found[:, :, i] for i in range(have)]
    most = np.asarray(np.iinfo(found.dtype).max if found.dtype.kind in "iu" else 1, found.dtype)
    alpha = planes.pop() if have in (2, 4) else None
    if alpha is not None and channels not in (2, 4):
        if not (alpha == most).all():
            raise SourceError(f"{where}: is transparent in places; give schema= with 4 channels")
        alpha = None
    if len(planes) == 1 and channels in (3, 4):
        planes = planes * 3
    if len(planes) != (1 if channels in (1, 2) else 3):
        raise SourceError(f"{where}: has {have} channels, and the field {channels}")
    if channels in (2, 4):
        planes.append(np.full(found.shape[:2], most, found.dtype) if alpha is None else alpha)
    return planes[0] if channels == 1 else np.stack(planes, axis=-1)
