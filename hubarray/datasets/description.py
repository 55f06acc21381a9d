"""A dataset's description: its arrays, and which of the manifest's numbers are whose. Pure.

``docs/FORMAT.md``, "Datasets", has the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hubarray.errors import ConfigError, NotFoundError
from hubarray.history.records.descriptions import Descriptions
from hubarray.history.records.extents import MAX_EXTENTS, MAX_NUMBERS, Extents, are_apart
from hubarray.history.records.json_fields import MAX_INT64, Fields, numbers_from_json, numbers_to_json
from hubarray.history.records.record import Member, Record, record_key
from hubarray.redaction import shown_text

MAX_ARRAYS = 10_000
MAX_NAME_LETTERS = 128
SHOWN_NAMES = 20
# Where a Zarr group has its own description.
_ZARR_METADATA = "zarr.json"
_MAX_AXES = 64
_MAX_TRIPLE = 3


@dataclass(frozen=True)
class Entry:
    """One array of a dataset.

    Attributes
    ----------
    id : str
        Drawn when it was added: an array that is dropped and added again is another one, one that is renamed the same.
    array : dict
        Its Zarr v3 metadata, without attributes.
    attrs : dict
    grid : tuple of int
        Its numbering grid.
    extents : Extents
    """

    id: str
    array: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    extents: Extents = field(default_factory=Extents)

    @property
    def lengths(self) -> list[tuple[str | None, int]]:
        """Name and length of each axis."""
        names = self.array.get("dimension_names") or [None] * len(self.array["shape"])
        return list(zip(names, self.array["shape"], strict=True))


@dataclass(frozen=True)
class Description:
    """The arrays of a dataset by name, in the order in which they were added.

    Attributes
    ----------
    arrays : dict of str to Entry
    following : int
        The first of the manifest's numbers that no array was ever given.
    """

    arrays: Mapping[str, Entry] = field(default_factory=dict)
    following: int = 0
    _views: dict[str, Record] = field(default_factory=dict, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The JSON that the record has."""
        arrays = [
            {"name": name, "id": one.id, "array": one.array}
            | ({"attrs": numbers_to_json(one.attrs)} if one.attrs else {})
            | {"numbering_grid": list(one.grid), "extents": one.extents.to_json()}
            for name, one in self.arrays.items()
        ]
        return {"arrays": arrays, "following": self.following}

    def dimensions(self) -> dict[str, int]:
        """The length of each dimension that has a name.

        Raises
        ------
        ConfigError
            Two arrays differ in it.
        """
        found: dict[str, tuple[int, str]] = {}
        for name, one in self.arrays.items():
            for dim, length in one.lengths:
                if dim is None:
                    continue
                there, other = found.setdefault(dim, (length, name))
                if there != length:
                    shown = shown_text(dim)
                    raise ConfigError(
                        f"the dimension {shown!r} would have {there:,} in {other!r} and {length:,} in {name!r}; arrays "
                        f"that share a dimension grow together: dataset.append({{...}}), or dataset.resize({shown}=...)"
                    )
        return {dim: length for dim, (length, _) in found.items()}


def checked_name(name: Any) -> str:
    """The name of an array.

    Raises
    ------
    ConfigError
    """
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME_LETTERS
        or not name.isprintable()
        or "/" in name
        or name.startswith((".", "__"))
        or name == _ZARR_METADATA
    ):
        raise ConfigError(
            f"{shown_text(str(name))[:80]!r} is not a name for an array: give 1 to {MAX_NAME_LETTERS} printable "
            f"letters without '/', not beginning with '.' or '__', and not {_ZARR_METADATA}"
        )
    return name


def description_of(record: Record) -> Description:
    """The description that a record of a dataset has.

    Raises
    ------
    NotFoundError
        It is of another kind.
    CorruptDataError
        It describes none; the record's key is named.
    """
    if record.head.kind == "deleted":
        raise NotFoundError(f"{record.name}: was deleted")
    if record.head.kind != "dataset":
        raise NotFoundError(f"{record.name}: is a {record.head.kind} now, and no dataset; load it again")
    return _described.of(record)


def view(record: Record, name: str) -> Record:
    """The record of a dataset as one of its arrays sees it: as if it were that array's own.

    Raises
    ------
    NotFoundError, CorruptDataError
    """
    return view_of(record, description_of(record), name)


def view_of(record: Record, description: Description, name: str) -> Record:
    """As :func:`view`, of a description that is not in the record yet."""
    one = description.arrays.get(name)
    if one is None:
        raise NotFoundError(f"{record.name}: has no array {shown_text(str(name))[:80]!r}; {names_there(description)}")
    found = description._views.get(name)
    if found is None or found.member is None or found.member.whole is not record:
        found = replace(
            record,
            head=replace(record.head, kind="array"),
            described=one.array,
            attrs=one.attrs,
            grid=one.grid,
            digest=f"{record.digest}/{one.id}/{name}",
            member=Member(name, one.extents, record),
        )
        description._views[name] = found
    return found


def names_there(description: Description) -> str:
    """The names that a dataset has, for messages; of many some.

    Examples
    --------
    >>> names_there(Description())
    'it has none'
    """
    names = list(description.arrays)
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"it has {', '.join(names[:SHOWN_NAMES])}{more}" if names else "it has none"


def _read(record: Record) -> Description:
    where = record_key(record.name, record.head.number)
    found = Fields(record.description, where, "dataset")
    found.only(frozenset({"arrays", "following"}))
    following = found.integer("following", 0, MAX_NUMBERS)
    arrays: dict[str, Entry] = {}
    ids: set[str] = set()
    for i, given in enumerate(found.items("arrays", MAX_ARRAYS)):
        one = Fields(given, where, f"dataset.arrays[{i}]")
        one.only(frozenset({"name", "id", "array", "attrs", "numbering_grid", "extents"}))
        name = one.text("name")
        try:
            checked_name(name)
        except ConfigError:
            one.refuse("name", "is not a name for an array")
        if name in arrays:
            one.refuse("name", "is that of another array too")
        arrays[name] = _entry(one)
        if arrays[name].id in ids:
            one.refuse("id", "is that of another array too")
        ids.add(arrays[name].id)
    if not are_apart((one.extents for one in arrays.values()), following):
        found.refuse("arrays", "have extents that overlap")
    description = Description(arrays, following)
    try:
        description.dimensions()
    except ConfigError:
        found.refuse("arrays", "differ in the length of a dimension that they share")
    return description


def _entry(found: Fields) -> Entry:
    array = found.take("array", dict)
    shape = found.inner("array").integers("shape", _MAX_AXES, 0, MAX_INT64)
    names = array.get("dimension_names")
    if names is not None and not (
        isinstance(names, list) and len(names) == len(shape) and all(one is None or type(one) is str for one in names)
    ):
        found.inner("array").refuse("dimension_names", "are not a name or null for each axis")
    triples = found.items("extents", MAX_EXTENTS)
    if not all(
        isinstance(one, list) and len(one) == _MAX_TRIPLE and all(type(n) is int and 0 <= n < 1 << 64 for n in one)
        for one in triples
    ):
        found.refuse("extents", "are not triples of numbers")
    try:
        extents = Extents.from_json(triples)
    except ValueError as error:
        found.refuse("extents", str(error))
    return Entry(
        id=found.id("id"),
        array=array,
        attrs=numbers_from_json(found.take("attrs", dict, {})),
        grid=found.integers("numbering_grid", _MAX_AXES, 1, MAX_INT64),
        extents=extents,
    )


# Those of a thousand arrays take a MiB each.
_described = Descriptions(_read, max_remembered=16)
