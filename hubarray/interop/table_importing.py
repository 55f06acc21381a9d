"""Making tables of what is elsewhere: Parquet, frames, a CSV beside its images, images in class folders."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.csv_cells import delimiter_of, typed_cells
from hubarray.interop.missing import needed
from hubarray.interop.parquet import exported_schema, row_groups_of
from hubarray.interop.parquet_dataset import petastorm_metadata
from hubarray.interop.parquet_dataset.files import located
from hubarray.interop.parquet_dataset.source import parquet_source
from hubarray.interop.petastorm_importing import partitions_of
from hubarray.interop.sources.base import readable, refuse_links_out, tree
from hubarray.lookup import RootLike
from hubarray.progress import announce, progress
from hubarray.shown import shown_text, shown_url
from hubarray.tables.block import MAX_BLOCK_BYTES
from hubarray.tables.frames import arrow_batches, is_frame
from hubarray.tables.images import image_decoded, image_header
from hubarray.tables.schema import PARTITION, Field, Schema
from hubarray.tables.table import Table
from hubarray.tabling import table_writer

_BATCH_ROWS = 4096
_ALL = "all"
_IMAGES = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png"}
_MOST_IMAGE_BYTES = MAX_BLOCK_BYTES // 2
_SHOWN_FIELDS = 20

Rows = Iterable[Any]


@dataclass(frozen=True)
class _Source:
    """A source that was opened: the schema that was guessed, and for each partition what gives its rows."""

    schema: Schema
    partitions: Mapping[str | int, Callable[[], Rows]]


def import_table(
    source: Any,
    name: str,
    schema: Schema | Mapping[str, Field] | None = None,
    *,
    key: str | None = None,
    follow_links: bool = False,
    attrs: Mapping[str, Any] | None = None,
    message: str | None = None,
    resume: bool = False,
    root: RootLike = None,
) -> Table:
    """Make a table of what is elsewhere; it appears when all of it is there.

    Parameters
    ----------
    source : path, DataFrame, Arrow table, or what speaks Arrow's C stream
        A Parquet file; a folder of them, whose ``name=value`` folders become columns; a CSV with a column of the paths
        of JPEG and PNG images beside it, in which an empty cell is a null of numbers and images; a folder of such
        images, those of a class in a folder of its own. Every file of Parquet and every class is a partition, and so is
        the whole of a frame or a CSV. A file that
        :func:`hubarray.export` wrote has its table's schema and partitions. Of a Petastorm dataset, which may be a URL
        too, the Unischema says the fields.
    name : str
        Must not exist.
    schema : Schema, optional
        By default guessed, and shown: numbers, times and text are fields of the index, lists are arrays. Images keep
        the bytes of their files, but those that are not of the kind of most, or not RGB, are stored as PNG or RGB.
    key : str, optional
        The column of a frame or CSV that says the partition of each row.
    follow_links : bool
        Whether files may be links that lead out of the folder.
    attrs, message, root
        As of :func:`hubarray.table_writer`.
    resume : bool
        Go on where an earlier import with ``resume=True`` was interrupted: partitions that are there are passed over.

    Returns
    -------
    Table

    Raises
    ------
    SourceError
        The source cannot be read; the file is named.
    AlreadyExistsError, ConfigError

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hubarray as hub
    >>> t = hub.import_table(pa.table({"x": [1, 2], "v": [[0.5], [1.0, 2.0]]}), "docs/table-imported:v1")
    >>> t[1]["v"]
    array([1., 2.])
    """
    from hubarray import catalog

    found = _opened(source, key, follow_links)
    given = found.schema if schema is None else Schema(schema) if isinstance(schema, Mapping) else schema
    if schema is None:
        _show(given)
    writer = table_writer(name, given, attrs=attrs, message=message, resume=resume, root=root)
    with writer as w, progress(len(found.partitions), f"importing {name}", unit=" partitions") as bar:
        for partition, rows in found.partitions.items():
            if partition not in w:
                with w.partition(partition) as p:
                    for some in rows():
                        p.extend(some)
            bar.update(1)
    table = catalog.load(name, root=root)
    assert isinstance(table, Table)
    return table


def _show(schema: Schema) -> None:
    shown = [f"  {name}: {schema[name]}" for name in list(schema)[:_SHOWN_FIELDS]]
    more = [f"  and {len(schema) - len(shown)} more"] if len(schema) > len(shown) else []
    announce("\n".join(["the schema, guessed; give schema= for another one:", *shown, *more]))


def _opened(source: Any, key: str | None, follow_links: bool) -> _Source:
    if is_frame(source):
        return _frame(source, key)
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"import_table takes paths, frames and Arrow tables, not a {type(source).__name__}")
    where = os.fspath(source)
    petastorm = _petastorm(where)
    if petastorm is not None:
        return petastorm
    if "://" in where:
        raise ConfigError(
            f"{shown_url(where)}: import_table reads local files; download it first, or read it into Arrow"
        )
    path = Path(where)
    if path.is_dir():
        return _folder(path, follow_links)
    if not path.is_file():
        raise SourceError(f"{shown_text(where)}: there is no such file or folder")
    if path.suffix.lower() == ".csv":
        return _csv(path, key, follow_links)
    return _parquet({path.stem: path}, path.parent)


def _petastorm(where: str) -> _Source | None:
    """A dataset whose metadata says a Unischema, wherever it is; None of anything else."""
    location = located(where)
    if "://" not in where and not os.path.isdir(where):
        return None
    if petastorm_metadata.schema_of(location) is None:
        return None
    return _Source(*partitions_of(parquet_source(where)))


def _frame(source: Any, key: str | None) -> _Source:
    if hasattr(source, "iloc"):
        named = [name for name in source.index.names if name is not None]
        try:
            source = pa.Table.from_pandas(source.reset_index() if named else source, preserve_index=False)
        except (pa.ArrowException, ValueError) as error:
            raise ConfigError(f"the frame has a column that Arrow cannot hold: {error}"[:400]) from None
    table = arrow_batches(source).read_all()
    schema = _guessed(table.schema)
    if key is None:
        return _Source(schema, {_ALL: lambda: [table]})
    if key not in table.column_names:
        raise ConfigError(f"key={key!r}: there is no such column; there are {', '.join(table.column_names)}"[:300])
    keys = [_plain_key(one) for one in table[key].unique().to_pylist()]
    return _Source(schema, {one: _rows_of(table, key, one) for one in keys})


def _plain_key(value: Any) -> str | int:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ConfigError(f"key: {value!r} is neither text nor a whole number, and keys of partitions are")
    return value


def _rows_of(table: pa.Table, key: str, value: Any) -> Callable[[], Rows]:
    import pyarrow.compute as pc

    return lambda: [table.filter(pc.equal(table[key], pa.scalar(value).cast(_plain_type(table[key].type))))]


_LOOKED_AT = 100
# Modes of Pillow that RGB of 8 bits shows as they are.
_CONVERTED = ("P", "PA", "1", "L", "LA", "CMYK", "YCbCr", "RGB", "RGBA")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _folder(path: Path, follow_links: bool) -> _Source:
    files = [Path(one) for one in tree(str(path)) if not os.path.basename(one).startswith((".", "_"))]
    if not follow_links:
        refuse_links_out(str(path), [str(one) for one in files])
    parquet = {
        one.relative_to(path).with_suffix("").as_posix(): one for one in files if one.suffix.lower() == ".parquet"
    }
    if parquet:
        others = sum(one.suffix.lower() in _IMAGES for one in files)
        if others:
            announce(f"{shown_text(str(path))}: has Parquet; its {others:,} images are left out")
        return _parquet(parquet, path)
    images = [one for one in files if one.suffix.lower() in _IMAGES]
    if not images:
        raise SourceError(f"{shown_text(str(path))}: has neither .parquet files nor .jpg, .jpeg and .png images")
    classes: dict[str, list[Path]] = {}
    for one in images:
        classes.setdefault(one.relative_to(path).parent.as_posix(), []).append(one)
    label, codec = Field(str, index=True), _codec_of(images)
    fields = {"label": label, "path": Field(str, index=True), "image": Field("u1", (None, None, 3), codec=codec)}

    def rows(name: str, some: Sequence[Path]) -> Callable[[], Rows]:
        return lambda: (
            [{"label": name, "path": one.relative_to(path).as_posix(), "image": _image(one, codec)}] for one in some
        )

    named: dict[str | int, Callable[[], Rows]] = {}
    for name, some in classes.items():
        named[name] = rows("" if name == "." else name, some)
    return _Source(Schema(fields), named)


def _codec_of(images: Sequence[Path]) -> str:
    """The codec that most files have already."""
    kinds = [_IMAGES[one.suffix.lower()] for one in images]
    return max(sorted(set(kinds)), key=kinds.count)


def _image(path: Path, codec: str) -> bytes | np.ndarray:
    """An image file as it is stored: its own bytes, or its pixels as RGB where it is of another kind."""
    where = shown_text(str(path))
    with readable(where):
        data = path.read_bytes()
    reasons: dict[str, ValueError] = {}
    for kind in (codec, *sorted({"jpeg", "png"} - {codec})):
        try:
            shape, dtype = image_header(kind, data)
        except ValueError as error:
            reasons[kind] = error
            continue
        if (kind, dtype, shape[2:]) == (codec, "uint8", (3,)):
            return data
        if int(np.prod(shape)) * np.dtype(dtype).itemsize > _MOST_IMAGE_BYTES:
            raise SourceError(f"{where}: has {shape[0]:,} x {shape[1]:,} pixels, more than are imported")
        if dtype != "uint8" or shape[2:] not in ((), (1,), (3,), (4,)):
            raise SourceError(f"{where}: is an image of {dtype}, and 8 bits of grey, RGB or RGBA are wanted")
        try:
            pixels = image_decoded({"name": kind}, data, shape, np.dtype(dtype))
        except ValueError as error:
            raise SourceError(f"{where}: {error}") from None
        pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
        return np.ascontiguousarray(np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3)))
    return _as_rgb(path, where, reasons[_IMAGES[path.suffix.lower()]])


def _as_rgb(path: Path, where: str, reason: ValueError) -> np.ndarray:
    """The pixels of an image of a kind that is not stored as it is: with a palette, CMYK, of two tones."""
    pillow = needed("PIL.Image", extra="images", why=f"importing {where}")
    with readable(where), pillow.open(path, formats=("PNG", "JPEG")) as image:
        if image.mode not in _CONVERTED:
            raise SourceError(f"{where}: {reason}")
        if image.width * image.height * 3 > _MOST_IMAGE_BYTES:
            raise SourceError(f"{where}: has {image.height:,} x {image.width:,} pixels, more than are imported")
        return np.asarray(image.convert("RGB"))


def _csv(path: Path, key: str | None, follow_links: bool) -> _Source:
    where = shown_text(str(path))
    with readable(where), path.open(newline="", encoding="utf-8-sig") as file:
        delimiter = delimiter_of(file.readline())
        file.seek(0)
        reader = csv.DictReader(file, strict=True, delimiter=delimiter)
        header = list(reader.fieldnames or ())
        for name in header:
            if header.count(name) > 1:
                raise SourceError(f"{where}: has two columns {shown_text(name)[:80]!r}; rename one")
        rows = list(reader)
    if not rows or any(None in row or None in row.values() for row in rows):
        raise SourceError(f"{where}: has no rows, or rows that are longer or shorter than its header")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if PARTITION in columns:
        raise ConfigError(f"{where}: a column {PARTITION!r} is the index's own; rename it, and give key= its new name")
    if key is not None and key not in columns:
        raise ConfigError(f"key={key!r}: {where} has no such column; it has {', '.join(columns)}"[:300])
    named = [name for name, values in columns.items() if _is_image_column(path.parent, values)]
    images = named[0] if named else None
    if named[1:]:
        announce(f"{where}: takes the images of {named[0]!r}; of {', '.join(map(repr, named[1:]))} it takes the paths")
    fields: dict[str, Field] = {}
    typed: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        fields[name], typed[name] = typed_cells(values)
    codec = ""
    if images is not None:
        files = [path.parent / value for value in columns[images] if value]
        if not follow_links:
            refuse_links_out(str(path.parent), [str(one) for one in files])
        codec = _codec_of(files)
        fields["image" if "image" not in fields else f"{images}.image"] = Field(
            "u1", (None, None, 3), codec=codec, nullable="" in columns[images]
        )
    image_name = list(fields)[-1]

    def row(i: int) -> dict[str, Any]:
        plain = {name: values[i] for name, values in typed.items()}
        if images is None:
            return plain
        file = columns[images][i]
        return plain | {image_name: _image(path.parent / file, codec) if file else None}

    def lazily(some: Sequence[int]) -> Callable[[], Rows]:
        return lambda: ([row(i)] for i in some)

    groups: dict[str | int, list[int]] = {}
    for i in range(len(rows)):
        groups.setdefault(_ALL if key is None else _plain_key(typed[key][i]), []).append(i)
    return _Source(Schema(fields), {one: lazily(some) for one, some in groups.items()})


def _is_image_column(folder: Path, values: Sequence[str]) -> bool:
    there = [value for value in values if value]
    if not there or not all(Path(one).suffix.lower() in _IMAGES for one in there):
        return False
    # One that is missing is an error when it is read, and no reason to take paths for text.
    return any((folder / one).is_file() for one in there[:_LOOKED_AT])


def _parquet(files: Mapping[str, Path], folder: Path) -> _Source:
    first = next(iter(files))
    if len(files) == 1:
        exported = _exported(files[first])
        if exported is not None:
            return exported
    schema: pa.Schema | None = None
    for path in files.values():
        with readable(shown_text(str(path))), pq.ParquetFile(path) as file:
            own = _with_hive(file.schema_arrow, _hive(path, folder)).remove_metadata()
        if schema is not None and own != schema:
            raise SourceError(
                f"{shown_text(str(path))}: has other columns than {shown_text(first)}; give it a table of its own"
            )
        schema = own
    assert schema is not None
    return _Source(_guessed(schema), {name: _batches(path, _hive(path, folder)) for name, path in files.items()})


def _exported(path: Path) -> _Source | None:
    """A table that was exported to a Parquet file: its own schema, and its own partitions."""
    where = shown_text(str(path))
    with readable(where), pq.ParquetFile(path) as file:
        schema = exported_schema(file.schema_arrow.metadata, where)
        if schema is None or PARTITION not in file.schema_arrow.names:
            return None
        groups = row_groups_of(file)
    return _Source(schema, {key: _batches(path, {}, groups=some) for key, some in groups.items()})


def _hive(path: Path, folder: Path) -> dict[str, str]:
    """The columns that the names of folders say."""
    parts = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
    return {unquote(name): unquote(value) for name, _, value in (one.partition("=") for one in parts) if value}


def _with_hive(schema: pa.Schema, columns: Mapping[str, str]) -> pa.Schema:
    for name in columns:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string(), nullable=False))
    return schema


def _batches(path: Path, columns: Mapping[str, str], groups: Sequence[int] | None = None) -> Callable[[], Rows]:
    def read() -> Iterator[pa.Table]:
        where = shown_text(str(path))
        with readable(where):
            file = pq.ParquetFile(path)
        with file:
            # Of an exported table without the column of its partitions' keys.
            names = None if groups is None else [one for one in file.schema_arrow.names if one != PARTITION]
            batches = file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names)
            while True:
                with readable(where):
                    batch = next(batches, None)
                if batch is None:
                    return
                table = pa.Table.from_batches([batch])
                for name, value in columns.items():
                    if name not in table.column_names:
                        table = table.append_column(name, pa.array([value] * len(table), pa.string()))
                yield table

    return read


def _guessed(schema: pa.Schema) -> Schema:
    fields = {}
    for one in schema:
        if one.name == PARTITION:
            raise ConfigError(f"a column {PARTITION!r} is the index's own; rename it, and give key= its new name")
        fields[one.name] = _field(one)
    return Schema(fields)


_BINARY = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary
)  # fmt: skip


def _field(one: pa.Field) -> Field:
    kind = _plain_type(one.type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Field(str, index=True, nullable=one.nullable)
    if any(is_kind(kind) for is_kind in _BINARY):
        return Field(bytes, nullable=one.nullable)
    shape: list[int | None] = []
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = "ms" if kind.unit == "s" else kind.unit
        dtype: Any = f"{'M8' if pa.types.is_timestamp(kind) else 'm8'}[{unit}]"
    elif pa.types.is_date(kind):
        dtype = "M8[ms]"
    else:
        try:
            dtype = np.dtype(kind.to_pandas_dtype())
        except NotImplementedError:
            dtype = np.dtype(object)
        if dtype.kind not in "biuf":
            raise ConfigError(f"column {one.name!r}: {kind} has no field that it could be; give a schema, or drop it")
    return Field(dtype, shape, index=not shape, nullable=one.nullable)
