"""All arrays of a file or a group: what becomes a dataset, and how much of it is too much."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hubarray.datasets.description import MAX_ARRAYS
from hubarray.errors import SourceError
from hubarray.shown import shown_text


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


def refuse_many(where: str, found: Mapping[str, Any]) -> None:
    """Refuse more arrays and groups than a dataset has.

    Raises
    ------
    SourceError
    """
    if len(found) > MAX_ARRAYS:
        raise SourceError(
            f"{where}: has more than {MAX_ARRAYS:,} arrays and groups, and no dataset has more arrays; choose a group "
            "or an array with key="
        )


def is_no_dataset(found: Mapping[str, Any], key: str | None, *, may_be_alone: bool) -> bool:
    """Whether the arrays of a group make no dataset.

    They do not where a group that is named has none. Nor does one array alone, unless it is a single value, or what it
    is in has attributes, for which an array has no room.
    """
    alone = may_be_alone and len(found) == 1 and next(iter(found.values())).shape != ()
    return alone or (key is not None and not found)


def with_those_of_groups(
    where: str, attributes: dict[str, Any], of_groups: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Attributes of a source, with those of each group below it under the group's name."""
    found = dict(attributes)
    for path, its in of_groups.items():
        name = path.strip("/").replace("/", ".")
        if its and name in found:
            warnings.warn(
                f"{where}: the attributes of the group {shown_text(path)} are left out: an attribute has its name",
                stacklevel=6,
            )
        elif its:
            found[name] = dict(its)
    return found
