"""References to blobs, and the table of homes they point into.

A ref says where a blob is (home, pack, offset, length) and what its bytes
hash to. In memory ``home`` is an index into this process's table
(:data:`homes`); on disk it is an index into the table of the record or node
that holds the ref. See ``docs/FORMAT.md``.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from hubarray import process
from hubarray.storage.base import Buffer

ID_BYTES = 16
ID_TEXT = re.compile(r"[0-9a-f]{32}", re.ASCII)
# A chunk is below 2 GiB, and what a codec makes of one at most twice that and a little; packs are 16 MiB or one blob.
MAX_BLOB_BYTES = (4 << 30) + (1 << 20)
MAX_PACK_BYTES = 8 << 30

REF = np.dtype(
    [
        ("pack", "u1", (ID_BYTES,)),
        ("hash", "u1", (16,)),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("home", "<u4"),
    ]
)

Refs = npt.NDArray[np.void]


# The hash of a blob in one piece. This is no Python function, because small blocks are hashed by the thousand.
whole_blob_hash = xxhash.xxh3_128_digest


def blob_hash(*pieces: Buffer) -> bytes:
    """XXH3-128 of a blob, canonical (big-endian) form, 16 bytes."""
    if len(pieces) == 1:
        return whole_blob_hash(pieces[0])
    hasher = xxhash.xxh3_128()
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()


def new_id() -> str:
    """A fresh object id: 128 random bits in hex, drawn from the kernel, so safe after a fork."""
    return os.urandom(ID_BYTES).hex()


def make_ref(home: int, pack: str, offset: int, length: int, digest: bytes) -> Refs:
    """One ref, as a 0-d array of dtype :data:`REF`."""
    ref = np.zeros((), REF)
    ref["pack"] = np.frombuffer(bytes.fromhex(pack), "u1")
    ref["hash"] = np.frombuffer(digest, "u1")
    ref["offset"] = offset
    ref["length"] = length
    ref["home"] = home
    return ref


def null_ref() -> Refs:
    """The ref of a chunk that is absent: all zeros, so its length is 0 as no blob's is."""
    return np.zeros((), REF)


def check_refs(refs: Refs, homes_there: int) -> None:
    """Check refs of an untrusted record or node before anything is computed from them.

    Raises
    ------
    ValueError
        A length, a place or a home that no ref can have.
    """
    if not len(refs):
        return
    if refs["length"].max() > MAX_BLOB_BYTES or refs["offset"].max() > MAX_PACK_BYTES:
        raise ValueError("it refers to bytes that no pack can have")
    # Null refs are all zeros, home too.
    if refs["home"].max() >= max(1, homes_there):
        raise ValueError("it refers to a home that it does not list")


BlobName = tuple[str, bytes, int, int]
Check = Callable[[int, Sequence[Buffer]], bool]
"""Whether bytes, given in pieces, are what the ref at a position means."""


class BlobPlace(NamedTuple):
    """A ref in Python's terms, for reads of one blob.

    Attributes
    ----------
    key : str
        Of its pack.
    name : tuple
        Home, pack, offset and length: what names the bytes in the caches.
    offset, length : int
    digest : bytes
    """

    key: str
    name: BlobName
    offset: int
    length: int
    digest: bytes

    def is_intact(self, data: Buffer) -> bool:
        """Whether bytes are this blob: its length and its hash."""
        return len(data) == self.length and blob_hash(data) == self.digest


def pack_key(home: str, pack: str) -> str:
    """The key of a pack: ``owner/name/packs/<id>``."""
    return f"{home}/packs/{pack}"


def key_of(name: BlobName) -> str:
    """The key of the pack that a blob is in."""
    return pack_key(name[0], name[1].hex())


def blob_place(ref: np.void | Refs) -> BlobPlace:
    """A present ref in Python's terms."""
    fields: Any = ref.item()
    pack, digest, offset, length, home = fields
    owner, pack_bytes = homes.name(home), pack.tobytes()
    name = (owner, pack_bytes, offset, length)
    return BlobPlace(pack_key(owner, pack_bytes.hex()), name, offset, length, digest.tobytes())


def blob_names(refs: Refs) -> list[BlobName]:
    """The name of each blob in the caches: home, pack, offset and length."""
    packs = np.ascontiguousarray(refs["pack"]).tobytes()
    ids = (packs[begin : begin + ID_BYTES] for begin in range(0, len(packs), ID_BYTES))
    named = (homes.name(index) for index in refs["home"].tolist())
    return list(zip(named, ids, refs["offset"].tolist(), refs["length"].tolist(), strict=True))


def same_refs(first: Refs, second: Refs) -> npt.NDArray[np.bool_]:
    """Which refs of two arrays of equal length are the same, byte for byte."""
    sides = (np.ascontiguousarray(refs).view("u1").reshape(len(refs), REF.itemsize) for refs in (first, second))
    return np.asarray(np.equal(*sides).all(axis=1))


def pack_id(ref: np.void | Refs) -> str:
    """The id of the pack a ref points into."""
    return ref["pack"].tobytes().hex()


def blob_key(ref: np.void) -> str:
    """The key of the pack a ref points into."""
    return pack_key(homes.name(int(ref["home"])), pack_id(ref))


def matches(ref: np.void, data: Buffer) -> bool:
    """Whether bytes are the blob that a ref means."""
    return blob_place(ref).is_intact(data)


class Blobs:
    """The blobs of one read, and what proves their bytes.

    Parameters
    ----------
    names : sequence of BlobName
        In plain Python, because the work for each blob has to be little.
    check : callable
    """

    __slots__ = ("_check", "names")

    def __init__(self, names: Sequence[BlobName], check: Check) -> None:
        self.names = names
        self._check = check

    @staticmethod
    def of_refs(refs: Refs) -> Blobs:
        """Those of present refs, which their hashes prove."""
        digests = np.ascontiguousarray(refs["hash"]).tobytes()
        return Blobs(blob_names(refs), lambda i, pieces: blob_hash(*pieces) == digests[16 * i : 16 * i + 16])

    @staticmethod
    def at(place: BlobPlace) -> Blobs:
        """The one at a place."""
        return Blobs([place.name], lambda i, pieces: blob_hash(*pieces) == place.digest)

    def is_intact(self, i: int, *pieces: Buffer) -> bool:
        """Whether bytes are blob ``i``: its length, and its hash or what else proves them."""
        return sum(map(len, pieces)) == self.names[i][3] and self._check(i, pieces)


class PrefixTable:
    """The process's table of homes (``owner/name``); an index, once given, never changes.

    Index 0 is nobody's: it is the home of null refs, whose bytes are all zero.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: list[str] = [""]
        self._indices: dict[str, int] = {}
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def index(self, name: str) -> int:
        """The index of a home, giving it one if it has none."""
        with self._lock:
            index = self._indices.get(name)
            if index is None:
                index = self._indices[name] = len(self._names)
                self._names.append(name)
            return index

    def name(self, index: int) -> str:
        """The home at an index."""
        return self._names[index]

    def names(self, entries: np.ndarray) -> set[str]:
        """The homes that entries with a ``home`` field point into."""
        return {self._names[index] for index in _distinct(entries["home"]) if index}

    def load(self, entries: np.ndarray, table: Sequence[str]) -> None:
        """Turn the homes of entries from indices into a holder's table into indices into this one, in place.

        The indices are within the table: see :func:`check_refs`.
        """
        if not len(entries):
            return
        lookup = np.array([self.index(name) for name in table] or [0], np.uint32)
        entries["home"] = np.where(entries["length"] > 0, lookup[entries["home"]], 0)

    def store(self, entries: np.ndarray, first: str) -> list[str]:
        """Turn the homes of entries into indices into a table of their own, in place.

        Returns
        -------
        list of str
            That table; its entry 0 is ``first``.
        """
        used = _distinct(entries["home"])
        table = [first]
        lookup = np.zeros(used[-1] + 1 if used else 1, np.uint32)
        for index in filter(None, used):
            name = self._names[index]
            if name not in table:
                table.append(name)
            lookup[index] = table.index(name)
        entries["home"] = lookup[entries["home"]]
        return table


def _distinct(indices: np.ndarray) -> list[int]:
    """The distinct ones, sorted; nearly always there is one."""
    if (indices == indices[:1]).all():
        return [int(index) for index in indices[:1]]
    # Nearly never: it imports masked arrays, which would take a third of a process's first commit.
    blob_indices: list[int] = np.unique(indices).tolist()
    return blob_indices


homes = PrefixTable()
