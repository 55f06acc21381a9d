"""The options of readers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray import config
from hubarray.errors import ConfigError
from hubarray.readers.fields.predicates import PredicateBase
from hubarray.readers.fields.transform import TransformSpec

MAX_DROP_PARTITIONS = 1 << 16
_MODES = ("exact", "drop", "pad")
_RAGGED = ("list", "pad", "nested")


@dataclass(frozen=True)
class Cache:
    """Where row groups are kept on this machine, and how many bytes of them."""

    folder: str
    budget_bytes: int


@dataclass(frozen=True)
class ReaderOptions:
    """Options of :func:`hubarray.make_reader`, which documents them."""

    schema_fields: Any = None
    reader_pool_type: str = "thread"
    workers_count: int | None = None
    results_queue_size: int = 16
    seed: int | None = None
    shuffle_rows: bool = False
    shuffle_row_groups: bool = True
    shuffle_row_drop_partitions: int = 1
    predicate: PredicateBase | None = None
    rowgroup_selector: Any = None
    num_epochs: int | None = 1
    cur_shard: int | str | None = None
    shard_count: int | None = None
    shard_balance: str | None = None
    cache_type: str = "null"
    cache_location: str | os.PathLike[str] | None = None
    cache_size_limit: int | None = None
    transform_spec: TransformSpec | None = None
    filters: Any = None
    ragged: str = "list"
    on_error: str = "raise"
    storage_options: Mapping[str, Any] | None = None
    root: Any = None
    max_decoded_bytes: int | None = None

    def check(self) -> None:
        """Raise ConfigError if an option makes no sense by itself."""

        def refuse(name: str, reason: str) -> None:
            raise ConfigError(f"{name}={getattr(self, name)!r}: {reason}")

        def whole(name: str, minimum: int, maximum: int) -> None:
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not minimum <= value <= maximum:
                refuse(name, f"give a whole number from {minimum} to {maximum:,}")

        if self.seed is not None:
            whole("seed", 0, (1 << 62) - 1)
        if self.num_epochs is not None:
            whole("num_epochs", 1, 1 << 40)
        whole("results_queue_size", 1, 1 << 20)
        if self.workers_count is not None:
            whole("workers_count", 1, 1 << 12)
        for name in ("shuffle_rows", "shuffle_row_groups"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                refuse(name, "give True or False")
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            refuse("storage_options", "give a mapping")
        whole("shuffle_row_drop_partitions", 1, MAX_DROP_PARTITIONS)
        if self.shard_balance not in (None, *_MODES):
            refuse("shard_balance", f"give one of {', '.join(map(repr, _MODES))}")
        if self.ragged not in _RAGGED:
            refuse("ragged", f"give one of {', '.join(map(repr, _RAGGED))}")
        if self.on_error not in ("raise", "skip"):
            refuse("on_error", "give 'raise' or 'skip'")
        if self.cache_type not in ("null", "local-disk"):
            refuse("cache_type", "give 'null' or 'local-disk'")
        if self.transform_spec is not None and not isinstance(self.transform_spec, TransformSpec):
            refuse("transform_spec", "give a hub.TransformSpec")

    def cache(self) -> Cache | None:
        """Where row groups are kept; None if they are not.

        Raises
        ------
        ConfigError
        """
        if self.cache_type == "null":
            return None
        settings = config.current()
        folder = self.cache_location or os.path.join(settings.cache_dir, "readers")
        limit = 10 << 30 if self.cache_size_limit is None else self.cache_size_limit
        if not isinstance(limit, int) or limit < 1:
            raise ConfigError(f"cache_size_limit={limit!r}: give a number of bytes above 0")
        place = os.fsdecode(folder)
        try:
            readable = "\0" not in place and bool(place.encode())
        except UnicodeEncodeError:
            readable = False
        if not readable:
            raise ConfigError(f"cache_location={place!r}: is not the name of a folder"[:200])
        return Cache(place, limit)
