"""Predicates, which select rows of a reader by the values of a few fields. They have the names of Petastorm."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.frames import frame_of, mask_of_answer
from hubarray.readers.fields.source import Column, row_values
from hubarray.readers.fields.unischema import Unischema
from hubarray.tables.format.conditions import Clause

_NANOSECONDS = {
    "W": 7 * 86_400 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6,
    "us": 10**3, "ns": 1,
}  # fmt: skip

# Petastorm's: the largest index of a 64-bit machine.
_BUCKETS = (1 << 63) - 1


class Moment(NamedTuple):
    """A moment, in nanoseconds since 1970 in UTC."""

    nanoseconds: int


def moment(value: Any) -> Any:
    """The moment that a date or time is; any other value as it is. Those without a zone are of UTC.

    Examples
    --------
    >>> moment(np.datetime64("2020-01-01")) == moment(datetime.date(2020, 1, 1))
    True
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        # Of pandas, which has nanoseconds.
        to_numpy = getattr(value, "to_datetime64", None)
        value = np.datetime64(value, "us") if to_numpy is None else to_numpy()
    elif isinstance(value, datetime.date):
        value = np.datetime64(value, "D")
    if not isinstance(value, np.datetime64) or np.isnat(value):
        return value
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("M8[D]"), "D", 1
    if unit not in _NANOSECONDS:
        return value
    return Moment(int(value.astype(np.int64)) * count * _NANOSECONDS[unit])


class PredicateBase:
    """Base class of predicates. Implement :meth:`get_fields` and :meth:`do_include`."""

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        raise NotImplementedError

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row.

        Parameters
        ----------
        values : mapping of str to value, or DataFrame
            The fields of a row, or of many rows in :func:`hubarray.make_batch_reader`.

        Returns
        -------
        bool, or one bool per row of a DataFrame
        """
        raise NotImplementedError


class VectorPredicate(PredicateBase):
    """A predicate that checks all rows at once, in readers of rows and of batches."""

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include.

        Parameters
        ----------
        columns : mapping
            The fields that it reads.
        rows : int
            The number of rows.
        batched : bool
            Whether to pass a DataFrame to a nested predicate.
        """
        raise NotImplementedError


class in_set(VectorPredicate):  # noqa: N801 - Petastorm's name
    """Include rows whose field is one of some values.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.petastorm.in_set([1, 2], "label").do_include({"label": 2})
    True
    """

    def __init__(self, inclusion_values: Collection[Any], predicate_field: str) -> None:
        if isinstance(inclusion_values, (str, bytes)) or not isinstance(inclusion_values, Iterable):
            raise ConfigError(f"in_set: give a list of values, [{inclusion_values!r}]")
        self._values, self._field = {moment(value) for value in inclusion_values}, predicate_field
        # Times of any kind and unit are the same moments; no other value has to be looked at so closely.
        self._has_times = any(isinstance(value, Moment) for value in self._values)

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return {self._field}

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        value = values[self._field]
        if _is_series(value):
            return value.map(self._has) if self._has_times else value.isin(self._values)
        return self._has(value)

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include."""
        return np.fromiter(map(self._has, row_values(columns[self._field])), bool, rows)

    def _has(self, value: Any) -> bool:
        return (moment(value) if self._has_times else value) in self._values


def clause_of(predicate: in_set, schema: Unischema) -> Clause | None:
    """Return an equivalent filter if the field and the values are integers or text, and None otherwise."""
    field = schema.fields.get(predicate._field)
    if field is None or field.shape:
        return None
    kind = "O" if field.numpy_dtype is Decimal else np.dtype(field.numpy_dtype).kind
    accepted_types: Any = {"i": (int, np.integer), "u": (int, np.integer), "U": str}.get(kind, ())
    values = predicate._values
    if not values or not all(isinstance(value, accepted_types) and not isinstance(value, bool) for value in values):
        return None
    plain: type = str if kind == "U" else int
    return predicate._field, "in", sorted(map(plain, values))


class in_intersection(VectorPredicate):  # noqa: N801 - Petastorm's name
    """Include rows whose field, a list, contains one of some values."""

    def __init__(self, inclusion_values: Iterable[Any], predicate_field: str) -> None:
        self._values, self._field = list(inclusion_values), predicate_field

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return {self._field}

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        value = values[self._field]
        return value.map(self._has) if _is_series(value) else self._has(value)

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include."""
        return np.fromiter(map(self._has, row_values(columns[self._field])), bool, rows)

    def _has(self, value: Any) -> bool:
        if value is None:
            return False
        if not isinstance(value, Iterable):
            raise ConfigError(f"in_intersection: field {self._field!r} holds single values; use in_set")
        return bool(np.isin(np.asarray(value), self._values).any())


class in_lambda(PredicateBase):  # noqa: N801 - Petastorm's name
    """Include rows for which a function of some fields is true.

    Parameters
    ----------
    predicate_fields : list of str
    predicate_func : callable
        A function of the values of the fields in this order. In :func:`hubarray.make_batch_reader` it gets Series.
    state_arg : optional
        Another argument of the function, if it is not None.
    """

    def __init__(self, predicate_fields: list[str], predicate_func: Callable[..., Any], state_arg: Any = None) -> None:
        if not isinstance(predicate_fields, list):
            raise ConfigError("in_lambda: predicate_fields is a list of names")
        self._fields, self._function, self._state = predicate_fields, predicate_func, state_arg

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return set(self._fields)

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        column_values = [values[name] for name in self._fields]
        return self._function(*column_values) if self._state is None else self._function(*column_values, self._state)


class in_negate(VectorPredicate):  # noqa: N801 - Petastorm's name
    """Include rows that another predicate excludes."""

    def __init__(self, predicate: PredicateBase) -> None:
        self._predicate = _checked(predicate)

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return self._predicate.get_fields()

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        answer = self._predicate.do_include(values)
        return ~np.asarray(answer, bool) if _is_vector(answer) else not answer

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include."""
        return ~_mask_within(self._predicate, columns, rows, batched=batched)


class in_reduce(VectorPredicate):  # noqa: N801 - Petastorm's name
    """Combine the results of several predicates: ``in_reduce([a, b], all)``, or ``any``.

    Parameters
    ----------
    predicate_list : list of PredicateBase
    reduce_func : callable
        A function of a list of bool.
    """

    def __init__(self, predicate_list: Sequence[PredicateBase], reduce_func: Callable[[list[bool]], Any]) -> None:
        self._predicates, self._reduce = [_checked(predicate) for predicate in predicate_list], reduce_func

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return set().union(*(predicate.get_fields() for predicate in self._predicates))

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        answers = [predicate.do_include(values) for predicate in self._predicates]
        if not any(map(_is_vector, answers)):
            return self._reduce(answers)
        return self._reduced([np.asarray(answer, bool) for answer in answers])

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include."""
        return self._reduced(
            [_mask_within(predicate, columns, rows, batched=batched) for predicate in self._predicates]
        )

    def _reduced(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        vectors = [mask.tolist() for mask in masks]
        return np.asarray([bool(self._reduce(list(row))) for row in zip(*vectors, strict=True)], bool)


class in_pseudorandom_split(VectorPredicate):  # noqa: N801 - Petastorm's name
    """Include the rows of one part of a split, by the hash of a field: the same rows in every run, and in Petastorm.

    Parameters
    ----------
    fraction_list : list of float
        Of each part, in all at most 1.
    subset_index : int
        Which part.
    predicate_field : str
        Rows of equal values are in one part.

    Examples
    --------
    >>> import hubarray as hub
    >>> train, test = (hub.petastorm.in_pseudorandom_split([0.8, 0.2], i, "log_id") for i in (0, 1))
    >>> train.do_include({"log_id": "drive-7"}) != test.do_include({"log_id": "drive-7"})
    True
    """

    def __init__(self, fraction_list: Sequence[float], subset_index: int, predicate_field: str) -> None:
        if not 0 <= subset_index < len(fraction_list):
            raise ConfigError(f"subset_index={subset_index}: there are {len(fraction_list)} parts")
        if min(fraction_list) < 0 or sum(fraction_list) > 1 + 1e-9:
            raise ConfigError(f"fraction_list={list(fraction_list)}: fractions are not negative, and at most 1 in all")
        self._field = predicate_field
        self._low = sum(fraction_list[:subset_index]) * (_BUCKETS - 1)
        self._high = sum(fraction_list[: subset_index + 1]) * (_BUCKETS - 1)

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return {self._field}

    def do_include(self, values: Any) -> Any:
        """Return whether to include a row."""
        value = values[self._field]
        return value.map(self._has) if _is_series(value) else self._has(value)

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Return the mask of rows to include."""
        return np.fromiter(map(self._has, row_values(columns[self._field])), bool, rows)

    def _has(self, value: Any) -> bool:
        text = value if isinstance(value, str) else value.decode() if isinstance(value, bytes) else str(value)
        # Petastorm's hash; its reader has to find the same split.
        bucket = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % _BUCKETS
        return self._low <= bucket < self._high


def mask_of(predicate: PredicateBase, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
    """Which rows a predicate includes.

    Parameters
    ----------
    batched : bool
        Ask it once, with a DataFrame, instead of row by row.

    Raises
    ------
    ConfigError
        It did not answer for each row.
    """
    # A class of the user's that derives from one of ours has the last word.
    if isinstance(predicate, VectorPredicate) and type(predicate).__module__.startswith("hubarray."):
        return predicate.mask(columns, rows, batched=batched)
    names = list(columns)
    if not batched:
        include = predicate.do_include
        values = zip(*(row_values(columns[name]) for name in names), strict=True)
        answers = [bool(include(dict(zip(names, row, strict=True)))) for row in values]
        return np.asarray(answers, bool)
    answer = mask_of_answer(predicate.do_include(frame_of(columns)))
    if answer.shape != (rows,):
        raise ConfigError(
            f"{type(predicate).__name__}: gave {answer.shape or 'one answer'} for a DataFrame of {rows} rows; of "
            "make_batch_reader a predicate gets columns, and gives a bool for each row"
        )
    return answer.astype(bool)


class AsFrames(PredicateBase):
    """A predicate of batches that is asked about values that a whole batch shares: with a DataFrame of one row."""

    def __init__(self, predicate: PredicateBase) -> None:
        self.predicate = predicate

    def get_fields(self) -> set[str]:
        """Return the names of the fields that it reads."""
        return self.predicate.get_fields()

    def do_include(self, values: Any) -> Any:
        """Whether it lets such a batch pass."""
        columns = {name: [value] for name, value in values.items()}
        return bool(mask_of(self.predicate, columns, 1, batched=True)[0])


def is_elementwise(predicate: PredicateBase) -> bool:
    """Whether a predicate says of a row the same whatever other rows it is asked with."""
    if isinstance(predicate, in_negate):
        return is_elementwise(predicate._predicate)
    if isinstance(predicate, in_reduce):
        return all(map(is_elementwise, predicate._predicates))
    return isinstance(predicate, VectorPredicate) and type(predicate).__module__.startswith("hubarray.")


def _mask_within(predicate: PredicateBase, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
    asked = {name: columns[name] for name in sorted(predicate.get_fields())}
    return mask_of(predicate, asked, rows, batched=batched)


def _checked(predicate: Any) -> PredicateBase:
    if not isinstance(predicate, PredicateBase):
        raise ConfigError(
            f"{type(predicate).__name__} is not a predicate; those are derived from hub.petastorm.PredicateBase"
        )
    return predicate


def _is_series(value: Any) -> bool:
    return hasattr(value, "isin") and hasattr(value, "map")


def _is_vector(value: Any) -> bool:
    return np.ndim(value) > 0
