"""Parts: one partition each, written and not yet visible, as its writer hands it over. Pure.

A part is a few hundred bytes that name one blob, its *part file*: where the
chunk files are, the index fields of every row, locations and digests. Both
have bytes of their own (``docs/FORMAT.md``, "Parts"), so that whatever brings
them from machine to machine need not be trusted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import blake3
import numpy as np
import pyarrow as pa

from hubarray.blobs.ref import REF, Refs, check_refs, homes, make_ref
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.history.records.json_fields import Fields, parse_json
from hubarray.redaction import named_type
from hubarray.storage.base import Buffer
from hubarray.tables.format import index_piece, locations
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.locations import Locations
from hubarray.tables.format.schema import Schema

FORMAT = 2
MAX_PART_BYTES = 16 << 10
MAX_PART_FILE_BYTES = 1 << 30
MAX_PART_ROWS = 1 << 32
_MAX_HOMES = 1 << 10
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class PartFile:
    """Everything that became of one partition.

    Attributes
    ----------
    key : str or int
    rows : int
    chunk_files : array of REF
        In the order in which groups and rows first use them.
    index : pyarrow.Table
        The index fields of every row.
    locations, digests : mapping of str to array
        Of each group: where each row's block is, ``chunk`` counting from the first of ``chunk_files``; and the digest
        of each block, in order.
    """

    key: Key
    rows: int
    chunk_files: Refs
    index: pa.Table
    locations: Mapping[str, Locations]
    digests: Mapping[str, np.ndarray]

    def digest(self, schema: Schema) -> bytes:
        """BLAKE3 of what the rows are, wherever their blocks lie: two parts of one key and one digest are one."""
        about = json.dumps({"schema": schema.to_json(), "key": self.key, "rows": self.rows}, sort_keys=True)
        hasher = blake3.blake3(about.encode())
        for name in schema.groups:
            hasher.update(self.digests[name].tobytes())
        out = io.BytesIO()
        index = _canonical(self.index)
        with pa.ipc.new_stream(out, index.schema) as stream:
            stream.write_table(index)
        return hasher.update(out.getvalue()).digest(length=_DIGEST_BYTES)

    def encode(self, schema: Schema, home: str) -> bytes:
        """The part file; :meth:`decode` reads it."""
        refs = self.chunk_files.copy()
        table = homes.store(refs, home)
        sections = [refs.tobytes(), index_piece.encode(self.index) if self.rows and schema.index else b""]
        for name in schema.groups:
            sections += [locations.encode(self.locations[name]), self.digests[name].tobytes()]
        head = json.dumps({"rows": self.rows, "homes": table, "sections": [len(section) for section in sections]})
        return b"".join([head.encode() + b"\n", *sections])

    @staticmethod
    def decode(data: Buffer, key: Key, schema: Schema, where: str) -> PartFile:
        """Read an untrusted part file.

        Raises
        ------
        CorruptDataError
        """
        line, newline, rest = bytes(data).partition(b"\n")
        part_fields = Fields(parse_json(line, where), where)
        part_fields.only(frozenset({"rows", "homes", "sections"}))
        rows = part_fields.integer("rows", 0, MAX_PART_ROWS)
        table = [part_fields.checked_home("homes", home) for home in part_fields.items("homes", _MAX_HOMES)]
        lengths = part_fields.integers("sections", 2 + 2 * len(schema.groups), 0, MAX_PART_FILE_BYTES)
        if not newline or len(lengths) != 2 + 2 * len(schema.groups) or sum(lengths) != len(rest):
            part_fields.refuse("sections", "are not those of its schema, or not all there")
        ends = np.cumsum(lengths).tolist()
        sections = [rest[end - length : end] for end, length in zip(ends, lengths, strict=True)]
        try:
            refs = np.frombuffer(sections[0], REF).copy()
            check_refs(refs, len(table))
            homes.load(refs, table)
            index = _index(sections[1], schema, rows)
            places, digests = {}, {}
            for i, (name, group) in enumerate(schema.groups.items()):
                places[name] = locations.decode(
                    sections[2 + 2 * i], rows=rows, chunk_files=len(refs), rows_per_block=group.rows_per_block
                )
                digests[name] = np.frombuffer(sections[3 + 2 * i], f"V{_DIGEST_BYTES}")
                if len(digests[name]) != int(locations.begin_blocks(places[name]).sum()):
                    raise ValueError(f"has another number of digests of {name!r} than of blocks")
        except ValueError as error:
            raise CorruptDataError(f"{where}: the part file {error}; write the partition again") from None
        return PartFile(key, rows, refs, index, places, digests)


def _canonical(index: pa.Table) -> pa.Table:
    """Columns in one piece, and zeros below their nulls."""
    columns = []
    for column in index.combine_chunks().columns:
        if column.null_count and pa.types.is_primitive(column.type):
            zero = pa.scalar(False if pa.types.is_boolean(column.type) else 0).cast(column.type)
            plain = column.fill_null(zero).to_numpy()
            column = pa.array(plain, column.type, mask=np.asarray(column.is_null()))
        columns.append(column)
    return pa.table(columns, schema=index.schema).combine_chunks()


def _index(data: bytes, schema: Schema, rows: int) -> pa.Table:
    expected = index_piece.index_schema(schema)
    if not rows or not schema.index:
        return expected.empty_table()
    return index_piece.decode(data, expected, rows=rows)


@dataclass(frozen=True)
class TablePart:
    """One partition, written and not yet visible; ``TableWriter.add`` takes it. Pickles as its own few hundred bytes.

    Attributes
    ----------
    key : str or int
    rows : int
    digest : bytes
        Of its rows: equal ones are the same partition, written twice.
    began : datetime
        Before its first upload and before its references were read, by the store's clock.
    file : array of REF
        Where its part file is.
    schema : bytes or None
        A digest of the schema that it was written with; None of a part of an older version, which does not say it.
    """

    key: Key
    rows: int
    digest: bytes
    began: datetime
    file: Refs
    schema: bytes | None = None

    def __bytes__(self) -> bytes:
        file = self.file.copy().reshape(1)
        table = homes.store(file, "")
        pack, digest, offset, length, _ = file[0].item()
        where = {"home": table[-1], "pack": pack.tobytes().hex(), "offset": offset, "length": length}
        body = {
            "hubarray_part": FORMAT, "key": self.key, "rows": self.rows, "digest": self.digest.hex(),
            "began": self.began.isoformat(), "file": where | {"xxh3": digest.tobytes().hex()},
        }  # fmt: skip
        return json.dumps(body | ({} if self.schema is None else {"schema": self.schema.hex()})).encode()

    @staticmethod
    def from_bytes(data: Buffer) -> TablePart:
        """A part of its bytes, from wherever they come.

        Raises
        ------
        CorruptDataError
            The bytes are not a part.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ConfigError(f"a part is a TablePart or its bytes, not {named_type(data)}")
        if len(data) > MAX_PART_BYTES:
            raise CorruptDataError(f"a part has at most {MAX_PART_BYTES} bytes, not {len(data)}; write it again")
        part_fields = Fields(parse_json(bytes(data), "a part"), "a part")
        part_fields.only(frozenset({"hubarray_part", "key", "rows", "digest", "began", "file", "schema"}))
        part_fields.integer("hubarray_part", 1, FORMAT)
        place = part_fields.inner("file")
        key: Any = part_fields.take("key", (str, int))
        if not is_key(key):
            part_fields.refuse("key", "is not a key of a partition")
        ref = make_ref(
            homes.index(place.home("home")), place.id("pack"), place.integer("offset", 0, 1 << 33),
            place.integer("length", 1, MAX_PART_FILE_BYTES), bytes.fromhex(place.id("xxh3")),
        )  # fmt: skip
        try:
            began = datetime.fromisoformat(part_fields.text("began"))
        except ValueError:
            part_fields.refuse("began", "is not a moment")
        if began.tzinfo is None:
            part_fields.refuse("began", "has no time zone")
        schema = bytes.fromhex(part_fields.id("schema")) if "schema" in part_fields.raw else None
        digest = bytes.fromhex(part_fields.id("digest"))
        return TablePart(key, part_fields.integer("rows", 0, 1 << 40), digest, began, ref, schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return TablePart.from_bytes, (bytes(self),)

    def __repr__(self) -> str:
        return f"TablePart({self.key!r}, rows={self.rows})"


def schema_digest(schema: Schema) -> bytes:
    """A digest that tells schemas apart."""
    return blake3.blake3(json.dumps(schema.to_json(), sort_keys=True).encode()).digest(16)


def is_key(key: Any) -> bool:
    """Whether it can be a partition's key: text of 1 to 1,024 letters, or an int64."""
    if type(key) is int:
        return -(1 << 63) <= key < 1 << 63
    return type(key) is str and 0 < len(key) <= 1024 and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
