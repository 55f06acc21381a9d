"""Image files as values of a table's field: their own bytes where the field takes them, else their pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.codecs.image_headers import check_image
from hubarray.errors import SourceError
from hubarray.interop.sources.stills import Still, is_class_palette, pixels, still_of
from hubarray.interop.table_sources.base import Rows
from hubarray.progress import announce
from hubarray.redaction import shown_text
from hubarray.tables.format.block import MAX_BLOCK_BYTES
from hubarray.tables.format.schema import Field, Schema

_MAX_IMAGE_BYTES = MAX_BLOCK_BYTES // 2
_BATCH_BYTES = 64 << 20
_PNG_DTYPES, _MAX_PNG_CHANNELS = ("bool", "uint8", "uint16"), 4


class StoredImages:
    """How images become values of a field.

    Parameters
    ----------
    where : str
        What they are of.
    stills : mapping of str to Still
        Facts of the images, by what errors call them.
    field : Field, optional
        By default one that loses nothing: JPEG where all are JPEG, plain pixels where PNG has no such numbers, else
        PNG. Grey where all are, or are masks of one palette, with alpha where one has it, and 16 bits where all have
        them.
    nullable : bool
        Whether some rows have no image.

    Attributes
    ----------
    keeps_numbers : bool
        Whether images with a palette are stored as class numbers.

    Raises
    ------
    SourceError
        No field holds them all exactly.
    """

    def __init__(
        self, where: str, stills: Mapping[str, Still], field: Field | None = None, *, nullable: bool = False
    ) -> None:
        moving = next((name for name, still in stills.items() if still.frames > 1), None)
        if moving is not None:
            raise SourceError(f"{moving}: has {stills[moving].frames} frames, of which a table would keep one")
        numbers = is_class_palette(list(stills.values()))
        self.field = field if field is not None else _field_of(where, stills, numbers=numbers, nullable=nullable)
        self._codec = None if self.field.codec is None or not self.field.is_image else str(self.field.codec["name"])
        shape = self.field.shape
        self._channels = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else None
        # Those that a field was made for: the first one, and the one of the longest palette.
        longest = max(stills.values(), key=lambda still: len(still.palette or b""), default=None)
        self._like = [] if field is not None or longest is None else [next(iter(stills.values())), longest]
        # Whoever asks for colours gets those of a palette.
        self.keeps_numbers = numbers and self._channels in (1, None)

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
            The image cannot be read, is too large, or does not fit the field without loss.
        """
        if self._codec is not None and self._is_stored_as_it_is(data):
            return data
        self._check_like(where, still_of(where, data))
        image = pixels(where, data, numbers=self.keeps_numbers)
        if image.nbytes > _MAX_IMAGE_BYTES:
            raise SourceError(f"{where}: has {image.shape[0]:,} x {image.shape[1]:,} pixels, more than are imported")
        if image.dtype == bool:
            image = image.astype(np.uint8) * np.uint8(255)
        return _with_channels(where, image, self._channels) if self._channels is not None else image

    def _check_like(self, where: str, still: Still) -> None:
        """Refuse an image that those which the field was made for are not like."""
        if still.frames > 1:
            raise SourceError(f"{where}: has {still.frames} frames, of which a table would keep one")
        if not self._like:
            return
        if self._codec == "jpeg" and still.kind != "JPEG":
            raise SourceError(
                f"{where}: is not a JPEG like the images before it, and would lose quality as one; give schema= with "
                "an image of codec png"
            )
        if self._codec is None and (still.dtype, still.channels) != (self._like[0].dtype, self._like[0].channels):
            raise SourceError(f"{where}: has other numbers a pixel than the images before it; import it apart")
        if still.is_wide != self._like[0].is_wide:
            raise SourceError(f"{where}: has other bits a colour than the images before it; import it apart")
        if self.keeps_numbers and not is_class_palette([*self._like, still]):
            raise SourceError(f"{where}: has another palette than the images before it; give schema= with 3 channels")

    def _is_stored_as_it_is(self, data: bytes) -> bool:
        try:
            shape, dtype = check_image(str(self._codec), data)
        except ValueError:
            return False
        channels = shape[2] if len(shape) == 3 else 1
        return dtype == str(self.field.dtype) and channels == self._channels


def stored_images(
    where: str, name: str, groups: Iterable[Sequence[bytes | None]], field: Field | None, *, nullable: bool
) -> StoredImages | None:
    """Return how the files of a column are stored, by the first group of rows with files; None if they are not images.

    Sounds, say, are none: the bytes of a file are kept in any case.

    Raises
    ------
    SourceError
    """
    row = 0
    for values in groups:
        named = {f"{where}: {shown_text(name)[:80]!r} of row {row + i}": encoded for i, encoded in enumerate(values)}
        try:
            stills = {place: still_of(place, data) for place, data in named.items() if data is not None}
        except SourceError:
            return None
        if stills:
            return StoredImages(where, stills, field, nullable=nullable)
        row += len(values)
    return None


def with_images(read: Callable[[], Rows], images: Mapping[str, StoredImages], where: str) -> Callable[[], Rows]:
    """Arrow's rows, with images as their fields hold them; some at a time, as pixels take more than the files do."""
    if not images:
        return read

    def stored() -> Iterator[Any]:
        row = 0
        for table in read():
            names = [name for name in table.column_names if name in images]
            begin, size = 0, 0
            held: dict[str, list[Any]] = {name: [] for name in names}
            columns = {name: table.column(name).to_pylist() for name in names}
            for i in range(len(table)):
                for name in names:
                    data = columns[name][i]
                    place = f"{where}: {shown_text(name)[:80]!r} of row {row + i}"
                    value = None if data is None else images[name].value(place, data)
                    held[name].append(value)
                    size += 0 if value is None else value.nbytes if isinstance(value, np.ndarray) else len(value)
                if size >= _BATCH_BYTES or i + 1 == len(table):
                    group = table.slice(begin, i + 1 - begin)
                    yield {name: held.get(name, group.column(name)) for name in table.column_names}
                    begin, size, held = i + 1, 0, {name: [] for name in names}
            row += len(table)

    return stored


def with_fields(guessed: Schema, images: Mapping[str, StoredImages]) -> Schema:
    """A guessed schema, with the fields of images."""
    return Schema({name: images[name].field if name in images else guessed[name] for name in guessed})


def _field_of(where: str, stills: Mapping[str, Still], *, numbers: bool, nullable: bool) -> Field:
    every = list(stills.values())
    if any(still.dtype not in _PNG_DTYPES or still.channels > _MAX_PNG_CHANNELS for still in every):
        kinds = sorted({f"{still.channels} x {still.dtype}" for still in every})
        if len(kinds) > 1:
            raise SourceError(f"{where}: has images of {' and of '.join(kinds[:3])} a pixel; import them apart")
        channels = every[0].channels
        return Field(every[0].dtype, (None, None) if channels == 1 else (None, None, channels), nullable=nullable)
    if all(still.kind == "JPEG" for still in every):
        channels, dtype, codec = (1 if every and all(still.channels == 1 for still in every) else 3), "u1", "jpeg"
        odd = sum(still.channels != channels for still in every)
        if odd:
            announce(f"{where}: {odd:,} of {len(every):,} JPEG are not RGB, and are compressed again")
        return Field(dtype, (None, None) if channels == 1 else (None, None, 3), codec=codec, nullable=nullable)
    wide = {still.is_wide for still in every}
    if len(wide) > 1:
        names = [next(name for name, still in stills.items() if still.is_wide == kind) for kind in (True, False)]
        raise SourceError(
            f"{names[0]} has more than 8 bits, and {names[1]} has 8: scaling one of them would change its values; "
            "import them apart"
        )
    colours = {still.channels if numbers else still.colours for still in every}
    alpha = bool(colours & {2, 4})
    channels = 1 if colours == {1} else 2 if colours == {2} else 4 if alpha else 3
    photographs = sum(still.kind == "JPEG" for still in every)
    if photographs:
        announce(
            f"{where}: {photographs:,} of {len(every):,} images are JPEG, and are stored as PNG, several times as "
            "large, for JPEG would change the others; give schema= for another codec"
        )
    shape = (None, None) if channels == 1 else (None, None, channels)
    return Field("u2" if wide == {True} else "u1", shape, codec="png", nullable=nullable)


def _with_channels(where: str, image: np.ndarray, channels: int) -> np.ndarray:
    """Return pixels with this number of channels. Gray is repeated, and a missing alpha is opaque.

    Raises
    ------
    SourceError
        Colours, or what is transparent, would be lost.
    """
    have = 1 if image.ndim == 2 else image.shape[2]
    if have == channels:
        return image if image.ndim == 2 or channels > 1 else image[:, :, 0]
    planes: list[Any] = [image] if image.ndim == 2 else [image[:, :, i] for i in range(have)]
    most = np.asarray(np.iinfo(image.dtype).max if image.dtype.kind in "iu" else 1, image.dtype)
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
        planes.append(np.full(image.shape[:2], most, image.dtype) if alpha is None else alpha)
    return planes[0] if channels == 1 else np.stack(planes, axis=-1)
