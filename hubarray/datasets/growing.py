"""Growing the arrays of a dataset together: which of them, and whether what is appended fits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.write.assignment import rows_that_fit
from hubarray.datasets.description import SHOWN_NAMES, Description, names_there
from hubarray.errors import ConfigError, NotFoundError
from hubarray.redaction import named_type


def checked_mapping(rows: Any) -> list[str]:
    """The names of the arrays that rows are given for.

    Raises
    ------
    ConfigError
    """
    if hasattr(rows, "data_vars"):
        raise ConfigError(
            "append: xarray appends its datasets, with dates and packed values encoded as those that are there: "
            "with dataset.transaction() as t: given.to_zarr(dataset.to_zarr_store(transaction=t), append_dim=...)"
        )
    if not isinstance(rows, Mapping):
        raise ConfigError(f"append takes a mapping of arrays to rows, not {named_type(rows)}")
    return list(rows)


def append_axes(description: Description, names: Collection[str], dim: str | None = None) -> dict[str, int]:
    """The axis along which each of some arrays grows, which all arrays that have its dimension have to.

    Parameters
    ----------
    description : Description
    names : collection of str
        The arrays that rows are given for.
    dim : str, optional
        The dimension that grows; by default the one that the arrays have and one of them begins with.

    Raises
    ------
    ConfigError, NotFoundError
    """
    if not names:
        raise ConfigError("append: give rows for one array at least")
    dims: dict[str, list[str | None]] = {}
    for name in names:
        if name not in description.arrays:
            raise NotFoundError(f"append: the dataset has no array {name!r}; {names_there(description)}")
        dims[name] = [own_dim for own_dim, _ in description.arrays[name].lengths]
        if not dims[name]:
            raise ConfigError(f"append: {name!r} has no axis to grow along")
    if dim is None:
        dim = _shared_dim(dims)
        if dim is None:
            return dict.fromkeys(dims, 0)
    lacking = [name for name in having(description, dim) if name not in dims]
    if lacking:
        shown = ", ".join(map(repr, lacking[:SHOWN_NAMES]))
        more = f" and {len(lacking) - SHOWN_NAMES:,} more" if len(lacking) > SHOWN_NAMES else ""
        grow, them = ("grows", "it") if len(lacking) == 1 else ("grow", "them")
        raise ConfigError(f"append: {shown}{more} {grow} along {dim!r} too, and nothing is given for {them}")
    for name, its in dims.items():
        if dim not in its:
            dims_text = ", ".join(map(repr, its))
            raise ConfigError(f"append: {name!r} does not grow along {dim!r}: it has the dimensions {dims_text}")
    return {name: its.index(dim) for name, its in dims.items()}


def _shared_dim(dims: Mapping[str, Sequence[str | None]]) -> str | None:
    """The dimension that arrays have in common and one of them begins with; None of one whose first axis has no name.

    Raises
    ------
    ConfigError
    """
    firsts = [its[0] for its in dims.values()]
    having_it = Counter(dim for its in dims.values() for dim in set(its))
    candidates = {dim for dim in firsts if dim is not None and having_it[dim] == len(dims)}
    if len(candidates) == 1:
        return candidates.pop()
    if candidates:
        raise ConfigError(
            f"append: these arrays share {', '.join(sorted(candidates))}: choose the one that grows with dim="
        )
    if set(firsts) == {None}:
        if len(dims) == 1:
            return None
        raise ConfigError(
            f"append: the first axes of {', '.join(map(repr, dims))} have no name, so they may not belong together; "
            "name them: dataset['...'].dims = ('sample', ...)"
        )
    shown = ", ".join(f"{name!r} by {its[0]!r}" for name, its in dims.items())
    raise ConfigError(f"append: these arrays begin with different dimensions: {shown}; append to each by itself")


def samples(description: Description) -> list[str]:
    """The arrays whose first axis is the dimension that all named ones begin with; of none named, all with an axis.

    Raises
    ------
    ConfigError
        They begin with several, so that nothing says which of them are samples.
    """
    firsts = {name: entry.lengths[0][0] for name, entry in description.arrays.items() if entry.lengths}
    dims = {dim for dim in firsts.values() if dim is not None}
    if len(dims) > 1 or not firsts:
        raise ConfigError(
            f"its arrays begin with the dimensions {', '.join(sorted(dims)) or 'of nothing'}, so it is unclear which "
            "of them are samples; name the arrays"
        )
    return [name for name, dim in firsts.items() if not dims or dim in dims]


def having(description: Description, dim: str) -> list[str]:
    """The arrays that have a dimension, on whichever axis."""
    return [name for name, entry in description.arrays.items() if dim in (its for its, _ in entry.lengths)]


def fitting(
    rows: Mapping[str, Any],
    metadata: Mapping[str, ArrayMetadata],
    attrs: Mapping[str, Mapping[str, Any]],
    axes: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """The rows for each array, of its dtype; errors say which array they are about.

    Raises
    ------
    ValueError, TypeError, OverflowError
    """
    checked = {}
    for name, axis in axes.items():
        with about(name):
            checked[name] = rows_that_fit(rows[name], metadata[name], attrs[name], axis)
    return checked


@contextmanager
def about(name: str) -> Iterator[None]:
    """Errors about what is given for an array say which one."""
    try:
        yield
    except (ConfigError, ValueError, TypeError, OverflowError) as error:
        if type(error) not in (ConfigError, ValueError, TypeError, OverflowError):
            raise
        raise type(error)(f"{name!r}: {error.args[0] if error.args else error}") from None


def check_rows(rows: Mapping[str, Any], axes: Mapping[str, int]) -> int:
    """How many rows are appended to each array.

    Raises
    ------
    ConfigError
        They differ.
    """
    counts = {name: values.shape[axes[name]] for name, values in rows.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count:,} for {name!r}" for name, count in counts.items())
        raise ConfigError(f"append: each array needs the same number of rows, not {shown}")
    row_count: int = next(iter(counts.values()))
    return row_count


def resized(description: Description, lengths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that change when dimensions get other lengths.

    Raises
    ------
    ConfigError
        No array has the dimension.
    """
    dimensions = description.dimensions()
    for dim in lengths:
        if dim not in dimensions:
            raise ConfigError(f"resize: no array has a dimension {dim!r}; there are {', '.join(dimensions) or 'none'}")
    checked_rows = {}
    for dim, length in lengths.items():
        if isinstance(length, bool):
            raise ConfigError(f"resize: {dim}={length} is not a length")
    for name, entry in description.arrays.items():
        shape = tuple(lengths.get(dim, length) if dim else length for dim, length in entry.lengths)
        if shape != tuple(length for _, length in entry.lengths):
            checked_rows[name] = shape
    return checked_rows
