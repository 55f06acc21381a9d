"""Bringing in several arrays at a time: groups of Zarr, HDF5 and NetCDF, and xarray's datasets, as one dataset."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import blake3
import numpy as np

from hubarray.api import catalog, datasets
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.datasets import growing
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError, ConflictError, NotFoundError, SourceError
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance.staging_versions import NOTE, left_over, publish, remove, staging_name
from hubarray.interop.plain import fitting_attrs
from hubarray.interop.sources.dimensions import agreeing
from hubarray.names import Name
from hubarray.progress import progress
from hubarray.redaction import shown_text
from hubarray.storage.url import Root

if TYPE_CHECKING:
    from hubarray.handles.dataset import Dataset
    from hubarray.interop.sources.members import Members

STEP_BYTES = 64 << 20
_SHOWN_ARRAYS = 20
# What a commit of the staging version is called: how many steps are done.
_DONE = re.compile(r"import: step (\d+)")


@dataclass(frozen=True)
class _ImportStep:
    """Some rows of an array; all of one that has no rows."""

    key: str
    path: str
    first: int
    end: int


def import_members(
    members: Members,
    again: Any,
    name: Name,
    *,
    chunks: Any,
    codec: Any,
    attrs: Mapping[str, Any] | None,
    root: Root,
    message: str | None,
) -> Dataset:
    """Make a dataset of all arrays of a source: see :func:`hubarray.import_`.

    Parameters
    ----------
    members : Members
    again : callable
        Opens the source again, to check whether it has changed.
    """
    keys = _keys(members)
    dims, unnamed = agreeing({path: (array.dims, array.shape) for path, array in members.arrays.items()})
    if unnamed:
        shown = shown_text(", ".join(unnamed[:_SHOWN_ARRAYS]))
        warnings.warn(
            f"{members.where}: axes of {shown} have no names here: an array has each name once, and axes of one name "
            "are as long in all arrays",
            stacklevel=3,
        )
    specs = {}
    for key, path in keys.items():
        with growing.about(key):
            specs[key] = _spec(members.arrays[path], key, dims[path], chunks, codec)
    alone = members.fingerprint is None
    staged = version_of(root, staging_name(name, "importing", own=alone))
    note = {"source": _digest(members, specs)}
    done = 0 if alone else _steps_done(staged, note)
    if not done:
        remove(staged)
    try:
        staging = datasets.dataset(specs, str(staged.name), {NOTE: note}, root=root)
        try:
            _fill(staging, members, keys, done)
        except SourceError as error:
            raise SourceError(f"{error}{_left(staged, alone=alone)}") from error.__cause__
        except BaseException:
            if alone:
                remove(staged)
            raise
    except (ConflictError, NotFoundError) as error:
        raise ConflictError(f"{name}: another import of this name is running, or ended just now ({error})") from error
    with warnings.catch_warnings():
        # They were said when it was opened first.
        warnings.simplefilter("ignore")
        changed = not alone and again().fingerprint != members.fingerprint
    if changed:
        remove(staged)
        raise SourceError(f"{members.where}: changed while it was read; import it again")
    attributes = fitting_attrs(members.where, members.attrs, attrs)
    publish(staged, version_of(root, name), attrs=attributes, message=message or f"import {shown_text(members.where)}")
    handle: Any = catalog.load(str(name), root=root)
    return handle


def _keys(members: Members) -> dict[str, str]:
    """The path of each array by the name that it gets: what are folders there are dots here."""
    dims_by_path: dict[str, str] = {}
    for path in members.arrays:
        key = path.strip("/").replace("/", ".")
        if key in dims_by_path:
            raise ConfigError(
                f"{members.where}: {path} and {dims_by_path[key]} would both be {key!r}; choose with key="
            )
        dims_by_path[key] = path
    if not dims_by_path:
        raise ConfigError(f"{members.where}: holds no array")
    return dims_by_path


def _spec(source: Any, key: str, dims: Any, chunks: Any, codec: Any) -> ArraySpec:
    def of(option: Any) -> Any:
        return option.get(key, "auto") if isinstance(option, Mapping) else option

    return ArraySpec(
        source.shape,
        source.dtype,
        chunks=of(chunks),
        codec=of(codec),
        fill_value=0 if source.fill is None else source.fill,
        dims=dims,
        attrs=fitting_attrs(source.where, source.attrs, None),
    )


def _digest(members: Members, specs: Mapping[str, ArraySpec]) -> str | None:
    if members.fingerprint is None:
        return None
    cut = {key: [list(spec.metadata().chunks), list(spec.metadata().codecs)] for key, spec in specs.items()}
    return blake3.blake3(json.dumps([members.fingerprint, cut]).encode("utf-8", "surrogateescape")).hexdigest()


def _steps_done(staged: Version, note: dict[str, Any]) -> int:
    """How far an earlier import of the same source came: each of its commits says so, with what it wrote."""
    record = left_over(staged)
    if record is None or record.head.kind != "dataset" or record.attrs.get(NOTE) != note:
        return 0
    match = _DONE.fullmatch(record.head.message)
    return int(match[1]) if match else 0


def _left(staged: Version, *, alone: bool) -> str:
    """Return the end of the error of a failed import, which says how to continue. Remove what nobody can continue."""
    record = staged.newest()
    match = None if record is None else _DONE.fullmatch(record.head.message)
    if alone or match is None:
        remove(staged)
        return ""
    return (
        f"; what came before is kept as {staged.name}: fix the source and import it again, which starts again, or "
        f"remove it with hub.delete({str(staged.name)!r})"
    )


def _steps(members: Members, keys: Mapping[str, str], staging: DatasetHandle) -> Iterator[_ImportStep]:
    for key, path in keys.items():
        source = members.arrays[path]
        if not source.shape:
            yield _ImportStep(key, path, 0, 0)
            continue
        if not math.prod(source.shape):
            continue
        cut = staging[key].chunks[0]
        row_bytes = max(1, math.prod(source.shape[1:]) * source.dtype.itemsize)
        rows = max(1, STEP_BYTES // (row_bytes * cut)) * cut
        for first in range(0, source.shape[0], rows):
            yield _ImportStep(key, path, first, min(first + rows, source.shape[0]))


def _fill(staging: DatasetHandle, members: Members, keys: Mapping[str, str], done: int) -> None:
    total = sum(math.prod(array.shape) * array.dtype.itemsize for array in members.arrays.values())
    number = 0
    with progress(total, f"importing {shown_text(members.where)}") as bar:
        for commit in _commits(_steps(members, keys, staging), members):
            number += len(commit)
            if number > done:
                _write(staging, commit, members, number)
            bar.update(sum(_step_bytes(step, members) for step in commit))


def _commits(steps: Iterator[_ImportStep], members: Members) -> Iterator[list[_ImportStep]]:
    """The steps of each commit: several where they are small, as a commit costs what the dataset's description does."""
    batch: list[_ImportStep] = []
    size = 0
    for step in steps:
        more = _step_bytes(step, members)
        if batch and size + more > STEP_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(step)
        size += more
    if batch:
        yield batch


def _step_bytes(step: _ImportStep, members: Members) -> int:
    source = members.arrays[step.path]
    return max(1, step.end - step.first) * math.prod(source.shape[1:]) * int(source.dtype.itemsize)


def _write(staging: DatasetHandle, steps: list[_ImportStep], members: Members, number: int) -> None:
    with staging.transaction(f"import: step {number}") as t:
        for step in steps:
            _write_step(t[step.key], step, members.arrays[step.path])


def _write_step(array: Any, step: _ImportStep, source: Any) -> None:
    if not source.shape:
        array[()] = source.value
        return
    row_bytes = math.prod(source.shape[1:]) * source.dtype.itemsize
    if row_bytes <= STEP_BYTES:
        for rows in source.blocks(step.first, step.end - step.first):
            array[step.first : step.first + len(rows)] = _like(source, rows, step.end - step.first)
            return
    for row in range(step.first, step.end):
        for place, values in source.parts(row, STEP_BYTES):
            array[(row, *place)] = values


def _like(source: Any, rows: np.ndarray, count: int) -> np.ndarray:
    """Rows as they were declared.

    Raises
    ------
    SourceError
    """
    if rows.shape != (count, *source.shape[1:]):
        raise SourceError(f"{source.where}: gave {rows.shape} where {(count, *source.shape[1:])} was declared")
    return rows
