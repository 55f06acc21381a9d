"""JSON from a bucket, checked field by field as it is read, because writers of a bucket are not trusted. Pure.

Every error is a CorruptDataError that names the object's key and the field.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

from hubarray import names
from hubarray.errors import CorruptDataError, InvalidNameError
from hubarray.redaction import named_type, shown_text

MAX_DEPTH = 128
MAX_NUMBER = 10**16 - 1
MAX_INT64 = (1 << 63) - 1

_HEX_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

_PLAIN = frozenset({str, int, float, bool, type(None)})

NUMBER_KEY = "hubarray:number"
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

T = TypeVar("T")


def parse_json(raw: bytes, where: str) -> Any:
    """JSON as it is written by us: UTF-8, finite numbers, at most 128 levels deep.

    Raises
    ------
    CorruptDataError
    """
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{where}: not JSON as it is written here: {_reason(error)}") from None
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and is_deep(value):
        raise CorruptDataError(f"{where}: not JSON as it is written here: more than {MAX_DEPTH} levels deep")
    return value


def is_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Return whether lists and mappings are nested deeper than this number of levels."""
    level = [value] if isinstance(value, (list, dict)) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            inner
            for container in level
            for inner in (container.values() if isinstance(container, dict) else container)
            # Nearly all are plain values, which are told by their types in half the time.
            if type(inner) not in _PLAIN and isinstance(inner, (list, dict))
        ]
    return any(map(len, level))


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text[:40])


# Made once: it takes as long as parsing a record.
_DECODER = json.JSONDecoder(parse_constant=_not_finite, parse_float=_finite)


def numbers_to_json(value: Any) -> Any:
    """Attributes as a record has them: what JSON has no numbers for is an object of one key.

    Examples
    --------
    >>> numbers_to_json({"limit": float("inf"), "unit": "NaN"})
    {'limit': {'hubarray:number': 'Infinity'}, 'unit': 'NaN'}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER_KEY: "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, dict):
        return {key: numbers_to_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbers_to_json(inner) for inner in value]
    return value


def numbers_from_json(value: Any) -> Any:
    """The attributes that :func:`numbers_to_json` was given."""
    if isinstance(value, dict):
        word = value.get(NUMBER_KEY)
        if len(value) == 1 and isinstance(word, str) and word in _NUMBERS:
            return _NUMBERS[word]
        return {key: numbers_from_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbers_from_json(inner) for inner in value]
    return value


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else shown_text(str(error))[:200]


class Fields:
    """The fields of one JSON object.

    Parameters
    ----------
    value : Any
        The decoded value. Everything but a mapping is refused.
    where : str
        How errors name the object it is from.
    path : str
        How errors name this part of it.
    """

    def __init__(self, value: Any, where: str, path: str = "") -> None:
        self.where = where
        self._path = path
        if not isinstance(value, dict):
            self.refuse("", "is not a JSON object")
        self.raw: dict[str, Any] = value

    def refuse(self, name: str, what: str) -> NoReturn:
        """Raise the error for a field.

        Raises
        ------
        CorruptDataError
        """
        field = ".".join(filter(None, (self._path, name)))
        named = f"its field {shown_text(field)!r}" if field else "it"
        raise CorruptDataError(
            f"{self.where}: {named} {what}; its writer did not follow the format; restore it from a copy"
        )

    def take(self, name: str, kind: type[T] | tuple[type[Any], ...], default: Any = ...) -> Any:
        """Return a field of one of some JSON types. ``True`` is not a number."""
        value = self.raw.get(name, default)
        if value is ...:
            self.refuse(name, "is missing")
        if value is default:
            return value
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(name, f"is {named_type(value)}")
        return value

    def only(self, known: frozenset[str]) -> None:
        """Refuse fields that the format does not know."""
        if not self.raw.keys() <= known:
            self.refuse(min(self.raw.keys() - known), "is not known")

    def text(self, name: str, default: Any = ...) -> Any:
        """A string."""
        value = self.raw.get(name)
        return value if type(value) is str else self.take(name, str, default)

    def flag(self, name: str, default: Any = ...) -> Any:
        """True or false."""
        return self.take(name, bool, default)

    def integer(self, name: str, low: int, high: int, default: Any = ...) -> int:
        """A whole number within bounds, both included."""
        value: Any = self.raw.get(name)
        if type(value) is not int:
            value = self.take(name, int, default)
        if not low <= value <= high:
            self.refuse(name, f"is not within {low} and {high}")
        return value

    def number(self, name: str, high: float, default: Any = ...) -> float:
        """A number above 0 and up to a bound."""
        value = self.take(name, (int, float), default)
        if not 0 < value <= high:
            self.refuse(name, f"is not above 0 and up to {high:,.0f}")
        return float(value)

    def id(self, name: str) -> str:
        """128 bits in hex."""
        return self._matching(name, _HEX_ID, "is not 32 hexadecimal digits")

    def digest(self, name: str) -> str:
        """256 bits in hex."""
        return self._matching(name, _HEX_DIGEST, "is not 64 hexadecimal digits")

    def home(self, name: str) -> str:
        """``owner/name``."""
        return self.checked_home(name, self.text(name))

    def checked_home(self, name: str, value: Any) -> str:
        """A value of this field that has to be ``owner/name``."""
        try:
            return names.parse_home(value)
        except InvalidNameError:
            self.refuse(name, "is not 'owner/name'")

    def items(self, name: str, most: int, default: Any = ...) -> list[Any]:
        """Return a list with at most this number of items."""
        value: list[Any] = self.take(name, list, default)
        if len(value) > most:
            self.refuse(name, f"has {len(value)} entries, more than {most}")
        return value

    def integers(self, name: str, most: int, low: int, high: int, default: Any = ...) -> tuple[int, ...]:
        """A list of whole numbers within bounds."""
        values = self.items(name, most, default)
        for number in values:
            if type(number) is not int or not low <= number <= high:
                self.refuse(name, f"holds a value that is not a whole number from {low} to {high}")
        return tuple(values)

    def inner(self, name: str) -> Fields:
        """A field that is an object itself."""
        return Fields(self.take(name, dict), self.where, f"{self._path}.{name}" if self._path else name)

    def _matching(self, name: str, pattern: re.Pattern[str], what: str) -> str:
        value: str = self.text(name)
        if not pattern.fullmatch(value):
            self.refuse(name, what)
        return value
