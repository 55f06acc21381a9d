"""Import tables from Parquet, DataFrames, a CSV file beside its images, and class folders of images."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import blake3

from hubarray import config
from hubarray.api.resolve import RootLike
from hubarray.api.tables import writer_of
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import readable, refuse_links_out, tree
from hubarray.interop.table_sources import frames, image_tables, parquet, petastorm
from hubarray.interop.table_sources.base import TableImport
from hubarray.progress import announce, progress
from hubarray.readers.parquet import petastorm_metadata
from hubarray.readers.parquet.files import located
from hubarray.readers.parquet.source import parquet_source
from hubarray.redaction import named_type, shown_text, shown_url
from hubarray.sources.content import ARROW, PARQUET, is_image, is_image_name, kind_of, warn_of_unread_images
from hubarray.sources.folders import PARQUET_SUFFIXES, data_among, is_hidden, is_part, natural, refuse_table_format
from hubarray.tables.format.casts import is_frame
from hubarray.tables.format.schema import Field, Schema

_SHOWN_FIELDS = 20

if TYPE_CHECKING:
    from hubarray.handles.table import Table


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
    max_decoded_bytes: int | None = None,
) -> Table:
    """Import a table, which appears when it is complete.

    Parameters
    ----------
    source : path, paths, DataFrame, Arrow table, or what speaks Arrow's C stream
        A Parquet file; a list of such files, or a pattern such as ``day=1/*.parquet``; a folder of them, whose
        ``name=value`` folders become columns; a CSV file with a column of paths of JPEG and PNG images beside it; or a
        folder of such images, with one folder per class. An empty cell of numbers or images in a CSV file is null. Each
        Parquet file and each class becomes a partition, and so does a whole DataFrame or CSV file. A file from
        :func:`hubarray.export` keeps the schema and partitions of its table. A Petastorm dataset, which may be a URL,
        has the fields of its Unischema.
    name : str
        The new name, which must not exist.
    schema : Schema, optional
        By default, the schema is inferred and shown: numbers, times and text are index fields, and lists are arrays.
        Images keep the bytes of their files as JPEG if all are JPEG, and as lossless PNG otherwise: gray if all are
        gray, class numbers if all share a palette, with alpha if one has alpha, and 16 bits if all have 16 bits.
        Columns of Hugging Face datasets become images, arrays of several axes, and class numbers with the names in the
        attribute ``class_names``. A given schema leaves out columns that it does not name.
    key : str, optional
        The column of a DataFrame or CSV file with the partition of each row.
    follow_links : bool
        Whether to follow links that lead out of the folder.
    attrs, message, root
        Same as in :func:`hubarray.table_writer`.
    resume : bool
        Continue an interrupted import of the same source that also used ``resume=True``. Existing partitions are
        skipped, even if their files have changed since. An interrupted import of another source raises an error.
    max_decoded_bytes : int, optional
        How many bytes the columns of a row group of Parquet may decode to. The setting of this name is 1 GiB by
        default.

    Returns
    -------
    Table

    Raises
    ------
    SourceError
        The source cannot be read. The message names the file.
    AlreadyExistsError, ConfigError

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hubarray as hub
    >>> t = hub.import_table(pa.table({"x": [1, 2], "v": [[0.5], [1.0, 2.0]]}), "docs/table-imported:v1")
    >>> t[1]["v"]
    array([1., 2.])
    """
    from hubarray.api import catalog

    given_schema = Schema(schema) if isinstance(schema, Mapping) else schema
    table_import = _opened(source, given_schema, key, follow_links, config.max_decoded_bytes(max_decoded_bytes))
    if schema is None:
        _show(table_import)
    writer = writer_of(
        name, table_import.schema, attrs={**table_import.attrs, **(attrs or {})} or None, message=message,
        resume=resume, root=root, source=_digest(source) if resume else None,
    )  # fmt: skip
    with writer as w, progress(len(table_import.partitions), f"importing {name}", unit=" partitions") as bar:
        for partition, rows in table_import.partitions.items():
            if partition not in w:
                with w.partition(partition) as p:
                    for row in rows():
                        p.extend(row)
            bar.update(1)
    table: Any = catalog.load(name, root=root)
    return table


def _digest(source: Any) -> str | None:
    """Return the fingerprint of the place of a source, which must be equal to continue an import; None for data in
    memory."""
    sources = (
        [source] if isinstance(source, (str, os.PathLike)) else source if isinstance(source, (list, tuple)) else []
    )
    paths = [path if "://" in path else os.path.abspath(path) for path in map(os.fspath, sources)]
    return blake3.blake3(json.dumps(paths).encode("utf-8", "surrogateescape")).hexdigest() if paths else None


def _show(table_import: TableImport) -> None:
    schema = table_import.schema
    first = "guessed this schema; give schema= for another one:" if table_import.guessed else "schema:"
    shown = [f"  {name}: {schema[name]}" for name in list(schema)[:_SHOWN_FIELDS]]
    more = [f"  and {len(schema) - len(shown)} more"] if len(schema) > len(shown) else []
    announce("\n".join([first, *shown, *more]))


def _opened(
    source: Any, schema: Schema | None, key: str | None, follow_links: bool, max_decoded_bytes: int
) -> TableImport:
    if is_frame(source):
        return frames.opened(source, schema, key)
    if isinstance(source, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in source):
        return _files([Path(path) for path in source], schema, max_decoded_bytes)
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"import_table takes paths, frames and Arrow tables, not {named_type(source)}")
    where = os.fspath(source)
    if _is_petastorm(where):
        return petastorm.opened(parquet_source(where, max_decoded_bytes=max_decoded_bytes), schema)
    if "://" in where:
        raise ConfigError(
            f"{shown_url(where)}: import_table reads local files; download it first, or read it into Arrow"
        )
    path = Path(where)
    if path.is_dir():
        return _folder(path, schema, follow_links, max_decoded_bytes)
    if not path.is_file():
        matching = [Path(path) for path in data_among(glob.glob(where, recursive=True), where, is_part)]
        if not matching:
            raise SourceError(f"{shown_text(where)}: there is no such file or folder")
        return _files(matching, schema, max_decoded_bytes)
    if path.suffix.lower() == ".csv":
        return image_tables.table(path, schema, key, follow_links, max_decoded_bytes)
    _refuse_other_kinds(where)
    return parquet.opened({path.stem: path}, path.parent, schema, max_decoded_bytes)


def _refuse_other_kinds(where: str) -> None:
    """Refuse a file whose content is known not to be Parquet, and name the function that reads it."""
    shown = shown_text(where)
    with readable(shown):
        kind = kind_of(where)
    if kind == ARROW:
        raise ConfigError(f"{shown} is an Arrow IPC or Feather file. Import pyarrow.feather.read_table(...).")
    if kind not in (None, PARQUET):
        raise ConfigError(
            f"{shown} is {kind}, not Parquet; use hub.import_ (hubarray import), or import a folder of images"
        )


def _is_petastorm(where: str) -> bool:
    """Whether it is a dataset whose metadata says a Unischema, wherever it is."""
    if "://" not in where and not os.path.isdir(where):
        return False
    return petastorm_metadata.schema_of(located(where)) is not None


def _files(files: Sequence[Path], schema: Schema | None, max_decoded_bytes: int) -> TableImport:
    """Parquet files, which lie where they like."""
    others = [str(file) for file in files if file.suffix.lower() not in PARQUET_SUFFIXES or not file.is_file()]
    if others or not files:
        shown = shown_text(others[0]) if others else "an empty list"
        raise SourceError(f"{shown}: of several files each is to be a Parquet file that is there, *.parquet")
    files = [file.absolute() for file in files]
    folder = Path(os.path.commonpath([file.parent for file in files]))
    return parquet.opened(_by_key(files, folder), _above_hive(folder), schema, max_decoded_bytes)


def _by_key(files: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Parquet files by the keys of their partitions: their paths within the folder."""
    files_by_key: dict[str, Path] = {}
    for file in files:
        key = file.relative_to(folder).with_suffix("").as_posix()
        if key in files_by_key:
            raise SourceError(f"{shown_text(str(file))}: is given twice, or has the name of another; leave one out")
        files_by_key[key] = file
    return files_by_key


def _above_hive(folder: Path) -> Path:
    """The folder that those of the form ``name=value`` lie in."""
    while "=" in folder.name:
        folder = folder.parent
    return folder


def _folder(path: Path, schema: Schema | None, follow_links: bool, max_decoded_bytes: int) -> TableImport:
    shown = shown_text(str(path))
    every = {Path(file).relative_to(path).as_posix(): Path(file) for file in tree(str(path))}
    refuse_table_format(shown, every)
    seen = sorted((relative for relative in every if not is_hidden(relative)), key=natural)
    if not follow_links:
        refuse_links_out(str(path), [str(every[relative]) for relative in seen])
    parts = _by_key(
        [every[relative] for relative in seen if is_part(relative) and relative.lower().endswith(PARQUET_SUFFIXES)],
        path,
    )
    if parts:
        count = sum(map(is_image_name, seen))
        if count:
            announce(f"{shown}: has Parquet; its {count:,} images are left out")
        return parquet.opened(parts, path, schema, max_decoded_bytes)
    pictures = [every[relative] for relative in seen if is_image(str(every[relative]))]
    warn_of_unread_images(shown, seen)
    if not pictures:
        raise SourceError(f"{shown}: has neither Parquet files nor images")
    return image_tables.folder(path, pictures, schema)
