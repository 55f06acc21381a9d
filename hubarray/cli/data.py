"""Commands that carry data in and out: files, other roots, parts of arrays."""

from __future__ import annotations

import ast
import json
import sys
import tokenize
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

import hubarray as hub
from hubarray.arrays.codecs.codec_chains import NAMED_CHAINS
from hubarray.arrays.codecs.image_codecs import IMAGE_CODECS
from hubarray.cli.command import ARRAY, DONE, MESSAGE, NOT_DONE, argument, command, loaded_array, made
from hubarray.cli.output import Output, confirmed
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.interop.notebook.html import human_bytes
from hubarray.redaction import shown_url
from hubarray.storage.url import Root

_ASKED_BYTES = 1_000_000_000
_ABOUT_CODECS = {name: codec.about for name, codec in NAMED_CHAINS.items()} | {
    name: codec.about for name, codec in IMAGE_CODECS.items()
}
_CODECS = ", ".join(f"{name} ({about})" for name, about in _ABOUT_CODECS.items())


@command(
    "import",
    "Import an array from Zarr, HDF5, TIFF, images, audio or video, or a dataset if there are several arrays.",
    examples=(
        "hubarray import scans.npy lab/scans:v1",
        "hubarray import 'photos/*.jpg' lab/photos:v1",
        "hubarray import data.h5 lab/volume:v1 --key raw/volume",
        "hubarray import climate.nc lab/climate:v1",
    ),
    arguments=(
        argument("source"),
        argument("name"),
        argument("--key", help="the array or group to import, if there are several"),
        argument("--follow-links", action="store_true", help="also read data in other files"),
        argument("--source-options", metavar="JSON", help="storage options of the source, in the form of s3fs"),
        argument("--chunks", help="shape of a chunk, such as 16,64,64"),
        argument("--codec", default="auto", help=_CODECS),
        argument(
            "--orientation",
            default="keep",
            choices=("keep", "apply"),
            help="'apply' turns images upright",
        ),
        MESSAGE,
    ),
)
def import_(arguments: Namespace, output: Output) -> int:
    """``hubarray import``."""
    chunks: Any = "auto"
    if arguments.chunks is not None:
        try:
            chunks = tuple(int(part) for part in arguments.chunks.split(","))
        except ValueError:
            raise ConfigError(f"--chunks {arguments.chunks}: give numbers, such as 16,64,64") from None
    array = hub.import_(
        _place(arguments.source, arguments.source_options), arguments.name, key=arguments.key, chunks=chunks,
        codec=arguments.codec, follow_links=arguments.follow_links, root=arguments.root, message=arguments.message,
        orientation=arguments.orientation,
    )  # fmt: skip
    return made(array, output)


@command(
    "import-table",
    "Import a table from Parquet, a CSV file beside its images, or class folders of images.",
    examples=(
        "hubarray import-table drives.parquet lab/drives:v1",
        "hubarray import-table photos/ lab/photos:v1 --resume",
        "hubarray import-table labels.csv lab/labelled:v1 --key log_id",
    ),
    arguments=(
        argument("source"),
        argument("name"),
        argument("--key", help="the column of a CSV file with the partition of each row"),
        argument("--follow-links", action="store_true", help="also follow links out of the folder"),
        argument("--resume", action="store_true", help="continue an interrupted import that used --resume"),
        MESSAGE,
    ),
)
def import_table(arguments: Namespace, output: Output) -> int:
    """``hubarray import-table``."""
    table = hub.import_table(
        arguments.source, arguments.name, key=arguments.key, follow_links=arguments.follow_links,
        resume=arguments.resume, root=arguments.root, message=arguments.message,
    )  # fmt: skip
    return made(table, output)


@command(
    "export",
    "Write an array as Zarr v3, .npy or HDF5, a dataset as Zarr v3, HDF5 or NetCDF, or a table as Parquet.",
    examples=(
        "hubarray export lab/scans:v1 scans.npy",
        "hubarray export lab/scans:v1@paper s3://bucket/scans.zarr",
        "hubarray export lab/climate:v1 climate.zarr",
        "hubarray export lab/drives:v1 drives.parquet --columns 'camera.*' speed",
    ),
    arguments=(
        argument("name"),
        argument("target"),
        argument("--format", choices=("zarr", "npy", "hdf5", "netcdf", "parquet")),
        argument("--key", help="the name of the array in the HDF5 file or Zarr group"),
        argument("--columns", nargs="+", metavar="COLUMN", help="names or patterns of columns of a table"),
        argument("--overwrite", action="store_true"),
        argument("--target-options", metavar="JSON", help="storage options of the target, in the form of s3fs"),
    ),
)
def export(arguments: Namespace, output: Output) -> int:
    """``hubarray export``."""
    target = _place(arguments.target, arguments.target_options)
    hub.export(
        arguments.name, target, format=arguments.format, key=arguments.key, columns=arguments.columns,
        overwrite=arguments.overwrite, root=arguments.root,
    )  # fmt: skip
    shown = shown_url(arguments.target)
    output.value({"exported": shown}, [f"{arguments.name} is in {shown}"])
    return DONE


@command(
    "transfer",
    "Send a version with its history to another root.",
    examples=("hubarray transfer lab/scans:v1 s3://other-bucket/hub",),
    arguments=(
        argument("name"),
        argument("to"),
        argument("--target-options", metavar="JSON", help="storage options of the other root, in the form of s3fs"),
    ),
)
def transfer(arguments: Namespace, output: Output) -> int:
    """``hubarray transfer``."""
    done = hub.transfer(arguments.name, _place(arguments.to, arguments.target_options), root=arguments.root)
    text = (
        f"{done.commits} commits, {done.objects} objects of {human_bytes(done.bytes)} sent; {done.skipped} were there"
    )
    output.value(asdict(done), [text])
    return DONE


def _place(url: str, options: str | None) -> Any:
    """A path or URL, with storage options where they are given as JSON."""
    if options is None:
        return url
    try:
        parsed = json.loads(options)
    except ValueError:
        raise ConfigError("the storage options are not a JSON object, such as '{\"anon\": true}'") from None
    return Root(url, storage_options=parsed)


@command(
    "get",
    "Read a part of an array: print it, or save it as .npy.",
    examples=(
        "hubarray get lab/scans:v1 '0:2, 10, ::4'",
        "hubarray get lab/scans:v1 100:200 -o part.npy",
        "hubarray get lab/train:v1 0 --array label",
    ),
    arguments=(
        argument("name"),
        ARRAY,
        argument("index", nargs="?", default="...", help="as in Python's brackets (default: ...)"),
        argument("-o", "--output", help="a .npy file, or - for standard output"),
        argument("--overwrite", action="store_true", help="replace the file"),
        argument("-y", "--yes", action="store_true", help="do not ask before reading more than 1 GB"),
    ),
)
def get(arguments: Namespace, output: Output) -> int:
    """``hubarray get``."""
    array = loaded_array(arguments.name, arguments.root, arguments.array, instead="hubarray rows shows its rows")
    if arguments.index == "..." and array.nbytes > _ASKED_BYTES:
        size = human_bytes(array.nbytes)
        if not confirmed(
            f"Read all of {arguments.name}, {size}? A part is read by an index, such as 0:10.", yes=arguments.yes
        ):
            output.value({"error": "NotConfirmed", "message": f"{arguments.name} has {size}"}, [])
            return NOT_DONE
    values = np.asarray(array[parsed_index(arguments.index)])
    if arguments.output == "-":
        # Of a file NumPy asks where it is, which a pipe cannot tell; of what only writes it does not.
        np.save(SimpleNamespace(write=sys.stdout.buffer.write), values, allow_pickle=False)
    elif arguments.output:
        if Path(arguments.output).exists() and not arguments.overwrite:
            raise AlreadyExistsError(f"{arguments.output}: exists already; choose another file, or pass --overwrite")
        with open(arguments.output, "wb") as file:
            np.save(file, values, allow_pickle=False)
    else:
        output.value(values.tolist(), str(values).split("\n"))
        return DONE
    output.json = output.json and arguments.output != "-"
    output.value({"saved": arguments.output, "shape": list(values.shape), "dtype": str(values.dtype)}, [])
    return DONE


@command(
    "put",
    "Assign a .npy file, or a number, to a part of an array.",
    examples=(
        "hubarray put lab/scans:v1 100:200 part.npy",
        "hubarray put lab/scans:v1 '..., 0' 0",
    ),
    arguments=(
        argument("name"),
        ARRAY,
        argument("index"),
        argument("value", help="a .npy file, - for one on standard input, or a number"),
        MESSAGE,
    ),
)
def put(arguments: Namespace, output: Output) -> int:
    """``hubarray put``."""
    array = loaded_array(
        arguments.name, arguments.root, arguments.array, instead="tables are written with hub.table_writer"
    )
    if arguments.value == "-":
        values = _npy(sys.stdin.buffer, "standard input")
    elif Path(arguments.value).suffix == ".npy":
        with open(arguments.value, "rb") as file:
            values = _npy(file, arguments.value)
    else:
        values = _number(arguments.value)
    try:
        with np.errstate(invalid="raise"), array.transaction(arguments.message) as t:
            t[parsed_index(arguments.index)] = values
    except OverflowError:
        raise ConfigError(f"{arguments.value}: does not fit {array.dtype}") from None
    return made(array, output)


def _npy(file: BinaryIO, where: str) -> np.ndarray:
    # As for writing: what only reads may be a pipe.
    try:
        return np.asarray(np.lib.format.read_array(SimpleNamespace(read=file.read), allow_pickle=False))
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise ConfigError(f"{where}: is not a .npy file of plain values ({str(error).split('.')[0]})") from None


def _number(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{text}: is neither a .npy file nor a number") from None


def parsed_index(text: str) -> Any:
    """The index that stands in Python's brackets, of numbers, slices and ``...`` only; nothing is run.

    Examples
    --------
    >>> parsed_index("0:2, ..., ::-1, [1, 5]")
    (slice(0, 2, None), Ellipsis, slice(None, None, -1), [1, 5])
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]") and ("," not in inner or ":" in inner or "." in inner):
        # The brackets came along; a list of numbers alone stays one.
        inner = inner[1:-1]
    try:
        tree = ast.parse(f"_[{inner}]", mode="eval").body
        assert isinstance(tree, ast.Subscript)
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        key = tuple(_part(part) for part in parts)
    except (SyntaxError, ValueError, AssertionError):
        raise ConfigError(f"{text!r} is not an index; write it as in brackets, such as 0:10, ..., 3") from None
    return key if len(key) > 1 or isinstance(tree.slice, ast.Tuple) else key[0]


def _part(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return slice(
            *(None if bound is None else ast.literal_eval(bound) for bound in (node.lower, node.upper, node.step))
        )
    return ast.literal_eval(node)
