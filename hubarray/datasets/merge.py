"""Merging one version of a dataset into another: three ways, array by array, and within each as arrays are."""

from __future__ import annotations

from hubarray.arrays.diff import differing_chunks
from hubarray.arrays.merge import CONFLICT_SIDES, Merge, find_bases, merged_attrs
from hubarray.arrays.write.operations import Resize
from hubarray.blobs.pack import PackWriter
from hubarray.datasets.dataset_draft import DatasetDraft
from hubarray.datasets.description import description_of, view
from hubarray.datasets.operations import naming
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commits.draft import Draft
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record

Side = tuple[Version, Record]

_SAY = "nothing was written. Say which counts with on_conflict='ours' or 'theirs'"


class MergeDataset:
    """Bring the changes of ``theirs`` since the last common commit into the version this is committed to.

    Arrays are identified by their ids, which copies keep. What they added is added, what they dropped or renamed is
    dropped or renamed, unless ours was changed too.

    Parameters
    ----------
    version, record : Version, Record
        Theirs.
    on_conflict : None, "ours" or "theirs"
        What stays where both changed elements, attributes, a name or an array as a whole; None refuses.
    """

    allowed_when_frozen = False
    is_small = False

    def __init__(self, version: Version, record: Record, on_conflict: str | None) -> None:
        if on_conflict not in CONFLICT_SIDES:
            raise ConfigError(
                f"on_conflict={on_conflict!r}: give 'ours' (the version merged into), 'theirs', or nothing"
            )
        self._theirs, self._on_conflict = (version, record), on_conflict

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        return _Attempt(self._theirs, (version, base), self._on_conflict).draft(packs)


class _Attempt:
    """A merge onto one record."""

    def __init__(self, theirs: Side, ours: Side, on_conflict: str | None) -> None:
        self._theirs, self._ours, self._on_conflict = theirs, ours, on_conflict
        self._draft = DatasetDraft(*ours)
        self._bases = find_bases(theirs, ours)
        # Of each commit the names of its arrays, by their ids.
        self._their_names, self._our_names = _names(theirs), _names(ours)
        self._old_names = [_names(side) for side in self._bases]

    def draft(self, packs: PackWriter) -> Draft | None:
        """Our record, merged. Names that are given up come before those that are taken.

        Raises
        ------
        ConflictError
        """
        for id, name in self._our_names.items():
            if id not in self._their_names and self._before(id):
                self._drop(id, name)
        common = {id: name for id, name in self._our_names.items() if id in self._their_names}
        for id, name in common.items():
            self._merge_elements(id, name, packs)
        self._rename(common)
        for id, name in self._their_names.items():
            if id not in self._our_names:
                self._add(id, name)
        self._agree_on_lengths(packs)
        (_, theirs), (version, ours) = self._theirs, self._ours
        olds = [record.attrs for _, record in self._bases]
        self._draft.set_attrs(merged_attrs(olds, theirs.attrs, ours.attrs, self._on_conflict, version))
        return self._draft.build(message=f"merge {theirs.name}", source=str(theirs.name))

    def _before(self, id: str) -> list[Side]:
        """The array as the common commits have it."""
        known = zip(self._bases, self._old_names, strict=True)
        return [(version, view(record, names[id])) for (version, record), names in known if id in names]

    def _drop(self, id: str, name: str) -> None:
        if _has_changed(self._before(id), (self._ours[0], self._draft.view(name))) and self._keeps_ours(
            f"{self._theirs[1].name} dropped the array {name!r}, which {self._ours[0].name} has changed"
        ):
            return
        self._draft.drop(name)

    def _add(self, id: str, name: str) -> None:
        version, record = self._theirs
        before = self._before(id)
        if before:
            if not _has_changed(before, (version, view(record, name))):
                return
            if self._keeps_ours(f"{record.name} changed the array {name!r}, which {self._ours[0].name} has dropped"):
                return
        if self._draft.id_of(name) is not None:
            if self._keeps_ours(f"{record.name} and {self._ours[0].name}: both have an array {name!r} of their own"):
                return
            self._draft.drop(name)
        self._draft.adopt(name, version, record)

    def _merge_elements(self, id: str, name: str, packs: PackWriter) -> None:
        before = self._before(id)
        if not before:
            raise ConflictError(
                f"{self._theirs[1].name} and {self._ours[0].name}: the array {name!r} has no commit in common; nothing "
                "was written. Drop it on one side"
            )
        version, record = self._theirs
        merge = Merge(version, view(record, self._their_names[id]), self._on_conflict, bases=before)
        with naming(name):
            draft = merge.apply(self._draft.view(name), self._ours[0], packs)
        if draft is not None:
            self._draft.add(name, draft)

    def _agree_on_lengths(self, packs: PackWriter) -> None:
        """Grow arrays that one side alone has, with their fill value, to what their dimensions have become.

        Raises
        ------
        ConflictError
            One is longer than the dimension is now.
        """
        both = self._our_names.keys() & self._their_names.keys()
        shared = [entry for entry in self._draft.arrays.values() if entry.id in both]
        alone = {name: entry for name, entry in self._draft.arrays.items() if entry.id not in both}
        settled = {dim: length for entry in shared for dim, length in entry.lengths if dim is not None}
        lengths = dict(settled)
        for dim, length in (axis for entry in alone.values() for axis in entry.lengths):
            if dim is not None and dim not in settled:
                lengths[dim] = max(length, lengths.get(dim, 0))
        for name, entry in alone.items():
            before = tuple(length for _, length in entry.lengths)
            shape = tuple(lengths.get(dim, length) if dim else length for dim, length in entry.lengths)
            for (dim, length), now in zip(entry.lengths, shape, strict=True):
                if now < length:
                    raise ConflictError(
                        f"the array {name!r} has {length:,} along {dim!r}, which has become {now:,}; nothing was "
                        f"written. Resize {dim!r} on one side first"
                    )
            draft = Resize(shape, before).apply(self._draft.view(name), self._ours[0], packs)
            if draft is not None:
                self._draft.add(name, draft)

    def _rename(self, common: dict[str, str]) -> None:
        renamed = {}
        for id, ours in common.items():
            theirs, before = self._their_names[id], {names[id] for names in self._old_names if id in names}
            if ours == theirs or theirs in before:
                continue
            if ours not in before and self._keeps_ours(
                f"{self._theirs[1].name} and {self._ours[0].name}: both renamed an array, to {theirs!r} and to {ours!r}"
            ):
                continue
            renamed[ours] = theirs
        for ours, theirs in list(renamed.items()):
            taken = theirs not in renamed and self._draft.id_of(theirs) is not None
            if taken and self._keeps_ours(
                f"{self._theirs[1].name} renamed {ours!r} to {theirs!r}, which is another array of {self._ours[0].name}"
            ):
                del renamed[ours]
            elif taken:
                self._draft.drop(theirs)
        self._draft.rename(renamed)

    def _keeps_ours(self, why: str) -> bool:
        """Whether what ours has stays; a conflict if nobody said.

        Raises
        ------
        ConflictError
        """
        if self._on_conflict is None:
            raise ConflictError(f"{why}; {_SAY}")
        return self._on_conflict == "ours"


def _names(side: Side) -> dict[str, str]:
    return {entry.id: name for name, entry in description_of(side[1]).arrays.items()}


def _has_changed(before: list[Side], now: Side) -> bool:
    """Whether an array differs from what it was in one of some commits, in whatever respect."""
    return any(
        (record.description, record.attrs) != (now[1].description, now[1].attrs)
        or bool(differing_chunks((version, record), now)[0])
        for version, record in before
    )
