"""Names of dimensions that arrays of several groups can have in one dataset. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Dims = tuple[str | None, ...]


def agreeing(arrays: Mapping[str, tuple[Dims | None, tuple[int, ...]]]) -> tuple[dict[str, Dims | None], list[str]]:
    """The names that axes can have, so that all of one name are as long, and each array has a name once.

    A group has dimensions of its own: of those that differ in length between groups, the ones below the root are named
    after their group, ``a.time``. Where that does not help, the axis has no name.

    Parameters
    ----------
    arrays : mapping of str to (names, shape)
        By path.

    Returns
    -------
    (names, unnamed)
        The names by path, and the arrays of which an axis lost its name.

    Examples
    --------
    >>> agreeing({"a/v": (("time",), (3,)), "b/v": (("time",), (5,)), "cov": (("x", "x"), (2, 2))})
    ({'a/v': ('a.time',), 'b/v': ('b.time',), 'cov': ('x', None)}, ['cov'])
    """
    once = {path: _once(dims) for path, (dims, _) in arrays.items()}
    lengths = {path: shape for path, (_, shape) in arrays.items()}
    differ = _differing(once, lengths)
    local = {path: _of_group(path, dims, differ) for path, dims in once.items()}
    left = _differing(local, lengths)
    dims_by_path = {
        path: None if dims is None else tuple(None if dim in left else dim for dim in dims)
        for path, dims in local.items()
    }
    unnamed = [
        path for path, (dims, _) in arrays.items() if (dims_by_path[path] or ()).count(None) > (dims or ()).count(None)
    ]
    return dims_by_path, unnamed


def _once(dims: Dims | None) -> Dims | None:
    return None if dims is None else tuple(None if dim in dims[:i] else dim for i, dim in enumerate(dims))


def _differing(names: Mapping[str, Dims | None], shapes: Mapping[str, tuple[int, ...]]) -> set[str | None]:
    """The names that stand for several lengths."""
    known_lengths: dict[str, set[int]] = {}
    for path, dims in names.items():
        for dim, length in zip(dims or (), shapes[path], strict=dims is not None):
            if dim is not None:
                known_lengths.setdefault(dim, set()).add(length)
    return {dim for dim, lengths in known_lengths.items() if len(lengths) > 1}


def _of_group(path: str, dims: Dims | None, differ: set[str | None]) -> Dims | None:
    group = path.strip("/").rpartition("/")[0].replace("/", ".")
    if dims is None or not group:
        return dims
    return tuple(f"{group}.{dim}" if dim in differ else dim for dim in dims)
