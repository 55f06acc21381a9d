"""Differences between two commits of datasets, array by array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hubarray.arrays.diff import Diff, diff_elements
from hubarray.arrays.diff import diff as diff_chunks
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.datasets.description import description_of, view
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record

Side = tuple[Version, Record]

_SHOWN_REGIONS = 5


@dataclass(frozen=True)
class DatasetDiff:
    """Differences between two commits of datasets; false where nothing does.

    Attributes
    ----------
    added, dropped : tuple of str
        Arrays that only the second, only the first side has.
    renamed : dict of str to str
        New names by old ones, of arrays that are the same.
    changed : dict of str to Diff
        Where the elements of an array differ, by its new name.
    replaced : tuple of str
        Arrays that are stored otherwise on the two sides, so that chunks cannot be compared.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, Diff] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.renamed or self.changed or self.replaced)

    def __str__(self) -> str:
        lines = [f"{name}: added" for name in self.added] + [f"{name}: dropped" for name in self.dropped]
        lines += [f"{old}: renamed to {new}" for old, new in self.renamed.items()]
        lines += [f"{name}: is stored otherwise" for name in self.replaced]
        for name, array_diff in self.changed.items():
            regions = ", ".join(_region(region) for region in array_diff.regions[:_SHOWN_REGIONS])
            more = (
                f" and {len(array_diff.regions) - _SHOWN_REGIONS} more"
                if len(array_diff.regions) > _SHOWN_REGIONS
                else ""
            )
            shapes = (
                ""
                if array_diff.shapes[0] == array_diff.shapes[1]
                else f"shape {array_diff.shapes[0]} to {array_diff.shapes[1]}, "
            )
            lines.append(f"{name}: {shapes}{regions}{more}" if regions else f"{name}: {shapes}".rstrip(", "))
        return "\n".join(lines) or "no difference"


def diff_datasets(left: Side, right: Side, *, elements: bool) -> DatasetDiff:
    """Compare two commits array by array: those of one id, wherever it comes from, else those of one name.

    Raises
    ------
    CorruptDataError, StorageError
    """
    before, after = description_of(left[1]).arrays, description_of(right[1]).arrays
    by_id = {member.id: name for name, member in after.items()}
    pairs = {name: by_id[member.id] for name, member in before.items() if member.id in by_id}
    paired = set(pairs.values())
    pairs |= {name: name for name in before if name not in pairs and name in after and name not in paired}
    paired = set(pairs.values())
    changed: dict[str, Diff] = {}
    replaced = []
    for old, new in pairs.items():
        sides: Any = [(left[0], view(left[1], old)), (right[0], view(right[1], new))]
        if not metadata_of(sides[0][1]).stored_like(metadata_of(sides[1][1])):
            replaced.append(new)
            continue
        array_diff = diff_elements(*sides) if elements else diff_chunks(*sides)
        if array_diff:
            changed[new] = array_diff
    return DatasetDiff(
        added=tuple(name for name in after if name not in paired),
        dropped=tuple(name for name in before if name not in pairs),
        renamed={old: new for old, new in pairs.items() if old != new},
        changed=changed,
        replaced=tuple(replaced),
    )


def _region(region: tuple[slice, ...]) -> str:
    return "[" + ", ".join(f"{part.start}:{part.stop}" for part in region) + "]"
