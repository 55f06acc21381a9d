"""Parameters of requests, looked at before they are used: each has a type and bounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hubarray.errors import ConfigError
from hubarray.redaction import shown_text

MAX_TEXT_LETTERS = 2000
_MAX_NUMBERS = 64
_LARGEST = (1 << 63) - 1
_MAX_DIGITS = 20


class Query:
    """The parameters of a request.

    Parameters
    ----------
    parameters : mapping of str to str
        Each once, as the URL has them.
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._given = parameters

    def text(self, name: str, default: str | None = None, *, most: int = MAX_TEXT_LETTERS) -> str:
        """Return text with at most this number of characters.

        Raises
        ------
        ConfigError
        """
        parameter = self._given.get(name, default)
        if parameter is None:
            raise ConfigError(f"{name}= is missing")
        if len(parameter) > most:
            raise ConfigError(f"{name}= has {len(parameter):,} letters, and {most:,} are read")
        return parameter

    def choice(self, name: str, among: Sequence[str], default: str) -> str:
        """One of some words.

        Raises
        ------
        ConfigError
        """
        text = self.text(name, default)
        if text not in among:
            raise ConfigError(f"{name}={shown_text(text[:40])!r}: choose one of {', '.join(among)}")
        return text

    def flag(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.choice(name, ("0", "1"), "0") == "1"

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number within bounds, both included.

        Raises
        ------
        ConfigError
        """
        if name not in self._given and default is not None:
            return default
        return _integer(name, self.text(name), low, high)

    def integers(self, name: str, count: int, low: int = 0, high: int = _LARGEST) -> list[int]:
        """So many whole numbers within bounds, with commas between them; without the parameter each is ``low``.

        Raises
        ------
        ConfigError
        """
        text = self.text(name, "")
        parts = text.split(",") if text else [str(low)] * count
        if len(parts) != count or count > _MAX_NUMBERS:
            raise ConfigError(f"{name}= has {len(parts)} numbers, and there are {count} axes")
        return [_integer(name, part, low, high) for part in parts]

    def number(self, name: str) -> float | None:
        """A finite number, or None where there is none.

        Raises
        ------
        ConfigError
        """
        text = self.text(name, "", most=40)
        if not text:
            return None
        try:
            parameter = float(text)
        except ValueError:
            parameter = math.nan
        if not math.isfinite(parameter):
            raise ConfigError(f"{name}={shown_text(text)!r} is not a number")
        return parameter


def _integer(name: str, text: str, low: int, high: int) -> int:
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise ConfigError(f"{name}={shown_text(text[:40])!r} is not a whole number")
    number = int(text)
    if not low <= number <= high:
        raise ConfigError(f"{name}={number} is not within {low} and {high}")
    return number
