"""The head of a record: its first line, which listing a log reads alone. Pure: bytes in, heads out."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import datetime

import xxhash

from hubarray import names
from hubarray.errors import CorruptDataError, FormatVersionError, InvalidNameError
from hubarray.history.records.json_fields import Fields, parse_json
from hubarray.names import Name
from hubarray.redaction import shown_text
from hubarray.storage.base import Buffer

# Those between are of records that are not written yet: virtual references, and slashes in names of arrays.
FORMATS = (1, 2, 3, 4, 7)
HEAD_READ_BYTES = 1024
MAX_GRACE_SECONDS = 100 * 365 * 86400
KINDS = ("array", "table", "dataset", "deleted", "expired")
_MAX_TIME_LETTERS = 64
_FORMAT_FIELD = re.compile(rb'\{"hubarray":(\d{1,9})[,}]')


@dataclass(frozen=True)
class Head:
    """The small fields of a record: what a log shows.

    Attributes
    ----------
    kind : str
        ``array``, ``table``, ``dataset``, ``deleted``, or ``expired`` (a stub whose state is gone).
    id : str
        The commit id: fixed across retries and rebases.
    line, generation : str
        Random ids: of the version's life since it was last created, and of
        the array in it since it was last created or overwritten.
    parent : str or None
        BLAKE3 of the record before.
    time : str
        ISO 8601, UTC, never before the parent's.
    source : str or None
        For a copy, the commit it was copied from; for a merge or a
        restore, the commit that was merged or restored.
    """

    owner: str
    name: str
    version: str
    number: int
    id: str
    line: str
    generation: str
    kind: str
    time: str
    author: str
    parent: str | None = None
    frozen: bool = False
    expired_to: int = 0
    grace_seconds: float = 7 * 86400.0
    source: str | None = None
    message: str = ""


def decode_head(data: Buffer, name: Name, number: int, where: str) -> Head | None:
    """Read a head from a record's first bytes; None if they do not hold all of it."""
    raw = bytes(data)
    check_format(raw, where)
    line, newline, _ = raw.partition(b",\n")
    if not newline:
        return None
    return head_of(line, Fields(parse_json(line + b"}", where), where), name, number, where)


_HEAD_FIELDS = frozenset(field.name for field in fields(Head))


def head_of(line: bytes, body: Fields, name: Name, number: int, where: str) -> Head:
    """The head of a record, whose first line it is in, every field of it checked."""
    head = body.inner("head")
    text = line.partition(b'"head":')[2].rpartition(b',"head_xxh3":')[0]
    if body.text("head_xxh3") != xxhash.xxh3_128_hexdigest(text):
        raise CorruptDataError(f"{where}: the record's head does not match its own hash; restore it from a copy")
    _check_place(head, name, number, where)
    kind = head.text("kind")
    if kind not in KINDS:
        raise FormatVersionError(
            f"{where}: is of the kind {shown_text(kind[:80])!r}, which this hubarray does not know; upgrade hubarray"
        )
    head.only(_HEAD_FIELDS)
    return Head(
        name.owner,
        name.name,
        name.version,
        number,
        head.id("id"),
        head.id("line"),
        head.id("generation"),
        kind,
        _time(head),
        head.text("author"),
        parent=head.digest("parent") if "parent" in head.raw else None,
        frozen=head.flag("frozen", False),
        expired_to=head.integer("expired_to", 0, number - 1, 0),
        grace_seconds=head.number("grace_seconds", MAX_GRACE_SECONDS, Head.grace_seconds),
        source=_source(head) if "source" in head.raw else None,
        message=head.text("message", ""),
    )


def _time(head: Fields) -> str:
    text: str = head.text("time")
    try:
        known = len(text) <= _MAX_TIME_LETTERS and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        head.refuse("time", "is not a moment with a time zone")
    return text


def _source(head: Fields) -> str:
    text: str = head.text("source")
    try:
        if names.parse(text, commit_allowed=True).commit is None:
            head.refuse("source", "names no commit")
    except InvalidNameError:
        head.refuse("source", "is not a name")
    return text


def check_format(raw: bytes, where: str) -> None:
    """Refuse data that is not a record, or that needs a newer format.

    Raises
    ------
    CorruptDataError, FormatVersionError
    """
    match = _FORMAT_FIELD.match(raw)
    if match is None:
        raise CorruptDataError(f"{where}: not a commit record; restore it from a copy")
    if int(match.group(1)) not in FORMATS:
        raise FormatVersionError(
            f"{where}: written in format {int(match.group(1))}, which this hubarray does not read (it reads "
            f"{', '.join(map(str, FORMATS))}); upgrade hubarray"
        )


def _check_place(head: Fields, name: Name, number: int, where: str) -> None:
    head_fields = tuple(head.take(part, (str, int)) for part in ("owner", "name", "version", "number"))
    if head_fields != (name.owner, name.name, name.version, number) or type(head_fields[3]) is not int:
        its = "{}/{}:{}@{}".format(*(shown_text(str(head_field)[:128]) for head_field in head_fields))
        raise CorruptDataError(f"{where}: holds the record of {its}")


def head_hash(head: str) -> str:
    """The hash that a record has of its head's JSON."""
    return xxhash.xxh3_128_hexdigest(head.encode())
