"""Commit records: everything needed to open a version at one commit, in one object.

A record is JSON in three lines: a small head that listing a log reads alone,
the body, and the BLAKE3 of all that precedes it. ``docs/FORMAT.md`` has the
fields. Pure: bytes in, records out.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

import blake3
import numpy as np

from hubarray import names
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.history.records.extents import Extents
from hubarray.history.records.head import Head, check_format, head_hash, head_of
from hubarray.history.records.json_fields import (
    MAX_INT64,
    NUMBER_KEY,
    Fields,
    numbers_from_json,
    numbers_to_json,
    parse_json,
)
from hubarray.history.records.long_descriptions import (
    MAX_DESCRIPTION_BYTES,
    MAX_DESCRIPTION_NODE_BYTES,
    PACKED_FROM_BYTES,
    LongDescription,
    pack,
    unpack,
)
from hubarray.history.records.manifest import MAX_LEVELS, MAX_NODE_BYTES, NodeRef, TreeRoot
from hubarray.history.records.overlay import EMPTY_OVERLAY, MAX_OVERLAY_REFS, Numbers, Overlay
from hubarray.names import Name
from hubarray.storage.base import Buffer

MAX_RECORD_BYTES = 1 << 20
MAX_ATTRS_BYTES = 64 << 10
MAX_MESSAGE_BYTES = 16 << 10
MAX_CHANGED_RUNS = 1000
MAX_TAGS = 1000
MAX_CHANGED_NODE_BYTES = 1 << 31

RECORD_NAME = re.compile(r"([0-9]{16})\.json", re.ASCII)
# The oldest format that knows a kind: whoever reads only older ones refuses the record, and with it to collect.
_FORMAT_OF_KIND = {"table": 2, "dataset": 2}
_FORMAT_OF_PACKED, _FORMAT_OF_NODE = 3, 4
FORMAT_OF_NUMBERS = 7
# What has no description says so where an array's would be.
_KINDS_DESCRIBED = ("array", "table", "dataset")
_MAX_AXES = 64
_KEPT_BYTES = 16 << 10
_PACKED_FIELD = b'_zlib":"'
_OF_NUMBERS = b'{"hubarray":7,'
_HASH_FIELD = b'"blake3":"'
_HASH_LINE_BYTES = len(_HASH_FIELD) + 64 + len(b'"}\n')


@dataclass(frozen=True)
class Changed:
    """The chunks that one commit changed: runs of numbers, in the record or in a node of their own."""

    runs: tuple[tuple[int, int], ...] = ()
    node: NodeRef | None = None


@dataclass(frozen=True)
class Member:
    """Which member of a version a record is seen for: some of its blobs, under numbers of their own.

    Attributes
    ----------
    name : str
    extents : Extents
        Which of the manifest's numbers are the member's.
    whole : Record
        The record of the version.
    """

    name: str
    extents: Extents
    whole: Record


@dataclass(frozen=True)
class Record:
    """One commit, whole.

    Attributes
    ----------
    head : Head
    described : dict or LongDescription
        The description of the version by its kind: for an array its Zarr v3 metadata, without attributes. A long one is
        a node of its own.
    attrs : dict
        The user's attributes.
    tags : dict
        Commit numbers by tag: what never expires.
    grid : tuple of int
        The numbering grid, for the kind to make numbers by.
    manifest : TreeRoot or None
    overlay : Overlay
    homes : tuple of str
        Every home that the record reaches, its own first.
    changed : Changed
    digest : str
        BLAKE3 of the record's bytes.
    member : Member or None
        Of a record as it is seen for one member of its version, such as an array of a dataset; never written.
    min_format : int
        The format that what it holds elsewhere asks for: 7 where attributes in the node of a long description are NaN
        or infinite.
    """

    head: Head
    described: dict[str, Any] | LongDescription = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    manifest: TreeRoot | None = None
    overlay: Overlay = EMPTY_OVERLAY
    homes: tuple[str, ...] = ()
    changed: Changed = Changed()
    digest: str = ""
    member: Member | None = None
    min_format: int = 0

    @property
    def description(self) -> dict[str, Any]:
        """The description; a long one is read the first time.

        Raises
        ------
        CorruptDataError
        """
        return self.described.value if isinstance(self.described, LongDescription) else self.described

    @property
    def lone_nodes(self) -> tuple[NodeRef, ...]:
        """The nodes that the record names beside its manifest: of its description, and of what it changed."""
        described = (self.described.node,) if isinstance(self.described, LongDescription) else ()
        return described if self.changed.node is None else (*described, self.changed.node)

    @property
    def name(self) -> Name:
        """The record's full name, with its number."""
        return Name(self.head.owner, self.head.name, self.head.version, self.head.number)


def record_key(name: Name, number: int) -> str:
    """``owner/name/log/<version>/0000000000000001.json``."""
    return f"{name.home}/log/{name.version}/{number:016d}.json"


def _description_key(kind: str) -> str:
    return kind if kind in _KINDS_DESCRIBED else "array"


def _packed_key(kind: str) -> str:
    return f"{_description_key(kind)}_zlib"


def _node_key(kind: str) -> str:
    return f"{_description_key(kind)}_node"


def _described_json(record: Record) -> tuple[int, dict[str, Any]]:
    """The least format that a record can have, and the field that describes it."""
    kind = record.head.kind
    if isinstance(record.described, LongDescription):
        return _FORMAT_OF_NODE, {_node_key(kind): _node_json(record.described.node)}
    text = _dumps(record.described)
    check_length(record.name, text)
    least = FORMAT_OF_NUMBERS if NUMBER_KEY in text else 0
    if len(text) > PACKED_FROM_BYTES:
        return max(least, _FORMAT_OF_PACKED), {_packed_key(kind): pack(text)}
    return max(least, _FORMAT_OF_KIND.get(kind, 1)), {_description_key(kind): record.described}


def check_length(name: Name, described: str, record_bytes: int = 0) -> None:
    """Refuse a description, or a record, that is too long to be read again."""
    if record_bytes >= MAX_RECORD_BYTES or len(described) > MAX_DESCRIPTION_BYTES:
        raise ConfigError(
            f"{name}: its description takes {len(described):,} bytes and its record {record_bytes:,}, which have "
            f"up to {MAX_DESCRIPTION_BYTES:,} and {MAX_RECORD_BYTES:,}; use fewer fields or arrays, smaller fill "
            "values or fewer attributes"
        )


def encode(record: Record) -> tuple[bytes, Record]:
    """The record's bytes, and the record with its digest filled in."""
    home = f"{record.head.owner}/{record.head.name}"
    head = _dumps({key: value for key, value in record.head.__dict__.items() if value is not None})
    number, described = _described_json(record)
    attrs = numbers_to_json(record.attrs)
    has_numbers = bool(attrs) and NUMBER_KEY in _dumps(attrs)
    number = max(number, record.min_format, FORMAT_OF_NUMBERS if has_numbers else 0)
    first = f'{{"hubarray":{number},"head":{head},"head_xxh3":"{head_hash(head)}"'
    overlay, overlay_homes = record.overlay.encode(home)
    body: dict[str, Any] = {
        **described,
        "attrs": attrs,
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
    check_length(record.name, "", len(data))
    return data, replace(record, digest=digest)


def encode_stub(record: Record) -> bytes:
    """The remains of an expired record: its head, which keeps number and commit id, and nothing it reached."""
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
    # The same record is opened again and again; what is as long as it may be would take memory for nothing.
    is_small = len(raw) <= _KEPT_BYTES and _PACKED_FIELD not in raw
    return (_decoded_again if is_small else _decoded)(raw, name, number, where)


def _decoded(raw: bytes, name: Name, number: int, where: str) -> Record:
    check_format(raw, where)
    if len(raw) >= MAX_RECORD_BYTES:
        raise CorruptDataError(
            f"{where}: is longer than the {MAX_RECORD_BYTES} bytes that a record may have; restore it from a copy"
        )
    text, last = raw[:-_HASH_LINE_BYTES], raw[-_HASH_LINE_BYTES:]
    digest = blake3.blake3(text).hexdigest()
    if last != _HASH_FIELD + digest.encode() + b'"}\n':
        raise CorruptDataError(f"{where}: the record does not match its own hash; restore it from a copy")
    body = Fields(parse_json(raw, where), where)
    head = head_of(raw.partition(b",\n")[0], body, name, number, where)
    home = f"{head.owner}/{head.name}"
    homes = tuple(body.checked_home("homes", own_home) for own_home in body.items("homes", MAX_RECORD_BYTES, [home]))
    if not homes or homes[0] != home or len(set(homes)) != len(homes):
        body.refuse("homes", "does not begin with the record's own home, or has one twice")
    described = _description(body, head.kind, homes)
    is_long = isinstance(described, LongDescription)
    return Record(
        head=head,
        described=described,
        attrs=numbers_from_json(body.take("attrs", dict, {})),
        tags=_tags(body, number),
        grid=body.integers("numbering_grid", _MAX_AXES, 1, MAX_INT64, []),
        manifest=_root(body, homes),
        overlay=_overlay(body, homes),
        homes=homes,
        changed=_changed(body, homes),
        digest=digest,
        # Only the node itself tells, and it may not be read before the next commit.
        min_format=FORMAT_OF_NUMBERS if is_long and raw.startswith(_OF_NUMBERS) else 0,
    )


def _description(body: Fields, kind: str, homes: tuple[str, ...]) -> dict[str, Any] | LongDescription:
    plain, packed, node = _description_key(kind), _packed_key(kind), _node_key(kind)
    forms = [key for key in (plain, packed, node) if key in body.raw]
    if len(forms) > 1:
        body.refuse(forms[-1], f"is there beside {forms[0]!r}")
    if forms == [node]:
        return LongDescription(_listed_node(body, node, MAX_DESCRIPTION_NODE_BYTES, homes))
    if forms == [packed]:
        return unpack(body, packed)
    stored_body: dict[str, Any] = body.take(plain, dict, {})
    return stored_body


_decoded_again = functools.lru_cache(maxsize=256)(_decoded)


def _tags(body: Fields, number: int) -> dict[str, int]:
    raw: dict[str, Any] = body.take("tags", dict, {})
    if len(raw) > MAX_TAGS:
        body.refuse("tags", f"has {len(raw)} entries, more than {MAX_TAGS}")
    tags = Fields(raw, body.where, "tags")
    for tag in raw:
        if not names.is_tag(tag):
            tags.refuse(tag, "is not a tag")
    return {tag: tags.integer(tag, 1, number) for tag in raw}


def _overlay(body: Fields, homes: tuple[str, ...]) -> Overlay:
    table = [body.checked_home("overlay_homes", home) for home in body.items("overlay_homes", len(homes), [])]
    if not set(table) <= set(homes):
        body.refuse("overlay_homes", "names a home that the record does not list")
    try:
        overlay = Overlay.decode(body.text("overlay", ""), table)
    except ValueError as error:
        body.refuse("overlay", f"cannot be read: {error}")
    if len(overlay) > MAX_OVERLAY_REFS:
        body.refuse("overlay", f"has {len(overlay)} entries, more than {MAX_OVERLAY_REFS}")
    return overlay


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _node_json(node: NodeRef) -> dict[str, Any]:
    return {"home": node.home, "id": node.id, "length": node.length, "xxh3": node.digest.hex()}


def _node(fields: Fields, max_bytes: int) -> NodeRef:
    length = fields.integer("length", 1, max_bytes)
    return NodeRef(fields.home("home"), fields.id("id"), length, bytes.fromhex(fields.id("xxh3")))


def _listed_node(body: Fields, name: str, max_bytes: int, homes: tuple[str, ...]) -> NodeRef:
    """The node that a field names, under a home that the record lists: what is not listed is not kept."""
    fields = body.inner(name)
    node = _node(fields, max_bytes)
    if node.home not in homes:
        fields.refuse("home", "is a home that the record does not list")
    return node


def _root_json(root: TreeRoot) -> dict[str, Any]:
    return _node_json(root.node) | {"depth": root.depth}


def _root(body: Fields, homes: tuple[str, ...]) -> TreeRoot | None:
    if body.raw.get("manifest") is None:
        return None
    node = _listed_node(body, "manifest", MAX_NODE_BYTES, homes)
    return TreeRoot(node, body.inner("manifest").integer("depth", 1, MAX_LEVELS))


def _changed_json(changed: Changed) -> Any:
    return _node_json(changed.node) if changed.node else [list(run) for run in changed.runs]


def _changed(body: Fields, homes: tuple[str, ...]) -> Changed:
    if isinstance(body.raw.get("changed"), dict):
        return Changed(node=_listed_node(body, "changed", MAX_CHANGED_NODE_BYTES, homes))
    runs: list[tuple[int, int]] = []
    end = 0
    for run in body.items("changed", MAX_CHANGED_RUNS, []):
        known = isinstance(run, list) and len(run) == 2 and type(run[0]) is type(run[1]) is int
        if not known or not (end <= run[0] and run[1] >= 1 and run[0] + run[1] <= 1 << 64):
            body.refuse("changed", "is not a list of runs, in order and apart")
        runs.append((run[0], run[1]))
        end = run[0] + run[1]
    return Changed(runs=tuple(runs))


def runs_of(numbers: Numbers) -> list[tuple[int, int]]:
    """Sorted distinct numbers as runs ``(first, count)``.

    Examples
    --------
    >>> runs_of(np.array([1, 2, 3, 7], np.uint64))
    [(1, 3), (7, 1)]
    """
    if len(numbers) == 0:
        return []
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    firsts = numbers[np.concatenate([[0], breaks])]
    counts = np.diff(np.concatenate([[0], breaks, [len(numbers)]]))
    return list(zip(firsts.tolist(), counts.tolist(), strict=True))


def encode_runs(runs: list[tuple[int, int]]) -> bytes:
    """Runs as the bytes of a node of their own: pairs of little-endian uint64."""
    return np.array(runs, "<u8").tobytes()
