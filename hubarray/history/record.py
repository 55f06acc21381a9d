"""Commit records: everything needed to open a version at one commit, in one object.

A record is JSON in three lines: a small head that listing a log reads alone,
the body, and the BLAKE3 of all that precedes it. ``docs/FORMAT.md`` has the
fields. Pure: bytes in, records out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

import blake3
import numpy as np
import xxhash

from hubarray.blobs.ref import homes
from hubarray.errors import ConfigError, CorruptDataError, FormatVersionError
from hubarray.history.manifest import NodeRef, Root
from hubarray.history.overlay import EMPTY, Overlay
from hubarray.names import Name
from hubarray.storage.base import Buffer

FORMAT = 1
MAX_RECORD_BYTES = 1 << 20
MAX_ATTRS_BYTES = 64 << 10
MAX_MESSAGE_BYTES = 16 << 10
MAX_CHANGED_RUNS = 1000
MAX_TAGS = 1000
HEAD_READ_BYTES = 1024

_FORMAT_FIELD = re.compile(rb'\{"hubarray":(\d+)[,}]')
_HASH_FIELD = b'"blake3":"'
_HASH_LINE_BYTES = len(_HASH_FIELD) + 64 + len(b'"}\n')


@dataclass(frozen=True)
class Head:
    """The small fields of a record: what a log shows.

    Attributes
    ----------
    kind : str
        ``array``, ``table``, ``deleted``, or ``expired`` (a stub whose state is gone).
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


@dataclass(frozen=True)
class Changed:
    """The chunks that one commit changed: runs of numbers, in the record or in a node of their own."""

    runs: tuple[tuple[int, int], ...] = ()
    node: NodeRef | None = None


@dataclass(frozen=True)
class Record:
    """One commit, whole.

    Attributes
    ----------
    head : Head
    array : dict
        Zarr v3 metadata of the array, without attributes.
    attrs : dict
        The user's attributes.
    tags : dict
        Commit numbers by tag: what never expires.
    grid : tuple of int
        The numbering grid.
    manifest : Root or None
    overlay : Overlay
    homes : tuple of str
        Every home that the record reaches, its own first.
    changed : Changed
    digest : str
        BLAKE3 of the record's bytes.
    """

    head: Head
    array: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    manifest: Root | None = None
    overlay: Overlay = EMPTY
    homes: tuple[str, ...] = ()
    changed: Changed = Changed()
    digest: str = ""

    @property
    def ref(self) -> Name:
        """The record's full name, with its number."""
        return Name(self.head.owner, self.head.name, self.head.version, self.head.number)


def record_key(name: Name, number: int) -> str:
    """``owner/name/log/<version>/0000000000000001.json``."""
    return f"{name.home}/log/{name.version}/{number:016d}.json"


def encode(record: Record) -> tuple[bytes, Record]:
    """The record's bytes, and the record with its digest filled in."""
    home = f"{record.head.owner}/{record.head.name}"
    head = _dumps({key: value for key, value in record.head.__dict__.items() if value is not None})
    first = f'{{"hubarray":{FORMAT},"head":{head},"head_xxh3":"{_head_hash(head)}"'
    overlay, overlay_homes = record.overlay.encode(home)
    body: dict[str, Any] = {
        "array": record.array,
        "attrs": record.attrs,
        **({"tags": record.tags} if record.tags else {}),
        "homes": list(record.homes) or [home],
        "numbering_grid": list(record.grid),
        "manifest": None if record.manifest is None else _root_json(record.manifest),
        "changed": _changed_json(record.changed),
        "overlay_homes": overlay_homes,
        "overlay": overlay,
    }
    text = f"{first},\n{_dumps(body)[1:-1]},\n".encode()
    digest = blake3.blake3(text).hexdigest()
    data = text + _HASH_FIELD + digest.encode() + b'"}\n'
    if len(data) >= MAX_RECORD_BYTES:
        raise ConfigError(
            f"{record.ref}: its description takes {len(data)} bytes and a record has less than {MAX_RECORD_BYTES}; "
            "use fewer fields, a smaller fill value or fewer attributes"
        )
    return data, replace(record, digest=digest)


def encode_stub(record: Record) -> bytes:
    """What is left of an expired record: its head, which keeps number and commit id, and nothing it reached."""
    return encode(Record(head=replace(record.head, kind="expired")))[0]


def decode(data: Buffer, name: Name, number: int, where: str) -> Record:
    """Read and check a record.

    Parameters
    ----------
    data : bytes
    name : Name
        Whose log it was found in; checked against what the record says.
    number : int
        Its place in the log; checked likewise.
    where : str
        How errors name it.

    Raises
    ------
    CorruptDataError
        The bytes are not a record, do not match their hash, or are another one's.
    FormatVersionError
        It was written by a newer hubarray.
    """
    raw = bytes(data)
    _check_format(raw, where)
    text, last = raw[:-_HASH_LINE_BYTES], raw[-_HASH_LINE_BYTES:]
    digest = blake3.blake3(text).hexdigest()
    if last != _HASH_FIELD + digest.encode() + b'"}\n':
        raise CorruptDataError(f"{where}: the record does not match its own hash; restore it from a copy")
    try:
        fields = json.loads(raw)
        head = Head(**fields["head"])
        table = fields.get("overlay_homes", [])
        record = Record(
            head=head,
            array=fields.get("array", {}),
            attrs=fields.get("attrs", {}),
            tags={str(tag): int(commit) for tag, commit in fields.get("tags", {}).items()},
            grid=tuple(fields.get("numbering_grid", ())),
            manifest=_root(fields["manifest"]) if fields.get("manifest") else None,
            overlay=Overlay.decode(fields.get("overlay", ""), table),
            homes=tuple(fields.get("homes", ())),
            changed=_changed(fields.get("changed", [])),
            digest=digest,
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise CorruptDataError(f"{where}: the record cannot be read ({type(error).__name__}: {error})") from None
    _check_place(head, name, number, where)
    return record


def decode_head(data: Buffer, name: Name, number: int, where: str) -> Head | None:
    """Read a head from a record's first bytes; None if they do not hold all of it."""
    raw = bytes(data)
    _check_format(raw, where)
    line, newline, _ = raw.partition(b",\n")
    if not newline:
        return None
    try:
        fields = json.loads(line + b"}")
        head = Head(**fields["head"])
        intact = fields["head_xxh3"] == _head_hash(_dumps(fields["head"]))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptDataError(f"{where}: the record cannot be read ({type(error).__name__}: {error})") from None
    if not intact:
        raise CorruptDataError(f"{where}: the record's head does not match its own hash; restore it from a copy")
    _check_place(head, name, number, where)
    return head


def _check_format(raw: bytes, where: str) -> None:
    found = _FORMAT_FIELD.match(raw)
    if found is None:
        raise CorruptDataError(f"{where}: not a commit record; restore it from a copy")
    if int(found.group(1)) > FORMAT:
        raise FormatVersionError(
            f"{where}: written in format {int(found.group(1))}, newer than the {FORMAT} this hubarray reads; "
            "upgrade hubarray"
        )


def _check_place(head: Head, name: Name, number: int, where: str) -> None:
    found = (head.owner, head.name, head.version, head.number)
    if found != (name.owner, name.name, name.version, number):
        raise CorruptDataError(f"{where}: holds the record of {head.owner}/{head.name}:{head.version}@{head.number}")


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _head_hash(head: str) -> str:
    return xxhash.xxh3_128_hexdigest(head.encode())


def _node_json(node: NodeRef) -> dict[str, Any]:
    return {"home": node.home, "id": node.id, "length": node.length, "xxh3": node.digest.hex()}


def _node(fields: dict[str, Any]) -> NodeRef:
    homes.index(fields["home"])
    return NodeRef(fields["home"], fields["id"], int(fields["length"]), bytes.fromhex(fields["xxh3"]))


def _root_json(root: Root) -> dict[str, Any]:
    return _node_json(root.node) | {"depth": root.depth}


def _root(fields: dict[str, Any]) -> Root:
    return Root(_node(fields), int(fields["depth"]))


def _changed_json(changed: Changed) -> Any:
    return _node_json(changed.node) if changed.node else [list(run) for run in changed.runs]


def _changed(fields: Any) -> Changed:
    if isinstance(fields, dict):
        return Changed(node=_node(fields))
    return Changed(runs=tuple((int(first), int(count)) for first, count in fields))


def encode_runs(runs: list[tuple[int, int]]) -> bytes:
    """Runs as the bytes of a node of their own: pairs of little-endian uint64."""
    return np.array(runs, "<u8").tobytes()
