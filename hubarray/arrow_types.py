"""Columns of Arrow in plain types, whatever layout or wrapping a writer has chosen. Pure.

Views of text and lists, as frames of Polars have them, hold the same values in another layout. Hugging Face's datasets
keep an image or a sound as a struct of its file's bytes and path, and an array of several axes as lists within lists,
with its shape beside the type:
https://huggingface.co/docs/datasets/about_dataset_features and ``datasets/features/features.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.errors import SourceError
from hubarray.limits import parse_json
from hubarray.redaction import shown_text

_ARRAY_NAME = "datasets.features.features.Array"
_EXTENSION_NAME, _EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_HUGGING_FACE = b"huggingface"
_MAX_AXES = 32
_MAX_CLASSES = 1 << 16
_MAX_JSON_BYTES = 16 << 20
# Elements that null rows have room for.
_MAX_ABSENT = 1 << 24


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a schema as :func:`plain_column` gives them; without metadata."""
    return pa.schema([pa.field(field.name, plain_type(field), field.nullable) for field in schema])


def plain_type(field: pa.Field) -> pa.DataType:
    """The type that a column has here.

    Examples
    --------
    >>> plain_type(pa.field("text", pa.string_view()))
    DataType(string)
    >>> plain_type(pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()})))
    DataType(binary)
    """
    kind = field.type
    if is_file(kind):
        return without_views(kind.field("bytes").type)
    shape = _array_shape(field)
    if isinstance(kind, pa.ExtensionType) and kind.extension_name.startswith(_ARRAY_NAME):
        kind = kind.storage_type
    kind = without_views(kind)
    return kind if shape is None else _of_shape(kind, shape)


def is_file(kind: pa.DataType) -> bool:
    """Whether values are files, as Hugging Face keeps images and sounds: structs of their bytes and path."""
    if not pa.types.is_struct(kind) or {kind.field(i).name for i in range(kind.num_fields)} != {"bytes", "path"}:
        return False
    data, path = without_views(kind.field("bytes").type), without_views(kind.field("path").type)
    is_bytes = pa.types.is_binary(data) or pa.types.is_large_binary(data)
    return is_bytes and (pa.types.is_string(path) or pa.types.is_large_string(path) or pa.types.is_null(path))


def without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type without views of text, bytes and lists, at any depth."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_inner(kind))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_inner(kind))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_inner(kind), kind.list_size)
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(without_views(field.type)) for field in fields])
    return kind


def _inner(kind: Any) -> pa.Field:
    inner: pa.Field = kind.value_field
    return inner.with_type(without_views(inner.type))


def plain_column(column: Any, field: pa.Field, where: str) -> Any:
    """A column in its plain type.

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
    field : pyarrow.Field
        Its own, with the metadata that it has.
    where : str
        Names what it is of, in errors.

    Raises
    ------
    SourceError
        A row names a file and does not have its bytes.
    pyarrow.ArrowException
        Values are not of the shape that is said.
    """
    arrow_type = plain_type(field)
    if is_file(column.type):
        data, paths = (pc.struct_field(column, name) for name in ("bytes", "path"))
        lost = pc.index(pc.and_(pc.is_null(data), pc.is_valid(paths)), True).as_py()
        if lost >= 0:
            raise SourceError(
                f"{where}: column {shown_text(field.name)[:80]!r}: row {lost} names a file, "
                f"{shown_text(str(paths[lost].as_py()))[:80]!r}, and does not have its bytes; embed the files"
            )
        column = data
    if isinstance(column.type, pa.ExtensionType) and column.type.extension_name.startswith(_ARRAY_NAME):
        column = _storage(column)
    shape = _array_shape(field)
    if shape is not None:
        _check_room(column, math.prod(n for n in shape if n is not None), f"{where}: column {field.name[:80]!r}")
    column = _without_list_views(column)
    return column if column.type == arrow_type else column.cast(arrow_type)


def plain_table(table: pa.Table, where: str) -> pa.Table:
    """A table whose columns are :func:`plain_column`'s.

    Raises
    ------
    SourceError
    """
    columns = [plain_column(column, field, where) for column, field in zip(table.columns, table.schema, strict=True)]
    return pa.table(columns, names=table.column_names)


def _without_list_views(column: Any) -> Any:
    """Views of lists as lists. Arrow's own cast of them, up to release 26 at least, leaves too few offsets."""
    if isinstance(column, pa.ChunkedArray):
        if not _is_list_view(column.type):
            return column
        chunks = [_without_list_views(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, None if chunks else without_views(column.type))
    if not _is_list_view(column.type):
        return column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    is_large = pa.types.is_large_list_view(column.type)
    made = pa.LargeListArray if is_large else pa.ListArray
    values = _without_list_views(pc.list_flatten(column))
    return made.from_arrays(pa.array(offsets, pa.int64() if is_large else pa.int32()), values, mask=pc.is_null(column))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _check_room(column: Any, row_elements: int, where: str) -> None:
    """Refuse a column whose null rows would take far more room than its values do: a file may say any shape."""
    values = column
    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = pc.list_flatten(values)
    if len(column) * row_elements > len(values) + _MAX_ABSENT:
        raise SourceError(
            f"{shown_text(where)}: declares {row_elements:,} elements per row, and holds {len(values):,} in all"
        )


def _storage(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column.storage


def _array_shape(field: pa.Field) -> tuple[int | None, ...] | None:
    """The shape that Hugging Face's datasets say of an array's axes; None of any other column."""
    if isinstance(field.type, pa.ExtensionType):
        name, extension_metadata = field.type.extension_name, field.type.__arrow_ext_serialize__()
    else:
        metadata = field.metadata or {}
        name = metadata.get(_EXTENSION_NAME, b"").decode("utf-8", "replace")
        extension_metadata = metadata.get(_EXTENSION_METADATA, b"")
    if not name.startswith(_ARRAY_NAME):
        return None
    try:
        shape = parse_json(extension_metadata)[0]
        if not isinstance(shape, list) or not 2 <= len(shape) <= _MAX_AXES:
            return None
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    return tuple(shape) if all(n is None or (type(n) is int and 0 < n < 1 << 31) for n in shape) else None


def _of_shape(kind: pa.DataType, shape: tuple[int | None, ...]) -> pa.DataType:
    """Lists within lists, of which those are of a size whose length is said."""
    inner = kind
    for _ in shape:
        if not (pa.types.is_list(inner) or pa.types.is_large_list(inner) or pa.types.is_fixed_size_list(inner)):
            return kind
        inner = inner.value_type
    for length in reversed(shape):
        inner = pa.list_(inner) if length is None else pa.list_(inner, length)
    return inner


def class_names(metadata: Any) -> dict[str, list[str]]:
    """The names of the classes that whole numbers of a column stand for, as Hugging Face's datasets say them.

    Parameters
    ----------
    metadata : mapping of bytes to bytes, or None
        Of a file, or of a schema. What it does not say, or not as it should, has no names.
    """
    stored_features = (metadata or {}).get(_HUGGING_FACE, b"")
    if not stored_features or len(stored_features) > _MAX_JSON_BYTES:
        return {}
    try:
        features = parse_json(stored_features)["info"]["features"]
        names_by_feature = {name: feature["names"] for name, feature in features.items() if _is_class_label(feature)}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return {
        name: names
        for name, names in names_by_feature.items()
        if all(isinstance(class_name, str) for class_name in names)
    }


def _is_class_label(feature: Any) -> bool:
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return False
    names = feature.get("names")
    return isinstance(names, list) and 0 < len(names) <= _MAX_CLASSES
