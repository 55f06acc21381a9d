"""The manifest: chunk number -> ref, as a shallow tree of immutable nodes.

A leaf covers 1,024 numbers, an inner node 1,024 children. Absent children cost nothing, so a tree of 10^10 numbers with
one chunk in it is four small nodes. Changing a leaf rewrites the leaf and the path above it. Everything else is shared
with the older tree. Each parent knows its children's hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import lz4.frame
import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import ID_BYTES, REF, Refs, blob_hash, check_refs, homes, new_id
from hubarray.blobs.scheduling import run_all
from hubarray.errors import CorruptDataError
from hubarray.history.records.json_fields import parse_json
from hubarray.history.records.overlay import LEAF_NUMBERS, Numbers
from hubarray.names import parse_home
from hubarray.storage.base import Buffer, Store

FANOUT = LEAF_NUMBERS
NODE_MAGIC = b"HUBN"
NODE_FORMAT = 1
# So many levels number more than a uint64 does.
MAX_LEVELS = 7
_LEAVES_AHEAD = 64
_HEADER_BYTES = 8
_TABLE_BYTES = 65535
# A frame is at most its content, a header, a length and a checksum for each block, and the end mark.
_MAX_FRAME_BYTES = FANOUT * REF.itemsize + 1024
MAX_NODE_BYTES = _HEADER_BYTES + _TABLE_BYTES + _MAX_FRAME_BYTES

CHILD = np.dtype([("node", "u1", (ID_BYTES,)), ("hash", "u1", (16,)), ("length", "<u4"), ("home", "<u4")])


@dataclass(frozen=True)
class NodeRef:
    """Where a node is and what its bytes hash to."""

    home: str
    id: str
    length: int
    digest: bytes

    @property
    def key(self) -> str:
        """The node's key: ``owner/name/manifest/<id>``."""
        return f"{self.home}/manifest/{self.id}"


@dataclass(frozen=True)
class TreeRoot:
    """The root node of a tree and how many levels it has (1: the root is a leaf)."""

    node: NodeRef
    depth: int


def encode_node(table: np.ndarray, level: int, home: str) -> bytes:
    """Bytes of a node: header, table of homes, and the entries transposed and lz4-framed.

    Transposing puts the n-th bytes of all entries side by side, so the zeros
    of absent entries and of small offsets compress away.
    """
    stored = table.copy()
    names = homes.store(stored, home)
    names_json = json.dumps(names).encode("ascii")
    planes = np.ascontiguousarray(stored.view("u1").reshape(len(stored), -1).T)
    header = NODE_MAGIC + bytes([NODE_FORMAT, level]) + len(names_json).to_bytes(2, "little")
    return header + names_json + lz4.frame.compress(planes, content_checksum=False)


def decode_node(data: Buffer, level: int, node: NodeRef, where: str) -> np.ndarray:
    """Return the entries of a node whose hash is checked, but whose contents are untrusted.

    Raises
    ------
    CorruptDataError
        It is not a node of this level and home; its key is named.
    """
    try:
        return _decoded(memoryview(data), level, node)
    except (ValueError, RuntimeError, CorruptDataError) as error:
        raise CorruptDataError(
            f"{where}: not a level {level} manifest node of format {NODE_FORMAT}: {error}; restore it from a copy"
        ) from None


def _decoded(view: memoryview, level: int, node: NodeRef) -> np.ndarray:
    if len(view) > MAX_NODE_BYTES or bytes(view[:6]) != NODE_MAGIC + bytes([NODE_FORMAT, level]):
        raise ValueError("its header is another one's")
    end = _HEADER_BYTES + int.from_bytes(view[6:8], "little")
    table = parse_json(bytes(view[_HEADER_BYTES:end]), "its table of homes")
    if not isinstance(table, list) or [parse_home(home) for home in table][:1] != [node.home]:
        raise ValueError("its table of homes does not begin with its own")
    dtype = CHILD if level else REF
    planes = np.frombuffer(_decompressed(view[end:], dtype.itemsize * FANOUT), "u1")
    entries = np.ascontiguousarray(planes.reshape(dtype.itemsize, FANOUT).T).view(dtype).reshape(FANOUT)
    if level:
        _check_children(entries, len(table))
    else:
        check_refs(entries, len(table))
    homes.load(entries, table)
    entries.setflags(write=False)
    return entries


def _decompressed(frame: memoryview, size: int) -> bytes:
    """The content of one lz4 frame that has to be this long; never more of it is made."""
    decompressor = lz4.frame.LZ4FrameDecompressor()
    # One byte more than there may be, so that the end mark is read too.
    content: bytes = decompressor.decompress(frame, max_length=size + 1)
    if len(content) != size or not decompressor.eof or decompressor.unused_data:
        raise ValueError("its frame does not hold its entries and nothing else")
    return content


def _check_children(children: np.ndarray, homes_there: int) -> None:
    if children["length"].max() > MAX_NODE_BYTES or children["home"].max() >= homes_there:
        raise ValueError("it refers to a node that cannot be")
    packed = np.ascontiguousarray(children["node"][children["length"] > 0]).tobytes()
    ids = [packed[begin : begin + ID_BYTES] for begin in range(0, len(packed), ID_BYTES)]
    if len(set(ids)) != len(ids):
        # Ids are never used again, so this is no tree; walking it could take for ever.
        raise ValueError("it refers to one node twice")


class _Walk:
    """Refuses trees that are none: whose inner nodes are met again on the way through them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._met: set[str] = set()

    def enter(self, node: NodeRef, level: int) -> None:
        """Take note of a node. Leaves are not kept: those of one inner node are distinct, and there are many."""
        if level == 0:
            return
        if node.id in self._met:
            raise CorruptDataError(
                f"{self._store.where(node.key)}: one manifest refers to this node twice; restore an older commit"
            )
        self._met.add(node.id)


class Manifest:
    """One immutable tree, or the empty one.

    Parameters
    ----------
    fetcher : Fetcher
    root : TreeRoot or None
    """

    def __init__(self, fetcher: Fetcher, root: TreeRoot | None) -> None:
        self._fetcher = fetcher
        self.root = root

    def lookup(self, numbers: Numbers) -> Refs:
        """The refs of chunk numbers, null where absent.

        Costs one request a node on the paths, none for nodes in the caches;
        nodes of a level are fetched in parallel.
        """
        refs = np.zeros(len(numbers), REF)
        if self.root is None or len(numbers) == 0:
            return refs
        members = _by_leaf(numbers)
        for leaf, table in self._load_leaves(list(members)):
            inside = members[leaf]
            refs[inside] = table[(numbers[inside] % np.uint64(FANOUT)).astype(np.intp)]
        return refs

    def lookup_one(self, number: int) -> np.void | None:
        """The ref of one chunk number, or None; as :meth:`lookup`, and several times as fast."""
        if self.root is None or number >= FANOUT**self.root.depth:
            return None
        node, level = self.root.node, self.root.depth - 1
        while level:
            child = self._load(node, level)[(number // FANOUT**level) % FANOUT]
            if not child["length"]:
                return None
            node, level = _node_ref(child), level - 1
        ref = self._load(node, 0)[number % FANOUT]
        return ref if ref["length"] else None

    def leaves(self, first: int = 0, end: int = 1 << 64) -> Iterator[tuple[int, Refs]]:
        """Present leaves as (index, its 1,024 refs), in order: all, or those with a number of a stretch.

        Reads every node on the way, many leaves at a time.
        """
        if self.root is not None:
            stretch = range(first, end)
            yield from self._walk(self.root.node, self.root.depth - 1, 0, _Walk(self._fetcher.store), stretch)

    def entries(self) -> Iterator[tuple[Numbers, Refs]]:
        """Present chunks, leaf by leaf: numbers and refs."""
        for leaf, table in self.leaves():
            present = np.flatnonzero(table["length"])
            yield present.astype(np.uint64) + np.uint64(leaf * FANOUT), table[present]

    def folded(self, numbers: Numbers, refs: Refs, home: str) -> Manifest:
        """A new tree with these refs set (null ones removed); writes its new nodes under ``home``."""
        if len(numbers) == 0:
            return self
        depth = self.root.depth if self.root else 1
        while int(numbers.max()) >= FANOUT**depth:
            depth += 1
        members = _by_leaf(numbers)
        tables = {leaf: table.copy() for leaf, table in self._load_leaves(list(members))}
        for leaf, inside in members.items():
            table = tables.setdefault(leaf, np.zeros(FANOUT, REF))
            table[(numbers[inside] % np.uint64(FANOUT)).astype(np.intp)] = refs[inside]
        return self._rewritten(tables, depth, home)

    def without(self, first: int, end: int, home: str) -> Manifest:
        """A new tree without a stretch of numbers; rewrites the paths to its ends, drops what is between unread."""
        if self.root is None or first >= min(end, FANOUT**self.root.depth):
            return self
        node = self._without(self.root.node, self.root.depth - 1, first, end, home)
        return Manifest(self._fetcher, None if node is None else TreeRoot(node, self.root.depth))

    def _without(self, node: NodeRef, level: int, first: int, end: int, home: str) -> NodeRef | None:
        """A node without a stretch of the numbers it covers, which are counted from its first one."""
        span = FANOUT**level
        if first <= 0 and end >= span * FANOUT:
            return None
        before = self._load(node, level)
        table = before.copy()
        # The children that are dropped whole, and up to two at the ends of which some is kept.
        whole = range(max(0, -(-first // span)), min(FANOUT, end // span))
        table[whole.start : max(whole.start, whole.stop)] = np.zeros((), table.dtype)
        for i in {max(0, first) // span, min(end - 1, span * FANOUT - 1) // span} - set(whole):
            if table[i]["length"]:
                table[i] = _child(self._without(_node_ref(table[i]), level - 1, first - i * span, end - i * span, home))
        if table.tobytes() == before.tobytes():
            return node
        return self._write(table, level, home) if table["length"].any() else None

    def _rewritten(self, tables: dict[int, np.ndarray], depth: int, home: str) -> Manifest:
        """Write changed leaves and the paths above them; returns the new tree."""
        old = self._inner_tables(tables, depth)
        level_tables = tables
        for level in range(depth):
            written: dict[int, NodeRef | None] = {}

            def write(index: int, table: np.ndarray, level: int = level, into: dict[int, Any] = written) -> None:
                into[index] = self._write(table, level, home) if table["length"].any() else None

            run_all((table.nbytes, partial(write, index, table)) for index, table in level_tables.items())
            if level == depth - 1:
                node = written[0]
                return Manifest(self._fetcher, None if node is None else TreeRoot(node, depth))
            parents = old[level + 1]
            for index, node in written.items():
                parents[index // FANOUT][index % FANOUT] = _child(node)
            level_tables = parents
        raise AssertionError("unreachable")

    def _inner_tables(self, leaves: dict[int, np.ndarray], depth: int) -> dict[int, dict[int, np.ndarray]]:
        """Writable copies of the inner nodes above some leaves, by level and index."""
        tables: dict[int, dict[int, np.ndarray]] = {}
        old_depth = self.root.depth if self.root else 0
        nodes = {0: self.root.node} if self.root else {}
        for level in range(depth - 1, 0, -1):
            node_numbers = {leaf // FANOUT**level for leaf in leaves}
            if self.root is not None and level >= old_depth:
                # A level on top of the old tree: its leftmost path leads down to the old root.
                tables[level] = {index: np.zeros(FANOUT, CHILD) for index in node_numbers | {0}}
                if level == old_depth:
                    tables[level][0][0] = _child(self.root.node)
                continue
            tables[level] = {
                index: self._load(nodes[index], level).copy() if index in nodes else np.zeros(FANOUT, CHILD)
                for index in node_numbers
            }
            below = {leaf // FANOUT ** (level - 1) for leaf in leaves}
            children = {index: tables[level][index // FANOUT][index % FANOUT] for index in below}
            nodes = {index: _node_ref(child) for index, child in children.items() if child["length"]}
        return tables

    def _load_leaves(self, leaf_numbers: list[int]) -> Iterator[tuple[int, Refs]]:
        """The requested leaves that exist."""
        if self.root is None:
            return
        depth = self.root.depth
        leaf_numbers = [leaf for leaf in leaf_numbers if leaf < FANOUT ** (depth - 1)]
        nodes = {0: self.root.node} if leaf_numbers else {}
        for level in range(depth - 1, 0, -1):
            tables = self._load_all(nodes, level)
            nodes = {}
            for index in sorted({leaf // FANOUT ** (level - 1) for leaf in leaf_numbers}):
                table = tables.get(index // FANOUT)
                if table is not None and table[index % FANOUT]["length"]:
                    nodes[index] = _node_ref(table[index % FANOUT])
        yield from sorted(self._load_all(nodes, 0).items())

    def _load_all(self, nodes: dict[int, NodeRef], level: int) -> dict[int, np.ndarray]:
        if len(nodes) <= 1:
            return {index: self._load(node, level) for index, node in nodes.items()}
        tables: dict[int, np.ndarray] = {}

        def load(index: int, node: NodeRef) -> None:
            tables[index] = self._load(node, level)

        run_all((node.length, partial(load, index, node)) for index, node in nodes.items())
        return tables

    def _load(self, node: NodeRef, level: int) -> np.ndarray:
        cache_key = ("node", self._fetcher.identity, node.key)
        table = self._fetcher.memory.get(cache_key)
        if table is None:
            data = self._fetcher.object(node.key, node.length, node.digest)
            table = decode_node(data, level, node, self._fetcher.store.where(node.key))
            self._fetcher.memory.put(cache_key, table, table.nbytes)
        return table

    def _write(self, table: np.ndarray, level: int, home: str) -> NodeRef:
        data = encode_node(table, level, home)
        node = NodeRef(home, new_id(), len(data), blob_hash(data))
        self._fetcher.store.put(node.key, data)
        home_table = table.copy()
        home_table.setflags(write=False)
        self._fetcher.memory.put(("node", self._fetcher.identity, node.key), home_table, home_table.nbytes)
        return node

    def _walk(self, node: NodeRef, level: int, index: int, walk: _Walk, stretch: range) -> Iterator[tuple[int, Refs]]:
        walk.enter(node, level)
        table = self._load(node, level)
        if level == 0:
            yield index, table
            return
        span = FANOUT**level
        low, high = stretch.start // span - index * FANOUT, -(-stretch.stop // span) - index * FANOUT
        children = [i for i in np.flatnonzero(table["length"]).tolist() if low <= i < high]
        if level > 1:
            for i in children:
                yield from self._walk(_node_ref(table[i]), level - 1, index * FANOUT + i, walk, stretch)
            return
        for first in range(0, len(children), _LEAVES_AHEAD):
            leaves = {i: _node_ref(table[i]) for i in children[first : first + _LEAVES_AHEAD]}
            yield from ((index * FANOUT + i, refs) for i, refs in sorted(self._load_all(leaves, 0).items()))


def differing_leaves(first: Manifest, second: Manifest) -> Iterator[tuple[int, Refs | None, Refs | None]]:
    """Leaves that two trees do not share: (index, refs in one, refs in two), None where absent.

    Reads only the nodes that the trees do not share.
    """
    sides = [
        None if tree.root is None else (tree, tree.root.node, tree.root.depth - 1, _Walk(tree._fetcher.store))
        for tree in (first, second)
    ]
    depth = max((tree.root.depth for tree in (first, second) if tree.root is not None), default=0)
    if depth:
        yield from _differing(sides[0], sides[1], depth - 1, 0)


_Side = tuple[Manifest, NodeRef, int, _Walk] | None


def _differing(first: _Side, second: _Side, level: int, index: int) -> Iterator[tuple[int, Refs | None, Refs | None]]:
    if (first and first[1:3]) == (second and second[1:3]):
        return
    if level == 0:
        tables = [None if side is None else side[0]._load(side[1], 0) for side in (first, second)]
        yield index, tables[0], tables[1]
        return
    children = [_children(side, level) for side in (first, second)]
    for i in sorted(children[0].keys() | children[1].keys()):
        yield from _differing(children[0].get(i), children[1].get(i), level - 1, index * FANOUT + i)


def _children(side: _Side, level: int) -> dict[int, _Side]:
    if side is None:
        return {}
    tree, node, node_level, walk = side
    if node_level < level:
        return {0: side}
    walk.enter(node, level)
    table = tree._load(node, level)
    return {i: (tree, _node_ref(table[i]), level - 1, walk) for i in np.flatnonzero(table["length"]).tolist()}


def children_of(table: np.ndarray) -> list[NodeRef]:
    """The present children of an inner node."""
    return [_node_ref(table[i]) for i in np.flatnonzero(table["length"]).tolist()]


def _by_leaf(numbers: Numbers) -> dict[int, np.ndarray]:
    """Positions of numbers, grouped by the leaf that covers them."""
    leaves = numbers // np.uint64(FANOUT)
    if leaves.min() == leaves.max():
        # Small reads, which sorting would slow down, mostly are of this kind.
        return {int(leaves[0]): np.arange(len(numbers))}
    order = np.argsort(leaves, kind="stable")
    distinct, firsts = np.unique(leaves[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, firsts[1:]), strict=True))


def _node_ref(child: np.void) -> NodeRef:
    return NodeRef(
        homes.name(int(child["home"])),
        child["node"].tobytes().hex(),
        int(child["length"]),
        child["hash"].tobytes(),
    )


def _child(node: NodeRef | None) -> np.ndarray:
    child = np.zeros((), CHILD)
    if node is not None:
        child["node"] = np.frombuffer(bytes.fromhex(node.id), "u1")
        child["hash"] = np.frombuffer(node.digest, "u1")
        child["length"] = node.length
        child["home"] = homes.index(node.home)
    return child
