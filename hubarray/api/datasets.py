"""Create datasets: several arrays under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.api import registry
from hubarray.api.resolve import RootLike, checked_grace, locate
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.blobs.pack import PackWriter
from hubarray.datasets.description import checked_name, description_of, view
from hubarray.datasets.operations import changes_to_add, creation
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.history.commits.commit import create_version
from hubarray.history.log.version import version_of
from hubarray.history.records.record import Record
from hubarray.process import uptime_seconds
from hubarray.redaction import named_type
from hubarray.values.attributes import checked_attrs

if TYPE_CHECKING:
    from hubarray.handles.array import Array
    from hubarray.handles.dataset import Dataset


def dataset(
    arrays: Mapping[str, ArraySpec | Array | np.ndarray],
    name: str,
    attrs: Mapping[str, Any] | None = None,
    *,
    root: RootLike = None,
    message: str | None = None,
    grace_seconds: float | None = None,
) -> Dataset:
    """Create a dataset of several arrays under one name, or open the existing one if its specs are the same.

    Costs the same few requests for all shapes.

    Parameters
    ----------
    arrays : mapping of str to ArraySpec, Array or ndarray
        A spec makes an empty array. An array of the same root is adopted without moving data. An array in memory is
        stored. Arrays that share the name of a dimension have the same length there, and grow together.
    name : str
        ``owner/name:version``.
    attrs : mapping, optional
        JSON values, at most 64 KiB. If the dataset exists, its attributes do not change.
    root, message, grace_seconds
        Same as in :func:`hubarray.array`.

    Returns
    -------
    Dataset

    Raises
    ------
    AlreadyExistsError
        The name belongs to something else.
    InvalidNameError, ConfigError, StorageError

    Examples
    --------
    >>> import hubarray as hub
    >>> ds = hub.dataset(
    ...     {"image": hub.ArraySpec((0, 32, 32, 3), "uint8", dims=("sample", "y", "x", "c")),
    ...      "label": hub.ArraySpec(0, "int64", dims=("sample",))},
    ...     "docs/dataset:v0",
    ... )
    >>> ds.append({"image": np.zeros((5, 32, 32, 3)), "label": range(5)})
    slice(0, 5, None)
    >>> ds.dims
    {'sample': 5, 'y': 32, 'x': 32, 'c': 3}
    """
    where, parsed = locate(name, root)
    if not isinstance(arrays, Mapping):
        raise ConfigError(f"arrays: give a mapping of names to hub.ArraySpec, not {named_type(arrays)}")
    for dataset_array in arrays:
        checked_name(dataset_array)
    attributes = checked_attrs(attrs)
    version = version_of(where, parsed)
    base = version.newest()
    if base is not None and base.head.kind != "deleted":
        _check_same(base, arrays)
        return registry.handle(where, version, base)
    head = {} if grace_seconds is None else {"grace_seconds": checked_grace(grace_seconds)}
    began, packs = uptime_seconds(), PackWriter(version.store, version.name.home)
    try:
        changes = [change for key, array in arrays.items() for change in changes_to_add(version, key, array)]
        draft = creation(version, changes, attributes, packs)
    except BaseException:
        packs.abandon()
        raise
    record, ours = create_version(version, draft, base=base, message=message, began=began, **head)
    if not ours:
        packs.abandon()
        _check_same(record, arrays)
    return registry.handle(where, version, record)


def _check_same(record: Record, arrays: Mapping[str, Any]) -> None:
    registry.require(record, "dataset", "choose another version")
    members = description_of(record).arrays
    for name in [*members, *arrays]:
        spec = arrays.get(name)
        if name in members and isinstance(spec, ArraySpec) and spec.matches(metadata_of(view(record, name))):
            continue
        stored = metadata_of(view(record, name)).describe() if name in members else "no such array"
        asked = "no such array" if spec is None else "an array"
        asked = spec.metadata().describe() if isinstance(spec, ArraySpec) else asked
        raise AlreadyExistsError(
            f"{record.name.at(None)}: exists and is another dataset: for {name!r} it has {stored}; the arguments say "
            f"{asked}. Open it with hub.load, or choose another version."
        )
