"""The draft of a dataset: operations on its arrays become the draft of one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hubarray.blobs.ref import Refs, new_id
from hubarray.datasets.description import (
    MAX_ARRAYS,
    Description,
    Entry,
    checked_name,
    description_of,
    names_there,
    view_of,
)
from hubarray.errors import AlreadyExistsError, ConfigError, NotFoundError
from hubarray.history.commits.draft import ChunkChanges, Draft
from hubarray.history.commits.operations import AttributeChanges
from hubarray.history.log.version import Version
from hubarray.history.records.contents import present_refs
from hubarray.history.records.extents import Extents
from hubarray.history.records.overlay import EMPTY_OVERLAY, Numbers, Overlay
from hubarray.history.records.record import Record
from hubarray.history.records.referrers import write_referrer
from hubarray.redaction import shown_text

_BATCH_BYTES = 64 << 20
_EVERY = (0, 1 << 64)


class DatasetDraft:
    """The changes of one commit, collected array by array.

    Parameters
    ----------
    version : Version
    base : Record
        Of a dataset.
    """

    def __init__(self, version: Version, base: Record) -> None:
        self._version, self._base = version, base
        self._before = description_of(base)
        self._arrays = dict(self._before.arrays)
        self._following = self._before.following
        self._dropped: list[tuple[int, int]] = []
        self._set = EMPTY_OVERLAY
        self._messages: list[str] = []
        self._source: str | None = None
        self._attrs: dict[str, Any] | None = None

    @property
    def base(self) -> Record:
        """The record that is changed."""
        return self._base

    @property
    def arrays(self) -> Mapping[str, Entry]:
        """The arrays as they are now, by name."""
        return MappingProxyType(self._arrays)

    def view(self, name: str) -> Record:
        """The base as an array of it sees it, with the changes so far."""
        if self._arrays.get(name) is self._before.arrays.get(name):
            return view_of(self._base, self._before, name)
        # It is in no record yet, so nothing may be remembered of it by the record's digest.
        return replace(view_of(self._base, Description(self._arrays), name), digest="")

    def id_of(self, name: str) -> str | None:
        """The id of the array that has a name now."""
        array = self._arrays.get(name)
        return None if array is None else array.id

    def create(self, name: str, entry: Entry) -> None:
        """Add an array.

        Raises
        ------
        AlreadyExistsError, ConfigError
        """
        self.check_new(name, self._arrays)
        self._arrays[name] = entry
        self._messages.append(f"add {name}")

    def check_new(self, name: str, taken_names: Collection[str]) -> None:
        """Refuse a name that is none, or is one of those there already, and more arrays than a dataset has.

        Raises
        ------
        AlreadyExistsError, ConfigError
        """
        checked_name(name)
        if name in taken_names:
            raise AlreadyExistsError(f"{self._base.name.at(None)}: has an array {name!r} already; delete it first")
        if len(taken_names) >= MAX_ARRAYS:
            raise ConfigError(f"{self._base.name.at(None)}: has {MAX_ARRAYS:,} arrays, and no dataset has more")

    def drop(self, name: str) -> None:
        """Take an array away, with all it has.

        Raises
        ------
        NotFoundError
        """
        entry = self._entry(name)
        self._drop(entry.extents.without(*_EVERY)[1])
        del self._arrays[name]
        self._messages.append(f"drop {name}")

    def rename(self, names: Mapping[str, str]) -> None:
        """Give arrays other names, in their places and at once, so that two may swap theirs.

        Raises
        ------
        NotFoundError, AlreadyExistsError, ConfigError
        """
        taken = self._arrays.keys() - names.keys()
        for old, new in names.items():
            self._entry(old)
            if checked_name(new) in taken:
                raise AlreadyExistsError(
                    f"{self._base.name.at(None)}: has an array {new!r} already; choose another name, or drop it first"
                )
            taken = taken | {new}
            self._messages.append(f"rename {old} to {new}")
        self._arrays = {names.get(name, name): entry for name, entry in self._arrays.items()}

    def set_attrs(self, attrs: dict[str, Any]) -> None:
        """Replace the dataset's own attributes."""
        self._attrs = attrs

    def change_attrs(self, changes: AttributeChanges) -> None:
        """Set some of the dataset's own attributes, and take others away."""
        self._attrs = changes.on(self._base.attrs if self._attrs is None else self._attrs)

    def set_refs(self, name: str, numbers: Numbers, refs: Refs) -> None:
        """Set chunks of an array by its own numbers; null refs make them absent."""
        entry = self._arrays[name]
        order = np.argsort(numbers, kind="stable")
        numbers, refs = numbers[order].astype(np.uint64), refs[order]
        present = numbers[refs["length"] > 0]
        extents, self._following = entry.extents.with_room(present, self._following, members=len(self._arrays))
        inner, is_inside = extents.in_manifest(numbers)
        self._set = self._set.merged(inner[is_inside], refs[is_inside])
        self._arrays[name] = replace(entry, extents=extents)

    def add(self, name: str, draft: Draft) -> None:
        """Add the draft that an operation on one array has made from :meth:`view`."""
        entry, seen, changes = self._entry(name), self.view(name), draft.chunks
        if not isinstance(changes, ChunkChanges):
            raise TypeError("an operation on an array of a dataset changes chunks; it does not replace all of them")
        numbers, refs = changes.numbers, changes.refs
        if changes.renumbered is not None:
            # Its numbers mean other chunks from now on: all of it moves to extents of its own.
            moved = self._renumbered(seen, changes.renumbered)
            self._drop(entry.extents.without(*_EVERY)[1])
            entry = replace(entry, extents=Extents())
            every = moved.merged(numbers, refs)
            numbers, refs = every.numbers, every.refs
        for first, end in changes.dropped:
            extents, stretches = entry.extents.without(first, end)
            self._drop(stretches)
            entry = replace(entry, extents=extents)
        self._arrays[name] = replace(
            entry,
            array=entry.array if draft.description is None else draft.description,
            attrs=entry.attrs if draft.attrs is None else draft.attrs,
            grid=entry.grid if draft.grid is None else draft.grid,
        )
        self.set_refs(name, numbers, refs)
        self._source = draft.source or self._source
        self._messages.append(f"{name}: {draft.message}")

    def adopt(self, name: str, source: Version, record: Record) -> None:
        """Add an array of the same root as it is, whose chunks stay where they are.

        Parameters
        ----------
        name : str
        source, record : Version, Record
            An array's; or a dataset's, whose array of this name keeps its id.
        """
        if record.member is None and record.head.kind == "dataset":
            id, record = description_of(record).arrays[name].id, view_of(record, description_of(record), name)
        else:
            id = new_id()
        # What has expired may be collected at any time.
        source.base_record(record.head.number)
        self.create(name, Entry(id, record.description, record.attrs, record.grid))
        whole = record if record.member is None else record.member.whole
        home = self._version.name.home
        for other in sorted(set(whole.homes) - {home}):
            write_referrer(self._version.store, other, home)
        # All at once: what is set so far is copied each time.
        parts = list(_batches(source, record))
        if parts:
            numbers, refs = (np.concatenate(part) for part in zip(*parts, strict=True))
            self.set_refs(name, numbers, refs)

    def build(self, *, message: str = "", source: str | None = None) -> Draft | None:
        """Return the draft of the commit, or None if nothing changes.

        Raises
        ------
        ConfigError
            Arrays that share a dimension would differ in its length.
        """
        after = Description(self._arrays, self._following)
        changed = after != self._before
        if changed:
            after.dimensions()
        attrs = None if self._attrs == self._base.attrs else self._attrs
        if not changed and attrs is None and not self._dropped and not len(self._set):
            return None
        return Draft(
            description=after.to_json() if changed else None,
            attrs=attrs,
            chunks=ChunkChanges(dropped=tuple(self._dropped), numbers=self._set.numbers, refs=self._set.refs),
            source=source or self._source,
            message=message or _shown(self._messages) or "set attributes",
        )

    def _drop(self, stretches: list[tuple[int, int]]) -> None:
        self._dropped += stretches
        for first, end in stretches:
            numbers = self._set.numbers
            self._set = self._set.where((numbers < np.uint64(first)) | (numbers > np.uint64(end - 1)))

    def _entry(self, name: str) -> Entry:
        array = self._arrays.get(name)
        if array is None:
            taken_names = names_there(Description(self._arrays))
            raise NotFoundError(
                f"{self._base.name.at(None)}: has no array {shown_text(str(name))[:80]!r}; {taken_names}"
            )
        return array

    def _renumbered(self, seen: Record, renumber: Callable[[Numbers, Refs], tuple[Numbers, Refs]]) -> Overlay:
        parts = [renumber(*part) for part in _batches(self._version, seen)]
        if not parts:
            return EMPTY_OVERLAY
        numbers, refs = (np.concatenate(part) for part in zip(*parts, strict=True))
        return EMPTY_OVERLAY.merged(numbers, refs)


def _batches(version: Version, seen: Record) -> Iterable[tuple[Numbers, Refs]]:
    return present_refs(version.fetcher, seen, batch_bytes=_BATCH_BYTES)


def _shown(messages: list[str]) -> str:
    return "; ".join(messages[:5]) + (f"; and {len(messages) - 5} more" if len(messages) > 5 else "")
