"""All arrays of a file or a group: what becomes a dataset, and how much of it is too much."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hubarray.arrays.codecs.dtypes import checked_dtype
from hubarray.datasets.description import MAX_ARRAYS
from hubarray.errors import ConfigError, SourceError
from hubarray.redaction import shown_text

_SHOWN_LETTERS = 400


@dataclass(frozen=True)
class Members:
    """All arrays of a file or a group, by their paths in it.

    Attributes
    ----------
    where : str
        For messages, fit to be shown.
    arrays : dict of str to Rows, or Single
    attrs : dict
    fingerprint : list or None
        JSON that changes when the source does; None if that cannot be told.
    """

    where: str
    arrays: dict[str, Any]
    attrs: dict[str, Any]
    fingerprint: list[Any] | None


def refuse_many(where: str, names: Mapping[str, Any]) -> None:
    """Refuse more arrays and groups than a dataset has.

    Raises
    ------
    SourceError
    """
    if len(names) > MAX_ARRAYS:
        raise SourceError(
            f"{where}: has more than {MAX_ARRAYS:,} arrays and groups, and no dataset has more arrays; choose a group "
            "or an array with key="
        )


def storable(where: str, every: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The arrays of a source that can be stored; the others are left out, with a warning that says why.

    Parameters
    ----------
    where : str
    every : mapping of str to callable
        Opens an array.

    Raises
    ------
    SourceError
        One is damaged, or breaks a limit.
    ConfigError
        None can be stored.
    """
    kept_arrays, reasons = {}, {}
    for path, opened in every.items():
        try:
            kept_arrays[path] = opened()
            checked_dtype(kept_arrays[path].dtype)
        except (ConfigError, TypeError) as error:
            kept_arrays.pop(path, None)
            reasons[path] = error
    if not reasons:
        return kept_arrays
    first = next(iter(reasons.values()))
    if not kept_arrays:
        raise first if isinstance(first, ConfigError) else ConfigError(f"{where}: {first}")
    shown = shown_text(", ".join(reasons))[:_SHOWN_LETTERS]
    warnings.warn(f"{where}: {shown} cannot be stored and are left out: {first}", stacklevel=6)
    return kept_arrays


def is_no_dataset(names: Mapping[str, Any], key: str | None, *, may_be_alone: bool) -> bool:
    """Whether the arrays of a group make no dataset.

    They do not where a group that is named has none. Nor does one array alone, unless it is a single value, or what it
    is in has attributes, for which an array has no room.
    """
    alone = may_be_alone and len(names) == 1 and next(iter(names.values())).shape != ()
    return alone or (key is not None and not names)


def with_those_of_groups(
    where: str, attributes: dict[str, Any], of_groups: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Attributes of a source, with those of each group below it under the group's name."""
    attrs = dict(attributes)
    for path, its in of_groups.items():
        name = path.strip("/").replace("/", ".")
        if its and name in attrs:
            warnings.warn(
                f"{where}: the attributes of the group {shown_text(path)} are left out: an attribute has its name",
                stacklevel=6,
            )
        elif its:
            attrs[name] = dict(its)
    return attrs
