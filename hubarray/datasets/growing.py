"""Growing the arrays of a dataset together: which of them, and whether what is appended fits. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hubarray.datasets.description import Description
from hubarray.errors import ConfigError, NotFoundError


def checked_mapping(rows: Any) -> list[str]:
    """The names of the arrays that rows are given for.

    Raises
    ------
    ConfigError
    """
    if not isinstance(rows, Mapping):
        raise ConfigError(f"append takes a mapping of arrays to rows, not a {type(rows).__name__}")
    return list(rows)


def check_append(description: Description, given: Collection[str]) -> str | None:
    """The dimension along which some arrays grow, which all arrays that begin with it have to.

    Returns
    -------
    str or None
        None of one array alone whose first axis has no name.

    Raises
    ------
    ConfigError, NotFoundError
    """
    if not given:
        raise ConfigError("append: give rows for one array at least")
    firsts: dict[str, str | None] = {}
    for name in given:
        if name not in description.arrays:
            raise NotFoundError(f"append: the dataset has no array {name!r}; it has {', '.join(description.arrays)}")
        lengths = description.arrays[name].lengths
        if not lengths:
            raise ConfigError(f"append: {name!r} has no axis to grow along")
        firsts[name] = lengths[0][0]
    dims = set(firsts.values())
    if len(dims) > 1:
        shown = ", ".join(f"{name!r} by {dim!r}" for name, dim in firsts.items())
        raise ConfigError(f"append: these arrays begin with different dimensions: {shown}; append to each by itself")
    (dim,) = dims
    if dim is None:
        if len(given) > 1:
            raise ConfigError(
                f"append: the first axes of {', '.join(map(repr, given))} have no name, so nothing says that they "
                "belong together; name them: dataset['...'].dims = ('sample', ...)"
            )
        return None
    lacking = [name for name in along(description, dim) if name not in given]
    if lacking:
        raise ConfigError(
            f"append: {', '.join(map(repr, lacking))} grow along {dim!r} too, and nothing is given for them"
        )
    return dim


def samples(description: Description) -> list[str]:
    """The arrays whose first axis is the dimension that all named ones begin with; of none named, all with an axis.

    Raises
    ------
    ConfigError
        They begin with several, so that nothing says which of them are samples.
    """
    firsts = {name: one.lengths[0][0] for name, one in description.arrays.items() if one.lengths}
    dims = {dim for dim in firsts.values() if dim is not None}
    if len(dims) > 1 or not firsts:
        raise ConfigError(
            f"its arrays begin with the dimensions {', '.join(sorted(dims)) or 'of nothing'}, so nothing says which of "
            "them are samples; name the arrays"
        )
    return [name for name, dim in firsts.items() if not dims or dim in dims]


def along(description: Description, dim: str) -> list[str]:
    """The arrays whose first axis is a dimension."""
    return [name for name, one in description.arrays.items() if one.lengths and one.lengths[0][0] == dim]


def check_rows(rows: Mapping[str, Any]) -> int:
    """How many rows are appended to each array.

    Raises
    ------
    ConfigError
        They differ.
    """
    counts = {name: len(values) for name, values in rows.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count:,} for {name!r}" for name, count in counts.items())
        raise ConfigError(f"append: there have to be as many rows for each array, not {shown}")
    return next(iter(counts.values()))


def resized(description: Description, lengths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that change when dimensions get other lengths.

    Raises
    ------
    ConfigError
        No array has the dimension.
    """
    there = description.dimensions()
    for dim in lengths:
        if dim not in there:
            raise ConfigError(f"resize: no array has a dimension {dim!r}; there are {', '.join(there) or 'none'}")
    found = {}
    for dim, length in lengths.items():
        if isinstance(length, bool):
            raise ConfigError(f"resize: {dim}={length} is no length")
    for name, one in description.arrays.items():
        shape = tuple(lengths.get(dim, length) if dim else length for dim, length in one.lengths)
        if shape != tuple(length for _, length in one.lengths):
            found[name] = shape
    return found
