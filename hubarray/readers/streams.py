"""Loops of streams: what `to_pytorch(iterable=True)` and `to_tensorflow` take, checked, and as a loop."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable

from hubarray.errors import ConfigError
from hubarray.readers.array_columns import check_options
from hubarray.readers.fields.source import Source
from hubarray.readers.order.cursor import EpochCursor, uniform_units
from hubarray.readers.order.permutation import chosen_seed
from hubarray.readers.order.planning import GOOD_POOL_UNITS, REQUEST_BYTES, is_kept, sizes


def loop_of(
    source: Source,
    *,
    batch_size: int | None = None,
    global_batch_size: int | None = None,
    shuffle: bool,
    seed: int | None = None,
    drop_last: bool = False,
    rank: int,
    world_size: int,
    intervals: int | None = None,
    shard_balance: str | None = None,
    buffer_bytes: int | None = None,
) -> EpochCursor:
    """A loop over batches, of options as :meth:`hubarray.Array.to_pytorch` takes them.

    Raises
    ------
    ConfigError, NoDataAvailableError
    """
    check_options(batch_size, seed, 1 if buffer_bytes is None else buffer_bytes)
    if global_batch_size is not None:
        if batch_size is not None:
            raise ConfigError("give batch_size, of one rank, or global_batch_size, of all together")
        check_options(global_batch_size, seed, 1)
        if global_batch_size % world_size:
            lower = global_batch_size // world_size * world_size
            fitting = f"{lower} or {lower + world_size}" if lower else f"{world_size}"
            raise ConfigError(f"global_batch_size={global_batch_size} of {world_size} ranks: {fitting} would fit")
        batch_size = global_batch_size // world_size
    count = world_size if intervals is None else intervals
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or count % world_size:
        raise ConfigError(
            f"intervals={intervals!r}: give a multiple of the {world_size} ranks, best of every number of ranks that "
            "is to see the same batches, such as 48 for 4, 8 and 16"
        )
    mode = shard_balance or ("exact" if world_size == 1 and not drop_last else "drop")
    if mode not in ("exact", "drop", "pad"):
        raise ConfigError(f"shard_balance={shard_balance!r}: give 'exact', 'drop' or 'pad'")
    if drop_last and mode != "drop":
        raise ConfigError(f"drop_last=True leaves rows out, but shard_balance={mode!r} does not; give only one of them")
    loop_sizes = sizes(
        source.rows, source.row_bytes, source.chunk_rows, intervals=count, world_size=world_size, shuffle=shuffle,
        buffer_bytes=buffer_bytes, keeps=hasattr(source, "keep"),
    )  # fmt: skip
    unit_bytes = loop_sizes.unit_rows * source.row_bytes
    if (
        shuffle
        and loop_sizes.open_units < GOOD_POOL_UNITS
        and unit_bytes > REQUEST_BYTES
        and loop_sizes.open_units < source.rows
    ):
        enough = int(GOOD_POOL_UNITS * unit_bytes)
        warnings.warn(
            f"{source.where}: about {loop_sizes.open_units} chunks of {unit_bytes / 1e6:,.0f} MB are mixed at a time, "
            f"which is poor for data that is sorted; buffer_bytes={enough:,} mixes {GOOD_POOL_UNITS}",
            stacklevel=4,
        )
    own_seed = seed is None and world_size == 1
    return EpochCursor(
        source.identity(), source.where, bounds=uniform_units(source.rows, loop_sizes.unit_rows),
        unit_rows=loop_sizes.unit_rows, group_rows=loop_sizes.group_rows, mode=mode,
        seed=chosen_seed() if own_seed else seed or 0, own_seed=own_seed,
        own_mode=shard_balance is None and not drop_last, shuffle_units=shuffle, shuffle_rows=shuffle, rank=rank,
        world_size=world_size, step_rows=(batch_size or 1) * world_size, intervals=count,
    )  # fmt: skip


def keep_if_small(source: Source, loop: EpochCursor, *, shuffle: bool, buffer_bytes: int | None) -> None:
    """Have a source of arrays that fit the buffer read once, and remember memory for every run that is open."""
    if hasattr(source, "keep"):
        source.keep = shuffle and is_kept(source.rows, source.row_bytes, buffer_bytes)
    if hasattr(source, "buffers"):
        source.buffers += loop.state.cuts[0].intervals // loop.world_size - 1


_OPTIONS = tuple(name for name in inspect.signature(loop_of).parameters if name != "source")


def require_known(method: str, options: Iterable[str]) -> None:
    """Refuse options that streams do not have.

    Raises
    ------
    TypeError
    """
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"{method} has no option {name!r}; there are {', '.join(_OPTIONS)}")
