"""Petastorm's ``make_reader`` and ``make_batch_reader``, with its order of options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubarray.errors import ConfigError
from hubarray.readers import factory
from hubarray.readers.reader import Reader

_BATCH_OPTIONS = (
    "schema_fields", "reader_pool_type", "workers_count", "results_queue_size", "seed", "shuffle_rows",
    "shuffle_row_groups", "shuffle_row_drop_partitions", "predicate", "rowgroup_selector", "num_epochs", "cur_shard",
    "shard_count", "shard_seed", "cache_type", "cache_location", "cache_size_limit", "cache_row_size_estimate",
    "cache_extra_settings", "hdfs_driver", "transform_spec", "filters", "storage_options", "zmq_copy_buffers",
    "filesystem", "convert_early_to_numpy",
)  # fmt: skip
_ROW_OPTIONS = (*_BATCH_OPTIONS[:3], "pyarrow_serialize", *_BATCH_OPTIONS[3:])
# Of how Petastorm's processes and cache work, which are others here.
_WITHOUT_MEANING = frozenset(
    ("pyarrow_serialize", "cache_row_size_estimate", "cache_extra_settings", "hdfs_driver", "zmq_copy_buffers",
     "convert_early_to_numpy")
)  # fmt: skip


def make_reader(dataset_url: Any, *options: Any, **named: Any) -> Reader:
    """As :func:`hubarray.make_reader`, called as Petastorm 0.13 is.

    Parameters
    ----------
    dataset_url
        Any source of :func:`hubarray.make_reader`.
    *options
        In Petastorm's order: ``schema_fields``, ``reader_pool_type``, ``workers_count``, ``pyarrow_serialize``, ...
    **named
        Petastorm's options, and ours. ``shard_seed`` is the seed, where none is given; ``pyarrow_serialize``,
        ``cache_row_size_estimate``, ``cache_extra_settings``, ``hdfs_driver``, ``zmq_copy_buffers`` and
        ``convert_early_to_numpy`` change nothing.

    Raises
    ------
    ConfigError
        ``filesystem`` was given, or more options than there are.
    """
    return factory.make_reader(dataset_url, **_translated(_ROW_OPTIONS, options, named))


def make_batch_reader(dataset_url_or_urls: Any, *options: Any, **named: Any) -> Reader:
    """As :func:`hubarray.make_batch_reader`, called as Petastorm 0.13 is.

    Parameters
    ----------
    dataset_url_or_urls
        Any source of :func:`hubarray.make_batch_reader`.
    *options, **named
        Same as in :func:`make_reader`, without ``pyarrow_serialize``.
    """
    return factory.make_batch_reader(dataset_url_or_urls, **_translated(_BATCH_OPTIONS, options, named))


def refuse_filesystem(given: Any, name: str) -> None:
    """Refuse a client of pyarrow's.

    Raises
    ------
    ConfigError
    """
    if given is not None:
        raise ConfigError(f"{name}=: give a URL, whose client is made by fsspec, with storage_options=")


def _translated(order: Sequence[str], options: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    if len(options) > len(order):
        raise ConfigError(f"{len(options) + 1} arguments in a row, and Petastorm has {len(order) + 1}")
    given = dict(zip(order, options, strict=False))
    twice = sorted(given.keys() & named.keys())
    if twice:
        raise ConfigError(f"{twice[0]}= is given twice: in a row and by its name")
    given |= named
    refuse_filesystem(given.pop("filesystem", None), "filesystem")
    seed = given.pop("shard_seed", None)
    if given.get("seed") is None and seed is not None:
        given["seed"] = seed
    return {name: value for name, value in given.items() if name not in _WITHOUT_MEANING}
