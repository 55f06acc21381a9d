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


def refuse_filesystem(filesystem: Any, name: str) -> None:
    """Refuse a client of pyarrow's.

    Raises
    ------
    ConfigError
    """
    if filesystem is not None:
        raise ConfigError(f"{name}=: give a URL, whose client is made by fsspec, with storage_options=")


def _translated(order: Sequence[str], options: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    if len(options) > len(order):
        raise ConfigError(f"{len(options) + 1} arguments in a row, and Petastorm has {len(order) + 1}")
    options_by_name = dict(zip(order, options, strict=False))
    twice = sorted(options_by_name.keys() & named.keys())
    if twice:
        raise ConfigError(f"{twice[0]}= is given twice: in a row and by its name")
    options_by_name |= named
    refuse_filesystem(options_by_name.pop("filesystem", None), "filesystem")
    seed = options_by_name.pop("shard_seed", None)
    if options_by_name.get("seed") is None and seed is not None:
        options_by_name["seed"] = seed
    return {name: value for name, value in options_by_name.items() if name not in _WITHOUT_MEANING}
