"""Merging one version of a dataset into another: three ways, array by array, and within each as arrays are."""

from __future__ import annotations

from hubarray.arrays.diff import differing_chunks
from hubarray.arrays.merge import CONFLICT_SIDES, Merge, find_bases, merged_attrs
from hubarray.blobs.pack import PackWriter
from hubarray.datasets.changes import Changes
from hubarray.datasets.description import Description, description_of, view
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commit import Draft
from hubarray.history.record import Record
from hubarray.history.version import Version


class MergeDataset:
    """Bring the changes of ``theirs`` since the last common commit into the version this is committed to.

    Arrays are told by their ids, which copies keep. What they added is added, what they dropped or renamed is dropped
    or renamed, unless ours was changed too.

    Parameters
    ----------
    version, record : Version, Record
        Theirs.
    on_conflict : None, "ours" or "theirs"
        Whose elements and attributes stay where both changed them; None refuses.
    """

    on_frozen = False

    def __init__(self, version: Version, record: Record, on_conflict: str | None) -> None:
        if on_conflict not in CONFLICT_SIDES:
            raise ConfigError(
                f"on_conflict={on_conflict!r}: give 'ours' (the version merged into), 'theirs', or nothing"
            )
        self._version, self._theirs, self._on_conflict = version, record, on_conflict

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commit.Operation`."""
        bases = find_bases((self._version, self._theirs), (version, base))
        changes = Changes(version, base)
        theirs, ours = description_of(self._theirs), description_of(base)
        olds = [description_of(record) for _, record in bases]
        for name in theirs.arrays:
            self._merge_array(name, changes, bases, olds, ours, version, packs)
        for id, name in _by_id(ours).items():
            if id not in _by_id(theirs) and any(id in _by_id(old) for old in olds):
                self._drop(name, changes, bases, version)
        attrs = merged_attrs(
            [record.attrs for _, record in bases], self._theirs.attrs, base.attrs, self._on_conflict, version
        )
        changes.set_attrs(attrs)
        return changes.draft(message=f"merge {self._theirs.name}", source=str(self._theirs.name))

    def _merge_array(
        self,
        name: str,
        changes: Changes,
        bases: list[tuple[Version, Record]],
        olds: list[Description],
        ours: Description,
        version: Version,
        packs: PackWriter,
    ) -> None:
        member = description_of(self._theirs).arrays[name]
        here = _by_id(ours).get(member.id)
        names = [_by_id(old).get(member.id) for old in olds]
        known = [(side, old) for side, old in zip(bases, names, strict=True) if old is not None]
        if here is None:
            if not known:
                changes.adopt(name, self._version, self._theirs)
                return
            if any(self._differs(side, old, name) for side, old in known):
                if self._on_conflict == "theirs":
                    changes.adopt(name, self._version, self._theirs)
                    return
                if self._on_conflict == "ours":
                    return
                raise ConflictError(
                    f"{self._theirs.name} changed the array {name!r}, which {version.name} has dropped; nothing was "
                    "written. Say which counts with on_conflict='ours' or 'theirs'"
                )
            return
        if not known:
            raise ConflictError(f"{self._theirs.name} and {version.name}: the array {name!r} has no commit in common")
        sides = [(side[0], view(side[1], old)) for side, old in known]
        merge = Merge(self._version, view(self._theirs, name), self._on_conflict, bases=sides)
        draft = merge.apply(changes.view(here), version, packs)
        if draft is not None:
            changes.add(here, draft)
        if all(old != name for _, old in known) and here != name:
            if any(here == old for _, old in known):
                changes.rename(here, name)
            elif self._on_conflict is None:
                raise ConflictError(
                    f"{self._theirs.name} and {version.name}: both renamed an array, to {name!r} and to {here!r}; "
                    "nothing was written. Say whose name stays with on_conflict='ours' or 'theirs'"
                )
            elif self._on_conflict == "theirs":
                changes.rename(here, name)

    def _drop(self, name: str, changes: Changes, bases: list[tuple[Version, Record]], version: Version) -> None:
        id = changes.id_of(name)
        for side in bases:
            old = _by_id(description_of(side[1])).get(id or "")
            if old is None:
                continue
            before, now = view(side[1], old), changes.view(name)
            same = (before.description, before.attrs) == (now.description, now.attrs) and not differing_chunks(
                (side[0], before), (version, now)
            )[0]
            if not same and self._on_conflict is None:
                raise ConflictError(
                    f"{self._theirs.name} dropped the array {name!r}, which {version.name} has changed; nothing was "
                    "written. Say which counts with on_conflict='ours' or 'theirs'"
                )
            if not same and self._on_conflict == "ours":
                return
        changes.drop(name)

    def _differs(self, side: tuple[Version, Record], old: str, name: str) -> bool:
        before, after = view(side[1], old), view(self._theirs, name)
        if (before.description, before.attrs) != (after.description, after.attrs):
            return True
        return bool(differing_chunks((side[0], before), (self._version, after))[0])


def _by_id(description: Description) -> dict[str, str]:
    return {one.id: name for name, one in description.arrays.items()}
