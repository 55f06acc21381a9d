"""The schema of a table: fields, their types and their column groups. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hubarray.arrays.codecs.dtypes import UnknownTypeError, checked_dtype, dtype_from_json, dtype_to_json
from hubarray.arrays.codecs.text_codec import has_text
from hubarray.errors import ConfigError, FormatVersionError
from hubarray.history.records.json_fields import Fields
from hubarray.redaction import named_type
from hubarray.tables.format.field_codecs import IMAGE_CODECS, checked_codec

MAX_FIELDS = 4096
MAX_NAME_LETTERS = 256
MAX_DIMS = 32
MAX_ROWS_PER_BLOCK = 1 << 15
REST = "rest"
# The column of the index that has the partition's key.
PARTITION = "partition"
# Parquet has no seconds.
INDEX_TIME_UNITS = ("ms", "us", "ns")
# What the names of the index's columns of row numbers begin with.
SERVICE_PREFIX = "hubarray:"
MAX_VALUE_BYTES = 1 << 30
# Smaller fields of fixed size share the group of those that have no other.
_REST_FIELD_BYTES = 4 << 10
# A group whose rows are larger has a block for each of them.
_ROW_BLOCK_BYTES = 16 << 10
_BLOCK_BYTES = 32 << 10

Shape = tuple[int | None, ...]


class Field:
    """The type of one value of a row.

    Parameters
    ----------
    dtype : dtype-like, ``str`` or ``bytes``
        The dtype of the elements. Text and byte strings can have any length.
    shape : tuple of (int or None)
        Length of each dimension, or None if it differs between rows. Such a field is *ragged*.
    codec : str or mapping, optional
        ``"blosc"``, ``"lz4"``, ``"zstd"``, ``"jpeg"`` or ``"png"``, or ``{"name": "jpeg", "quality": 90}``. JPEG
        changes values a little. By default, values are not compressed.
    group : str or sequence of str, optional
        The column groups of the field, which are fetched as a whole. The default is the part of the name before the
        first dot. Without a dot, small fields of fixed size share the group ``"rest"``, and others have their own.
    index : bool
        Whether the field, a scalar, is a column of the index, so that you can query it. Without ``group``, it is stored
        only there.
    nullable : bool
        Whether the value can be None.

    Attributes
    ----------
    row_bytes : int or None
        Bytes of a value, or None if they differ.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> Field("uint8", (None, None, 3), codec="jpeg", group="camera")
    Field('uint8', (None, None, 3), codec={'name': 'jpeg', 'quality': 95}, group=('camera',))
    >>> Field(str, index=True)
    Field('string', index=True)
    """

    __slots__ = ("_hash", "_key", "codec", "dtype", "groups", "index", "kind", "nullable", "row_bytes", "shape")

    def __init__(
        self,
        dtype: Any,
        shape: Sequence[int | None] = (),
        *,
        codec: str | Mapping[str, Any] | None = None,
        group: str | Sequence[str] | None = None,
        index: bool = False,
        nullable: bool = False,
    ) -> None:
        self.kind, self.dtype = _checked_type(dtype)
        self.shape = _checked_shape(shape)
        if not (group is None or isinstance(group, (str, list, tuple))):
            raise ConfigError(f"group={group!r}: give the name of a group, or a list of several")
        self.groups = () if group is None else (group,) if isinstance(group, str) else tuple(group)
        self.index, self.nullable = _flag(index, "index"), _flag(nullable, "nullable")
        if len(set(self.groups)) != len(self.groups):
            raise ConfigError(f"group={list(self.groups)}: names one twice")
        for group_name in self.groups:
            check_name(group_name, "group")
        if self.kind != "fixed" and self.shape:
            raise ConfigError(f"a field of {self.kind} is one value, so it has no shape {self.shape}")
        known = math.prod(n for n in self.shape if n is not None) * (self.dtype.itemsize if self.dtype else 1)
        if known > MAX_VALUE_BYTES:
            raise ConfigError(
                f"shape={self.shape}: a value has {known:,} bytes or more, and at most {MAX_VALUE_BYTES:,}"
            )
        is_alike = self.dtype is not None and None not in self.shape
        self.row_bytes: int | None = known if is_alike else None
        if self.index and (self.shape or (self.dtype is not None and self.dtype.kind not in "biufmM")):
            raise ConfigError(
                f"index=True: the index has one number, time, text or bytes value per row, not {self.dtype} of shape "
                f"{self.shape}"
            )
        if self.index and self.dtype is not None and self.dtype.kind in "mM":
            unit, count = np.datetime_data(self.dtype)
            if count != 1 or unit not in INDEX_TIME_UNITS:
                raise ConfigError(
                    f"index=True: times of the index are in {', '.join(INDEX_TIME_UNITS)}, not {self.dtype}"
                )
        self.codec = None if codec is None or codec == "none" else checked_codec(codec, self.dtype, self.shape)
        codec_text = None if self.codec is None else json.dumps(self.codec, sort_keys=True, default=dict)
        # What it is, for comparisons: blocks are looked up by their fields many times a millisecond.
        self._key = (self.kind, self.dtype, self.shape, self.groups, codec_text, self.index, self.nullable)
        self._hash = hash(self._key)

    @property
    def ragged(self) -> bool:
        """Whether its size differs between rows."""
        return self.kind != "fixed" or None in self.shape

    @property
    def is_image(self) -> bool:
        """Whether it is stored as JPEG or PNG."""
        return self.codec is not None and self.codec["name"] in IMAGE_CODECS

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of a record; :meth:`from_json` reads it."""
        described: dict[str, Any] = {"dtype": self.kind if self.dtype is None else dtype_to_json(self.dtype)}
        described |= {"shape": list(self.shape)} if self.shape else {}
        described |= {"codec": dict(self.codec)} if self.codec else {}
        described |= {"groups": list(self.groups)} if self.groups else {}
        return described | {name: True for name in ("index", "nullable") if getattr(self, name)}

    @staticmethod
    def from_json(field_json: Fields) -> Field:
        """Read a field from a bucket.

        Raises
        ------
        CorruptDataError, FormatVersionError
        """
        field_json.only(frozenset({"name", "dtype", "shape", "codec", "groups", "index", "nullable"}))
        dtype = field_json.take("dtype", (str, dict))
        shape = field_json.items("shape", MAX_DIMS, [])
        groups = field_json.items("groups", MAX_FIELDS, [])
        codec = field_json.take("codec", dict, None)
        if not all(isinstance(group, str) for group in groups):
            field_json.refuse("groups", "holds values that are not text")
        try:
            known = dtype if dtype in ("string", "bytes") else dtype_from_json(dtype)
            return Field(
                known, shape, codec=codec, group=groups or None, index=field_json.flag("index", False),
                nullable=field_json.flag("nullable", False),
            )  # fmt: skip
        except UnknownTypeError as error:
            raise FormatVersionError(f"{field_json.where}: {error}; upgrade hubarray") from None
        except (ValueError, TypeError, KeyError) as error:
            field_json.refuse("", f"describes no field: {error}")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Field) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew, as hashes of text differ from process to process.
        kind = self.kind if self.dtype is None else self.dtype
        return _field, (kind, self.shape, self.codec, self.groups, self.index, self.nullable)

    def __repr__(self) -> str:
        shape = f", {self.shape}" if self.shape else ""
        codec = f", codec={dict(self.codec)}" if self.codec else ""
        group = f", group={self.groups}" if self.groups else ""
        flags = "".join(f", {name}=True" for name in ("index", "nullable") if getattr(self, name))
        return f"Field({self.kind if self.dtype is None else str(self.dtype)!r}{shape}{codec}{group}{flags})"


def _field(dtype: Any, shape: Shape, codec: Any, groups: tuple[str, ...], index: bool, nullable: bool) -> Field:
    return Field(dtype, shape, codec=codec, group=groups or None, index=index, nullable=nullable)


@dataclass(frozen=True)
class Group:
    """Fields that are stored and fetched together.

    Attributes
    ----------
    name : str
    fields : tuple of (str, Field)
        The fields, in the order of the schema.
    rows_per_block : int
        1, or a power of two.
    """

    name: str
    fields: tuple[tuple[str, Field], ...]
    rows_per_block: int

    @cached_property
    def is_plain(self) -> bool:
        """Whether all values have the same size, without compression. A block is then a count and its values."""
        return all(
            field.kind == "fixed" and field.codec is None and not field.nullable and not field.ragged
            for _, field in self.fields
        )

    @cached_property
    def layout(self) -> tuple[tuple[str, Field, int], ...] | None:
        """Fields with their bytes per row, 0 for text. None if the header of a block has more than lengths of text."""
        groups = []
        for name, field in self.fields:
            is_fixed = field.kind == "fixed"
            if field.codec is not None or field.nullable or None in field.shape or (is_fixed and not field.row_bytes):
                return None
            groups.append((name, field, (field.row_bytes or 0) if is_fixed else 0))
        return tuple(groups)

    @cached_property
    def has_codec(self) -> bool:
        """Whether a field has a codec."""
        return any(field.codec is not None for _, field in self.fields)

    @cached_property
    def has_text(self) -> bool:
        """Whether a field contains arrays of text, whose characters are checked before use."""
        return any(field.dtype is not None and has_text(field.dtype) for _, field in self.fields)


class Schema:
    """The fields of a table, in order, and its column groups.

    Parameters
    ----------
    fields : mapping of str to Field
    rows_per_block : mapping of str to int, or int, optional
        Rows per block of a group, or of each group, as a power of two. The default is 1 for ragged or encoded groups
        and for rows of 16 KiB and more, and otherwise a number that makes blocks of about 32 KiB.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> camera = Field("u1", (None, None, 3))
    >>> schema = Schema({"log": Field(str, index=True), "speed": Field("f4"), "camera.image": camera})
    >>> [(group.name, group.rows_per_block) for group in schema.groups.values()]
    [('rest', 8192), ('camera', 1)]
    """

    __slots__ = ("_fields", "_rows_per_block", "groups")

    def __init__(self, fields: Mapping[str, Field], *, rows_per_block: Mapping[str, int] | int | None = None) -> None:
        if not isinstance(fields, Mapping):
            raise ConfigError(f"a schema is a mapping of names to fields, not {named_type(fields)}")
        if not 0 < len(fields) <= MAX_FIELDS:
            raise ConfigError(f"a schema has 1 to {MAX_FIELDS} fields, not {len(fields)}")
        for name, field in fields.items():
            check_name(name, "field")
            if not isinstance(field, Field):
                raise ConfigError(f"field {name!r}: give a hub.Field, not {named_type(field)}")
            if field.index and name == PARTITION:
                raise ConfigError(f"field {name!r}: the index has a column of that name, for the partition's key")
        self._fields = dict(fields)
        members: dict[str, list[str]] = {}
        for name, field in self._fields.items():
            for group in _groups_of(name, field):
                members.setdefault(group, []).append(name)
        row_counts = rows_per_block or {}
        self._rows_per_block = (
            dict(row_counts) if isinstance(row_counts, Mapping) else dict.fromkeys(members, row_counts)
        )
        for group in self._rows_per_block:
            if group not in members:
                raise ConfigError(f"rows_per_block: there is no group {group!r}; there are {', '.join(members)}")
        self.groups = {
            group: Group(group, tuple((name, self._fields[name]) for name in names), self._block_rows(group, names))
            for group, names in members.items()
        }

    @property
    def index(self) -> tuple[str, ...]:
        """The fields that are columns of the index."""
        return tuple(name for name, field in self._fields.items() if field.index)

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups of a field. A field that is only in the index has none."""
        return _groups_of(name, self._fields[name])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of a record; :meth:`from_json` reads it."""
        fields = [{"name": name, **field.to_json()} for name, field in self._fields.items()]
        rows = {name: group.rows_per_block for name, group in self.groups.items()}
        return {"fields": fields, "rows_per_block": rows}

    @staticmethod
    def from_json(schema_json: Fields) -> Schema:
        """Read a schema from a bucket.

        Raises
        ------
        CorruptDataError, FormatVersionError
        """
        schema_json.only(frozenset({"fields", "rows_per_block"}))
        fields: dict[str, Field] = {}
        for i, field_json in enumerate(schema_json.items("fields", MAX_FIELDS)):
            inner = Fields(field_json, schema_json.where, f"schema.fields.{i}")
            name = inner.text("name")
            if name in fields:
                inner.refuse("name", "comes twice")
            fields[name] = Field.from_json(inner)
        rows = Fields(schema_json.take("rows_per_block", dict), schema_json.where, "schema.rows_per_block")
        rows_by_group = {group: rows.integer(group, 1, MAX_ROWS_PER_BLOCK) for group in rows.raw}
        try:
            schema = Schema(fields, rows_per_block=rows_by_group)
        except ConfigError as error:
            schema_json.refuse("", f"describes no schema: {error}")
        if rows_by_group.keys() != schema.groups.keys():
            schema_json.refuse("rows_per_block", "does not name the groups that the fields are in")
        return schema

    def _block_rows(self, group: str, names: Sequence[str]) -> int:
        row_count = self._rows_per_block.get(group)
        if row_count is not None:
            if type(row_count) is not int or not 1 <= row_count <= MAX_ROWS_PER_BLOCK or row_count & (row_count - 1):
                raise ConfigError(
                    f"rows_per_block of {group!r}: {row_count!r} is not a power of two up to {MAX_ROWS_PER_BLOCK}"
                )
            return row_count
        fields = [self._fields[name] for name in names]
        sizes = [field.row_bytes for field in fields]
        row_bytes = sum(size or 0 for size in sizes)
        if None in sizes or any(field.codec for field in fields) or row_bytes >= _ROW_BLOCK_BYTES:
            return 1
        return min(1 << (_BLOCK_BYTES // max(1, row_bytes)).bit_length() - 1, MAX_ROWS_PER_BLOCK)

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self._fields))

    def __repr__(self) -> str:
        lines = "".join(f"\n  {name!r}: {field}," for name, field in self._fields.items())
        return f"Schema({{{lines}\n}})"


def check_name(name: Any, what: str) -> None:
    """Refuse an invalid name of a field or group.

    Raises
    ------
    ConfigError
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LETTERS or not name.isprintable():
        raise ConfigError(f"{what} {str(name)[:80]!r}: a name is 1 to {MAX_NAME_LETTERS} printable letters")
    if name.startswith(SERVICE_PREFIX):
        raise ConfigError(f"{what} {name!r}: names of the index's own columns begin with {SERVICE_PREFIX!r}")
    if name != name.strip() or any(letter in name for letter in "*?["):
        raise ConfigError(f"{what} {name!r}: a name has no spaces around it, and no *, ? or [, which choose columns")


def _groups_of(name: str, field: Field) -> tuple[str, ...]:
    if field.groups:
        return field.groups
    if field.index:
        return ()
    prefix, dot, _ = name.partition(".")
    if dot and prefix:
        return (prefix,)
    small = field.row_bytes is not None and field.codec is None and field.row_bytes <= _REST_FIELD_BYTES
    return (REST,) if small else (name,)


def _checked_type(dtype: Any) -> tuple[str, np.dtype[Any] | None]:
    if dtype is str or (isinstance(dtype, str) and dtype in ("str", "string")):
        return "string", None
    if dtype is bytes or (isinstance(dtype, str) and dtype == "bytes"):
        return "bytes", None
    return "fixed", checked_dtype(dtype)


def _checked_shape(shape: Any) -> Shape:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or len(shape) > MAX_DIMS:
        raise ConfigError(f"shape={shape!r}: give a length for each dimension, None where it differs, up to {MAX_DIMS}")
    for n in shape:
        if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 < n < 1 << 31):
            raise ConfigError(f"shape={tuple(shape)}: {n!r} is not a length; give a number above 0, or None")
    return tuple(None if n is None else int(n) for n in shape)


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{what}={value!r}: give True or False")
    return bool(value)
