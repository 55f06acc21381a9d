"""Rename a version with its history: its records are written again, and its data stays in its place.

Order: referrers, then the records from the first on, and last the deletion of the old name. If it is killed midway, the
old name is still whole, and a second call continues.
"""

from __future__ import annotations

from dataclasses import replace

from hubarray.errors import AlreadyExistsError, ConflictError, CorruptDataError, NotFoundError
from hubarray.history.commits.commit import check_age
from hubarray.history.log.probes import require_atomic_create
from hubarray.history.log.version import Version
from hubarray.history.maintenance.reachability import read_log
from hubarray.history.records.record import Record
from hubarray.history.records.referrers import write_referrer
from hubarray.names import Name, parse
from hubarray.process import uptime_seconds


def write_anew(source: Version, target: Version) -> Record | None:
    """Write the rest of the log of a version again under another name, and return its newest record.

    None if the source is a deletion whose log is there already: somebody else, or an earlier call, came to the end.

    Raises
    ------
    NotFoundError
        The source does not exist, or somebody else has deleted it.
    AlreadyExistsError
        Something else is, or was, under the target's name.
    ConflictError
        It took longer than half the grace period.
    """
    began = uptime_seconds()
    # In this order: another process that renames it too writes nothing there that is not in the source before.
    target_records = _records_at(target)
    records, _ = read_log(source.store, source.name)
    if not records:
        raise NotFoundError(f"{source.name}: there is no such version under {source.store.url}")
    newest = records[max(records)]
    if newest.head.kind == "deleted":
        target_records = _records_at(target)
        moved = {number: record.head.id for number, record in records.items() if number < newest.head.number}
        if moved and moved.items() <= {number: record.head.id for number, record in target_records.items()}.items():
            return None
        raise NotFoundError(f"{source.name}: was deleted at commit {newest.head.number}")
    _refuse_others(target_records, source, target, records)
    require_atomic_create(target.store)
    for home in sorted({home for record in records.values() for home in record.homes} - {target.name.home}):
        write_referrer(target.store, home, target.name.home)
    parent, made = None, None
    for number, record in records.items():
        check_age(target, newest.head.grace_seconds, began)
        made = target_records.get(number)
        if made is None:
            made, ours = target.log.create(_renamed(record, source.name, target.name, parent))
            if not ours:
                raise ConflictError(
                    f"{target.name}: somebody else has committed {number} in the meantime; nothing was deleted"
                )
        parent = made.digest
    if made is not None:
        target.committed(made)
    return made


def _records_at(target: Version) -> dict[int, Record]:
    """The records under the new name, such as those that an earlier attempt has written."""
    try:
        return read_log(target.store, target.name)[0]
    except CorruptDataError as error:
        raise AlreadyExistsError(f"{target.name}: is taken, and cannot be read ({error}); choose another") from None


def _refuse_others(
    target_records: dict[int, Record], source: Version, target: Version, records: dict[int, Record]
) -> None:
    for number, record in target_records.items():
        if number not in records or records[number].head.id != record.head.id:
            raise AlreadyExistsError(
                f"{target.name}: has a log of its own, whose commits are not those of {source.name}; choose another "
                "version, or bring what was deleted back with hub.restore"
            )


def _renamed(record: Record, old: Name, name: Name, parent: str | None) -> Record:
    head = replace(record.head, owner=name.owner, name=name.name, version=name.version, parent=parent)
    source = parse(head.source, commit_allowed=True) if head.source else None
    if source is not None and source.at(None) == old:
        # A restore of an own commit, which has the same number now.
        head = replace(head, source=str(name.at(source.commit)))
    if head.kind == "expired":
        return Record(head=head)
    others = sorted(set(record.homes) - {name.home})
    # Nobody reads a digest that is filled in on encoding.
    return replace(record, head=head, homes=(name.home, *others), digest="")
