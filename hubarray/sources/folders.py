"""The data in a folder, and its order; planning alone, over paths within the folder."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from hubarray.errors import SourceError

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
# Of jobs that have not ended, of table formats, and of archives that macOS made.
_UNFINISHED = frozenset(("_temporary", "_delta_log", "_spark_metadata", "__MACOSX", "__pycache__"))
# Source: the Delta transaction log protocol, "Delta Log Entries" and "Checkpoints".
_OF_DELTA = re.compile(r"\d{20}\.(?:json|checkpoint\b)", re.ASCII)
_DIGITS = re.compile(r"([0-9]+)")


def is_hidden(path: str) -> bool:
    """Whether a file is none of a folder's data: hidden, unfinished, or in a folder that is.

    Parameters
    ----------
    path : str
        Within the folder, with slashes.

    Examples
    --------
    >>> [is_hidden(path) for path in ("cat/a.png", "_DSC1.jpg", ".ipynb_checkpoints/a.png", "__MACOSX/a.png")]
    [False, False, True, True]
    """
    return any(part.startswith(".") or part in _UNFINISHED for part in path.split("/"))


def is_part(path: str) -> bool:
    """Whether a file is a part of a dataset as Hive and Spark write it; a folder of partitions may begin with ``_``.

    Examples
    --------
    >>> [is_part(path) for path in ("day=1/a.parquet", "_day=1/a.parquet", "_temporary/0/a.parquet", "_metadata")]
    [True, True, False, False]
    """
    return not any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))


def natural(path: str) -> tuple[tuple[str | int, ...], str]:
    """The key that sorts numbers in names by what they are.

    Examples
    --------
    >>> sorted(["slice10.tif", "slice2.tif", "slice02.tif"], key=natural)
    ['slice02.tif', 'slice2.tif', 'slice10.tif']
    """
    pieces = _DIGITS.split(path)
    # Text and digits take turns. Numbers of any length: by how many digits they have, and then by these.
    compared: list[str | int] = []
    for i, piece in enumerate(pieces):
        digits = piece.lstrip("0")
        compared += [len(digits), digits] if i % 2 else [piece]
    return tuple(compared), path


def fixed_part(pattern: str) -> str:
    """The folder before the first wildcard.

    Examples
    --------
    >>> [fixed_part(pattern) for pattern in ("/data/*/a.png", "a.png", "./*.png")]
    ['/data', '.', '.']
    """
    parts = Path(pattern).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return str(Path(*parts[:fixed])) if fixed else "."


def data_among(
    paths: Iterable[str], pattern: str, is_data: Callable[[str], bool], *, folder: str | None = None
) -> list[str]:
    """The data among the paths that a pattern matched, by the numbers in their names.

    A hidden name in the pattern itself is intended.

    Parameters
    ----------
    paths : iterable of str
    pattern : str
    is_data : callable
        :func:`is_part`, or the like, which takes a path within the folder.
    folder : str, optional
        By default the part of the pattern before its first wildcard.

    Examples
    --------
    >>> data_among(["d/a10.png", "d/a9.png", "d/__MACOSX/a.png"], "d/**", lambda path: not is_hidden(path))
    ['d/a9.png', 'd/a10.png']
    >>> data_among([".a.png"], ".a.png", lambda path: not is_hidden(path))
    ['.a.png']
    """
    within = fixed_part(pattern) if folder is None else folder
    by_relative = {Path(path).relative_to(within).as_posix(): path for path in paths}
    is_meant = not is_data(Path(pattern).relative_to(within).as_posix()) if folder is None else False
    return [by_relative[relative] for relative in sorted(by_relative, key=natural) if is_meant or is_data(relative)]


def refuse_table_format(where: str, paths: Iterable[str]) -> None:
    """Refuse the folder of a table whose rows are those of some of its files, which its log or metadata name.

    Parameters
    ----------
    where : str
        The folder, fit to be shown.
    paths : iterable of str
        All files below it, hidden ones too, with slashes.

    Raises
    ------
    SourceError
    """
    for path in paths:
        *_, folder, name = "", *path.split("/")
        if folder == "_delta_log" and _OF_DELTA.match(name):
            kind, how = "Delta Lake", "deltalake.DeltaTable(...).to_pyarrow_table()"
        elif folder == ".hoodie" and name == "hoodie.properties":
            kind, how = "Apache Hudi", "Spark, spark.read.format('hudi').load(...)"
        elif folder == "metadata" and name.endswith(".metadata.json"):
            kind, how = "Apache Iceberg", "pyiceberg, catalog.load_table(...).scan().to_arrow()"
        else:
            continue
        raise SourceError(
            f"{where}: is a table of {kind}, whose files still hold removed rows; read it with {how} and import the "
            "result, or name the files to import"
        )
