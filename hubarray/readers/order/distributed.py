"""Return the shard of this process and the number of shards, from the arguments or from the launcher."""

from __future__ import annotations

import os
import sys
from typing import Any

from hubarray.errors import ConfigError

# torchrun's, Horovod's, Open MPI's, and MPICH's and Intel MPI's.
_ENVIRONMENT = (
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
MAX_WORLD = 1 << 15


def place_in_the_world(cur_shard: Any, shard_count: Any) -> tuple[int, int]:
    """A rank, and the size of its world.

    Raises
    ------
    ConfigError
        Only one of them is given, they do not fit, or ``"auto"`` finds nobody to ask.
    """
    if cur_shard == "auto":
        if shard_count is not None:
            raise ConfigError("cur_shard='auto' finds shard_count too; leave it out")
        return _rank_and_world_size()
    if cur_shard is None and shard_count is None:
        return 0, 1
    if cur_shard is None or shard_count is None:
        raise ConfigError("cur_shard and shard_count are given together, or neither")
    for name, value in (("cur_shard", cur_shard), ("shard_count", shard_count)):
        if not hasattr(value, "__index__") or isinstance(value, bool):
            raise ConfigError(f"{name}={value!r}: give a whole number")
    if not 0 <= cur_shard < shard_count <= MAX_WORLD:
        raise ConfigError(f"cur_shard={cur_shard} of shard_count={shard_count}: shards count from 0 to shard_count - 1")
    return int(cur_shard), int(shard_count)


def _rank_and_world_size() -> tuple[int, int]:
    torch = sys.modules.get("torch")
    if torch is not None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    for rank, world in _ENVIRONMENT:
        rank_and_world = os.environ.get(rank), os.environ.get(world)
        if rank_and_world[0] is None or rank_and_world[1] is None:
            continue
        try:
            return place_in_the_world(int(rank_and_world[0]), int(rank_and_world[1]))
        except ValueError:
            raise ConfigError(
                f"cur_shard='auto': {rank}={rank_and_world[0]!r} and {world}={rank_and_world[1]!r} are "
                "not a valid shard"
            ) from None
    raise ConfigError(
        "cur_shard='auto': none of torch.distributed, Horovod and MPI reports a rank; give cur_shard and shard_count"
    )
