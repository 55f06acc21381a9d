"""Records, nodes and hints with right hashes and wrong content, as whoever may write to a root can make them."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Callable
from typing import Any

import blake3
import lz4.frame
import numpy as np
import xxhash

import hubarray as hub
from hubarray.blobs.ref import blob_hash
from hubarray.history.log.hints import hint_writer
from hubarray.history.records.manifest import CHILD, FANOUT
from hubarray.names import parse

NAME = "t/x:v0"
RECORD = "t/x/log/v0/{:016d}.json"


def small_array(root: hub.Root) -> hub.Array:
    """An array with packs, inner nodes, an overlay, attributes and a tag, whose hint nobody writes any more."""
    for key, data in _objects_of_the_small_array().items():
        root.store.put(key, data)
    return hub.load(NAME, root=root)


@functools.cache
def _objects_of_the_small_array() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = hub.Root(folder)
        _write_small_array(root)
        return {info.key: bytes(root.store.get(info.key)) for info in root.store.list("")}


def _write_small_array(root: hub.Root) -> None:
    array = hub.array((3000, 4), NAME, "i4", chunks=(1, 4), root=root, fill_value=-1, attrs={"unit": "mm"})
    array[...] = np.arange(12000).reshape(3000, 4)
    array[5] = 7
    hub.tag(f"{NAME}@2", "kept", root=root)
    array[6] = 8
    hub.flush()
    hint_writer.forget(root.store, parse(NAME))


def newest(root: hub.Root) -> int:
    """The number of the newest record."""
    return max(int(info.key[-21:-5]) for info in root.store.list("t/x/log/v0/") if not info.key.endswith("head.json"))


def fields_of(root: hub.Root, number: int) -> dict[str, Any]:
    """A record's JSON."""
    result: dict[str, Any] = json.loads(bytes(root.store.get(RECORD.format(number))))
    return result


def record_bytes(fields: dict[str, Any]) -> bytes:
    """JSON of whatever content as a record, with right hashes."""
    fields = {key: value for key, value in fields.items() if key not in ("blake3", "head_xxh3")}
    head = _dumps(fields.pop("head", {}))
    first = f'{{"hubarray":{fields.pop("hubarray", 1)},"head":{head},"head_xxh3":"{_hash(head)}"'
    text = f"{first},\n{_dumps(fields)[1:-1] or chr(34) + 'x' + chr(34) + ':0'},\n".encode()
    return text + b'"blake3":"' + blake3.blake3(text).hexdigest().encode() + b'"}\n'


def forge(root: hub.Root, change: Callable[[dict[str, Any]], object], number: int | None = None) -> str:
    """Change a record, by default the newest one; gives its key."""
    number = newest(root) if number is None else number
    fields = copy.deepcopy(fields_of(root, number))
    change(fields)
    root.store.put(RECORD.format(number), record_bytes(fields))
    return RECORD.format(number)


def put_node(
    root: hub.Root,
    entries: np.ndarray,
    level: int,
    *,
    id: str = "ab" * 16,
    home: str = "t/x",
    table: Any = None,
    frame: bytes | None = None,
    after: bytes = b"",
) -> dict[str, Any]:
    """A manifest node of whatever content; gives what a record says of a root node, but for its depth."""
    names = json.dumps([home] if table is None else table).encode()
    planes = np.ascontiguousarray(entries.view("u1").reshape(len(entries), -1).T)
    body = lz4.frame.compress(planes) if frame is None else frame
    data = b"HUBN" + bytes([1, level]) + len(names).to_bytes(2, "little") + names + body + after
    root.store.put(f"{home}/manifest/{id}", data)
    return {"home": home, "id": id, "length": len(data), "xxh3": blob_hash(data).hex()}


def children(*nodes: dict[str, Any]) -> np.ndarray:
    """An inner node's entries: the first ones, given."""
    table = np.zeros(FANOUT, CHILD)
    for entry, node in zip(table, nodes, strict=False):
        entry["node"] = np.frombuffer(bytes.fromhex(node["id"]), "u1")
        entry["hash"] = np.frombuffer(bytes.fromhex(node["xxh3"]), "u1")
        entry["length"] = node["length"]
    return table


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _hash(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())
