"""Giving a version another name, with its history: its records are written anew, and its data stays where it is.

Order: referrers, then the records from the first on, and last the deletion of the old name. So what is killed midway
has left the old name whole, and whoever calls it again goes on where it was.
"""

from __future__ import annotations

from dataclasses import replace

from hubarray.errors import AlreadyExistsError, ConflictError, CorruptDataError, NotFoundError
from hubarray.history.reach import read_log
from hubarray.history.record import Record
from hubarray.history.referrers import write_referrer
from hubarray.history.safety import require_atomic_create
from hubarray.history.transaction import check_age
from hubarray.history.version import Version
from hubarray.names import Name
from hubarray.process import uptime_seconds


def write_anew(source: Version, target: Version) -> Record | None:
    """Write the log of a version anew under another name, as far as that is not done; gives the newest new record.

    None if the source is a deletion whose log is there already: only its end was missing.

    Raises
    ------
    NotFoundError
        There is no source, or it was deleted by somebody else.
    AlreadyExistsError
        Something else is, or was, under the target's name.
    ConflictError
        It took longer than half the grace period.
    """
    began = uptime_seconds()
    records, _ = read_log(source.store, source.name)
    if not records:
        raise NotFoundError(f"{source.name}: there is no such version under {source.store.url}")
    newest = records[max(records)]
    there = _there(source, target, records)
    if newest.head.kind == "deleted":
        if there and max(there) == newest.head.number - 1:
            return None
        raise NotFoundError(f"{source.name}: was deleted at commit {newest.head.number}")
    require_atomic_create(target.store)
    for home in sorted({home for one in records.values() for home in one.homes} - {target.name.home}):
        write_referrer(target.store, home, target.name.home)
    parent, made = None, None
    for number, record in records.items():
        check_age(target, newest.head.grace_seconds, began)
        made = there.get(number)
        if made is None:
            made, ours = target.log.create(_renamed(record, target.name, parent))
            if not ours:
                raise ConflictError(f"{target.name}: somebody else committed {number} meanwhile; nothing was deleted")
        parent = made.digest
    if made is not None:
        target.committed(made)
    return made


def _there(source: Version, target: Version, records: dict[int, Record]) -> dict[int, Record]:
    """What an earlier attempt has written."""
    try:
        there, _ = read_log(target.store, target.name)
    except CorruptDataError as error:
        raise AlreadyExistsError(f"{target.name}: is taken, and cannot be read ({error}); choose another") from None
    for number, record in there.items():
        if number not in records or records[number].head.id != record.head.id:
            raise AlreadyExistsError(
                f"{target.name}: is, or was, the name of something else than {source.name}; choose another version"
            )
    return there


def _renamed(record: Record, name: Name, parent: str | None) -> Record:
    head = replace(record.head, owner=name.owner, name=name.name, version=name.version, parent=parent)
    if head.kind == "expired":
        return Record(head=head)
    others = sorted(set(record.homes) - {name.home})
    # Nobody reads a digest that is filled in on encoding.
    return replace(record, head=head, homes=(name.home, *others), digest="")
