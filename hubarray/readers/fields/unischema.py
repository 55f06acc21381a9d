"""The schema of a source of readers: Petastorm's Unischema, for every source."""

from __future__ import annotations

import keyword
import math
import re
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from hubarray.arrays.codecs.foreign_dtypes import dtype_of
from hubarray.errors import ConfigError
from hubarray.readers.fields.cell_codecs import FieldCodec, codec_from_json
from hubarray.redaction import shown_text

MAX_FIELDS = 1 << 16
_MAX_AXES = 64


class UnischemaField(NamedTuple):
    """The type of one named value of a row.

    Attributes
    ----------
    name : str
    numpy_dtype : type
        A NumPy type, or :class:`decimal.Decimal`; ``object`` for nested lists.
    shape : tuple of (int or None)
        ``()`` for a single value. None is a dimension that differs between rows.
    codec : FieldCodec, optional
        The encoding in a cell of a Petastorm dataset.
    nullable : bool

    Examples
    --------
    >>> import numpy as np
    >>> import hubarray as hub
    >>> png = hub.petastorm.CompressedImageCodec("png")
    >>> hub.petastorm.UnischemaField("image", np.uint8, (None, None, 3), png).nullable
    False
    """

    name: str
    numpy_dtype: Any
    shape: tuple[int | None, ...] = ()
    codec: FieldCodec | None = None
    nullable: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnischemaField) and self._compared() == other._compared()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._compared()[:3])

    def _compared(self) -> tuple[Any, ...]:
        kind = self.numpy_dtype if self.numpy_dtype is Decimal else np.dtype(self.numpy_dtype)
        return self.name, kind, self.shape, self.codec, self.nullable

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of new datasets."""
        return {
            "name": self.name,
            "dtype": "decimal" if self.numpy_dtype is Decimal else np.dtype(self.numpy_dtype).str,
            "shape": list(self.shape),
            "codec": None if self.codec is None else self.codec.to_json(),
            "nullable": self.nullable,
        }


class Unischema:
    """The fields of a row, in order, and as attributes: ``schema.image``.

    Parameters
    ----------
    name : str
    fields : sequence of UnischemaField
    left_out : mapping of str to str, optional
        Reasons why columns of the source are not fields, for error messages.

    Examples
    --------
    >>> import numpy as np
    >>> import hubarray as hub
    >>> fields = [hub.petastorm.UnischemaField("id", np.int64), hub.petastorm.UnischemaField("x", np.float32, (3,))]
    >>> schema = hub.petastorm.Unischema("Frames", fields)
    >>> schema.x.shape
    (3,)
    """

    def __init__(
        self, name: str, fields: Iterable[UnischemaField], *, left_out: Mapping[str, str] | None = None
    ) -> None:
        if not is_text(name):
            raise ConfigError(f"a schema's name is text, and not {name!r}"[:300])
        self._name, self._left_out = name, dict(left_out or {})
        self._fields: OrderedDict[str, UnischemaField] = OrderedDict()
        for field in fields:
            if not is_text(getattr(field, "name", None)):
                raise ConfigError(f"schema {shown_text(name)[:80]}: {field!r} is not a field with a name"[:300])
            if field.name in self._fields:
                raise ConfigError(f"schema {name}: there are two fields {field.name!r}")
            self._fields[field.name] = field
            if field.name.isidentifier() and not hasattr(type(self), field.name) and field.name not in vars(self):
                setattr(self, field.name, field)

    @property
    def fields(self) -> Mapping[str, UnischemaField]:
        """The fields by their names."""
        return self._fields

    def create_schema_view(self, fields: Sequence[UnischemaField | str]) -> Unischema:
        """Return the schema of some fields, given as fields, or as patterns that match a whole name (:mod:`re`).

        Raises
        ------
        ConfigError
            A field is not in the schema, or a pattern matches no name.
        """
        return Unischema(f"{self._name}_view", match_unischema_fields(self, fields))

    @cached_property
    def row_type(self) -> Any:
        """The named tuple of a row. Characters that Python does not allow in names become ``_``."""
        return row_type(re.sub(r"\W", "_", self._name) or "Row", tuple(attribute_names(list(self._fields))))

    def make_namedtuple(self, **values: Any) -> Any:
        """Return a row with these values. Missing fields are None."""
        return self.row_type(*(values.get(name) for name in self._fields))

    @classmethod
    def from_arrow_schema(cls, source: Any, omit_unsupported_fields: bool = True) -> Unischema:
        """Convert an Arrow schema, or the schema of a dataset.

        Parameters
        ----------
        source : pyarrow.Schema, or what has one as ``schema``
        omit_unsupported_fields : bool
            Leave out columns without a NumPy type, such as structs. Otherwise they raise an error.
        """
        schema = source if hasattr(source, "pandas_metadata") else source.schema
        return schema_of("inferred_schema", schema, omit_unsupported=omit_unsupported_fields)

    def as_spark_schema(self) -> Any:
        """Return the Spark schema of rows from :func:`hubarray.petastorm.dict_to_spark_row`."""
        from hubarray.readers.fields.spark_types import spark_schema

        return spark_schema(self)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of new datasets."""
        return {"name": self._name, "fields": [field.to_json() for field in self._fields.values()]}

    @classmethod
    def from_json(cls, state: Any) -> Unischema:
        """Read a schema from JSON.

        Raises
        ------
        ValueError
        """
        if not isinstance(state, Mapping) or not isinstance(state.get("fields"), list):
            raise ValueError("a schema is an object with a list of fields")
        if len(state["fields"]) > MAX_FIELDS:
            raise ValueError(f"a schema has at most {MAX_FIELDS:,} fields")
        name = state.get("name", "schema")
        if not isinstance(name, str):
            raise ValueError(f"a schema's name is not text: {str(name)[:80]!r}")
        return cls(name_of(name), [_field_from_json(field) for field in state["fields"]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unischema) and list(self._fields.values()) == list(other._fields.values())

    def __hash__(self) -> int:
        return hash(tuple(self._fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return _schema, (self._name, list(self._fields.values()), self._left_out)

    def __repr__(self) -> str:
        lines = [
            f"  {shown_text(name)}: {_type_name(field.numpy_dtype)} {field.shape}{' nullable' * field.nullable}"
            for name, field in self._fields.items()
        ]
        return "\n".join([f"Unischema {shown_text(self._name)}", *lines])


def _schema(name: str, fields: list[UnischemaField], left_out: Mapping[str, str]) -> Unischema:
    return Unischema(name, fields, left_out=left_out)


@lru_cache(1024)
def row_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the named tuple of a name and fields. Equal ones share one class, so frameworks treat rows alike."""
    make: Any = namedtuple
    made = make(name, fields)
    # Rows pickle, as Spark wants them to, though their class is nowhere to be imported from.
    made.__reduce__ = lambda row: (_row, (name, fields, tuple(row)))
    return made


def _row(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return row_type(name, fields)._make(values)


def _type_name(kind: Any) -> str:
    return "Decimal" if kind is Decimal else np.dtype(kind).name


def _field_from_json(field: Any) -> UnischemaField:
    if (
        not isinstance(field, Mapping)
        or not isinstance(field.get("name"), str)
        or not isinstance(field.get("dtype"), str)
    ):
        raise ValueError("a field is an object with a name and a dtype")
    shape = field.get("shape")
    if not isinstance(shape, list) or not is_shape(shape):
        raise ValueError(f"field {field['name'][:80]!r}: its shape is not a list of lengths")
    try:
        kind: Any = Decimal if field["dtype"] == "decimal" else _numpy_type(dtype_of(field["dtype"]))
    except TypeError:
        raise ValueError(f"field {field['name'][:80]!r}: there is no dtype {field['dtype'][:80]!r}") from None
    codec = None if field.get("codec") is None else codec_from_json(field["codec"])
    return UnischemaField(field["name"], kind, tuple(shape), codec, bool(field.get("nullable")))


def name_of(text: str) -> str:
    """Return the name of a stored schema for rows, or another one if it is not a valid name."""
    return text[:200] if text.isidentifier() and not keyword.iskeyword(text) else "schema"


def is_text(name: Any) -> bool:
    """Return whether a name is valid text, without half of a surrogate pair."""
    if not isinstance(name, str):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_shape(shape: Sequence[Any]) -> bool:
    """Return whether a shape, with None for unknown lengths, is possible for values of a cell."""
    if len(shape) > _MAX_AXES or not all(n is None or (type(n) is int and n >= 0) for n in shape):
        return False
    return math.prod(n for n in shape if n is not None) < 1 << 40


def _numpy_type(dtype: np.dtype[Any]) -> Any:
    """A scalar type where it says it all, else the dtype."""
    return dtype.type if dtype == np.dtype(dtype.type) and dtype.isnative else dtype


def attribute_names(names: Sequence[str]) -> list[str]:
    """Return the attributes of a row for names of columns.

    Examples
    --------
    >>> attribute_names(["id", "camera.image", "class"])
    ['id', 'camera_image', 'class_']
    """
    matched: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name).lstrip("_") or "field"
        plain = f"field_{plain}" if plain[0].isdigit() else plain
        plain = f"{plain}_" if keyword.iskeyword(plain) else plain
        while plain in matched:
            plain += "_"
        matched.append(plain)
    return matched


def match_unischema_fields(schema: Unischema, patterns: Sequence[UnischemaField | str]) -> list[UnischemaField]:
    """Return the given fields, and those whose whole names match patterns, in the order of the schema.

    Raises
    ------
    ConfigError
        A pattern matches no field, or a field belongs to another schema.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    chosen: set[str] = set()
    for pattern in patterns:
        if isinstance(pattern, UnischemaField):
            if pattern.name not in schema.fields:
                raise no_field(schema, pattern.name)
            chosen.add(pattern.name)
            continue
        if pattern in schema.fields:
            # Names may come from a file: they are no patterns.
            chosen.add(pattern)
            continue
        try:
            names = {name for name in schema.fields if re.fullmatch(pattern, name)}
        except (re.error, TypeError) as error:
            raise ConfigError(f"{pattern!r} is neither a name nor a regular expression: {error}"[:300]) from None
        if not names:
            if str(pattern) in schema._left_out:
                raise ConfigError(schema._left_out[str(pattern)])
            near = get_close_matches(str(pattern), list(schema.fields), 3)
            hint = f"near ones: {', '.join(map(repr, near))}" if near else f"there are {_listed(schema)}"
            raise ConfigError(f"{shown_text(str(pattern))[:80]!r} matches no field; {hint}")
        chosen |= names
    return [field for name, field in schema.fields.items() if name in chosen]


def no_field(schema: Unischema, name: str, where: str = "") -> ConfigError:
    """Return the error for an unknown field, with the reason if its column was left out, or with the known fields."""
    reason = schema._left_out.get(name, f"there is no field {shown_text(name)[:80]!r}; there are {_listed(schema)}")
    return ConfigError(f"{where}: {reason}"[:400] if where else reason[:400])


def _listed(schema: Unischema) -> str:
    return shown_text(", ".join(list(schema.fields)[:20]))


def schema_of(
    name: str, columns: Any, more: Iterable[UnischemaField] = (), *, omit_unsupported: bool = True
) -> Unischema:
    """Return the fields of Arrow columns, and additional ones.

    Raises
    ------
    ConfigError
        A column has no NumPy type and must not be left out, or two columns have the same name.
    """
    from hubarray.readers.fields.arrow_fields import numpy_type

    fields, left_out = [], {}
    for column in columns:
        try:
            kind, shape = numpy_type(column)
        except TypeError:
            reason = f"column {shown_text(column.name)[:80]!r} of {shown_text(str(column.type))[:80]} has no NumPy type"
            if not omit_unsupported:
                raise ConfigError(reason) from None
            left_out[column.name] = f"{reason}, and is left out"
            warnings.warn(left_out[column.name], stacklevel=2)
            continue
        fields.append(UnischemaField(column.name, kind, shape, None, column.nullable))
    return Unischema(name, [*fields, *more], left_out=left_out)
