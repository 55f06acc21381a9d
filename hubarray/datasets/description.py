"""A dataset's description: its arrays, and which of the manifest's numbers are whose. Pure.

``docs/FORMAT.md``, "Datasets", has the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hubarray.errors import ConfigError, NotFoundError
from hubarray.history.records.descriptions import Descriptions
from hubarray.history.records.extents import MAX_EXTENTS, MAX_NUMBERS, Extents, are_apart, check_triples
from hubarray.history.records.json_fields import MAX_INT64, Fields, numbers_from_json, numbers_to_json
from hubarray.history.records.record import Member, Record, record_key
from hubarray.redaction import shown_text

MAX_ARRAYS = 10_000
MAX_NAME_LETTERS = 128
SHOWN_NAMES = 20
# Where a Zarr group has its own description.
_ZARR_METADATA = "zarr.json"
_MAX_AXES = 64
_DATASET_FIELDS = frozenset({"arrays", "following"})
_ENTRY_FIELDS = frozenset({"name", "id", "array", "attrs", "numbering_grid", "extents"})


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
            {"name": name, "id": entry.id, "array": entry.array}
            | ({"attrs": numbers_to_json(entry.attrs)} if entry.attrs else {})
            | {"numbering_grid": list(entry.grid), "extents": entry.extents.to_json()}
            for name, entry in self.arrays.items()
        ]
        return {"arrays": arrays, "following": self.following}

    def dimensions(self) -> dict[str, int]:
        """The length of each dimension that has a name.

        Raises
        ------
        ConfigError
            Two arrays differ in it.
        """
        first_lengths: dict[str, tuple[int, str]] = {}
        for name, entry in self.arrays.items():
            for dim, length in entry.lengths:
                if dim is None:
                    continue
                known_length, other = first_lengths.setdefault(dim, (length, name))
                if known_length != length:
                    shown = shown_text(dim)
                    raise ConfigError(
                        f"the dimension {shown!r} would have {known_length:,} in {other!r} and {length:,} in {name!r}; "
                        "arrays that share a dimension grow together: dataset.append({...}), or "
                        f"dataset.resize({shown}=...)"
                    )
        return {dim: length for dim, (length, _) in first_lengths.items()}


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
    entry = description.arrays.get(name)
    if entry is None:
        raise NotFoundError(f"{record.name}: has no array {shown_text(str(name))[:80]!r}; {names_there(description)}")
    view = description._views.get(name)
    if view is None or view.member is None or view.member.whole is not record:
        view = replace(
            record,
            head=replace(record.head, kind="array"),
            described=entry.array,
            attrs=entry.attrs,
            grid=entry.grid,
            digest=f"{record.digest}/{entry.id}/{name}",
            member=Member(name, entry.extents, record),
        )
        description._views[name] = view
    return view


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
    dataset_fields = Fields(record.description, where, "dataset")
    dataset_fields.only(_DATASET_FIELDS)
    following = dataset_fields.integer("following", 0, MAX_NUMBERS)
    entries: dict[str, dict[str, Any]] = {}
    ids: set[str] = set()
    triples = []
    for i, array_value in enumerate(dataset_fields.items("arrays", MAX_ARRAYS)):
        entry_fields = Fields(array_value, where, f"dataset.arrays[{i}]")
        name, entry = _entry(entry_fields)
        if name in entries:
            entry_fields.refuse("name", "is that of another array too")
        if entry["id"] in ids:
            entry_fields.refuse("id", "is that of another array too")
        ids.add(entry["id"])
        entries[name] = entry
        triples.append(entry_fields.raw["extents"])
    every = Extents.from_json(triples)
    if not are_apart(every, following):
        dataset_fields.refuse("arrays", "have extents that overlap")
    arrays = {
        name: Entry(**entry, extents=extents) for (name, entry), extents in zip(entries.items(), every, strict=True)
    }
    description = Description(arrays, following)
    try:
        description.dimensions()
    except ConfigError:
        dataset_fields.refuse("arrays", "differ in the length of a dimension that they share")
    return description


def _entry(entry_fields: Fields) -> tuple[str, dict[str, Any]]:
    """The name of an array, and the fields of its entry but for its extents, which are checked."""
    entry_fields.only(_ENTRY_FIELDS)
    name = entry_fields.text("name")
    try:
        checked_name(name)
    except ConfigError:
        entry_fields.refuse("name", "is not a name for an array")
    array = entry_fields.inner("array")
    shape = array.integers("shape", _MAX_AXES, 0, MAX_INT64)
    dims = array.raw.get("dimension_names")
    if dims is not None and not (
        isinstance(dims, list) and len(dims) == len(shape) and all(dim is None or type(dim) is str for dim in dims)
    ):
        array.refuse("dimension_names", "are not a name or null for each axis")
    try:
        check_triples(entry_fields.items("extents", MAX_EXTENTS))
    except ValueError as error:
        entry_fields.refuse("extents", str(error))
    return name, {
        "id": entry_fields.id("id"),
        "array": array.raw,
        "attrs": numbers_from_json(entry_fields.take("attrs", dict, {})),
        "grid": entry_fields.integers("numbering_grid", _MAX_AXES, 1, MAX_INT64),
    }


# Those of a thousand arrays take a MiB each.
_described = Descriptions(_read, max_remembered=16)
