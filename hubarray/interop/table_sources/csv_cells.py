"""Cells of a CSV: which columns are numbers, and which text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hubarray.tables.format.schema import Field

# As a number is written: 00123 is a name, and so is 1_000. No integer has more digits than 20.
_WHOLE = re.compile("0|-?[1-9][0-9]{0,19}")
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|[+-]?inf", re.IGNORECASE)
_QUOTED = re.compile('"[^"]*("|$)')
_DIGITS = re.compile("[+-]?[0-9]+")


def delimiter_of(header: str) -> str:
    """The letter between the names of a header: a comma, a semicolon or a tab.

    Examples
    --------
    >>> delimiter_of("id;name, first;age")
    ';'
    >>> delimiter_of('"last, first, middle";age')
    ';'
    """
    return max(",;\t", key=_QUOTED.sub("", header).count)


def typed_cells(values: Sequence[str]) -> tuple[Field, Sequence[Any]]:
    """A column of text as whole numbers or numbers, if all of it are, and none would be written otherwise again.

    An empty cell among numbers is null, and empty text among text.

    Examples
    --------
    >>> typed_cells(["1", "", "3"])
    (Field('int64', index=True, nullable=True), [np.int64(1), None, np.int64(3)])
    >>> typed_cells(["007", "8"])
    (Field('string', index=True), ['007', '8'])
    """
    there = [value for value in values if value]
    if there and all(map(_WHOLE.fullmatch, there)):
        wholes = [int(value) for value in there]
        for dtype in ("i8", "u8"):
            about = np.iinfo(dtype)
            if about.min <= min(wholes) and max(wholes) <= about.max:
                return _numbers(dtype, int, values)
        return Field(str, index=True), values
    if there and all(map(_NUMBER.fullmatch, there)) and all(map(_is_exact, there)):
        return _numbers("f8", float, values)
    return Field(str, index=True), values


def _numbers(dtype: str, kind: Callable[[str], Any], values: Sequence[str]) -> tuple[Field, Sequence[Any]]:
    made = np.dtype(dtype).type
    return Field(dtype, index=True, nullable="" in values), [made(kind(value)) if value else None for value in values]


def _is_exact(value: str) -> bool:
    """Whether a float keeps every digit of a whole number; of others it keeps what it can."""
    if not _DIGITS.fullmatch(value):
        return True
    return len(value) <= 21 and int(value) == int(float(value))
