"""PyTorch datasets over arrays: by index, or as a stream that is shuffled, split and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

from hubarray.arrays.array import Array
from hubarray.arrays.dtypes import is_ml
from hubarray.errors import ConfigError
from hubarray.readers.columns import check_options, columns, row_bytes
from hubarray.readers.groups import RowReader, in_groups
from hubarray.readers.sampler import Plan, dealt, plan

Transform = Callable[[Any], Any]


def to_pytorch(
    array: Array,
    others: Sequence[Array] = (),
    *,
    transform: Transform | None = None,
    iterable: bool = False,
    batch_size: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    drop_last: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    buffer_bytes: int = 64 << 20,
    rows: Any = None,
) -> Rows | Stream:
    """See :meth:`hubarray.Array.to_pytorch`."""
    together = Columns([array, *others], transform, rows)
    if not iterable:
        if (batch_size, shuffle, seed, drop_last, rank, world_size) != (None, None, None, False, None, None):
            raise ConfigError("batch_size, shuffle, seed, drop_last, rank and world_size are for iterable=True; "
                              "give them to DataLoader")  # fmt: skip
        return Rows(together)
    check_options(batch_size, seed, buffer_bytes)
    if rank is None and world_size is None:
        rank, world_size = _place_in_the_world()
    if rank is None or world_size is None:
        raise ConfigError("give rank and world_size together, or neither")
    return Stream(together, batch_size, shuffle is not False, seed, drop_last, rank, world_size, buffer_bytes)


def _place_in_the_world() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class Columns:
    """Arrays of equal length, read together; each stays at the commit it had."""

    def __init__(self, arrays: Sequence[Array], transform: Transform | None, rows: Any) -> None:
        self.arrays = columns(arrays, rows)
        self.row_bytes = row_bytes(self.arrays)
        self.transform = transform
        if transform is None:
            for one in self.arrays:
                _check_dtype(one)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __repr__(self) -> str:
        names = ", ".join(f"{one.name}:{one.version}@{one.commit}" for one in self.arrays)
        return f"{names}: {len(self):,} rows"

    def read(self, rows: Any) -> list[np.ndarray]:
        """The rows of every array: one parallel fetch each."""
        return [one[rows] for one in self.arrays]

    def sample(self, parts: Sequence[Any]) -> Any:
        """One sample, transformed and as tensors."""
        value = parts[0] if len(self.arrays) == 1 else tuple(parts)
        return tensors(value if self.transform is None else self.transform(value))


def _check_dtype(array: Array) -> None:
    try:
        _tensor(np.zeros(0, array.dtype))
    except TypeError:
        raise ConfigError(
            f"{array.name}:{array.version}: PyTorch has no tensors of dtype {array.dtype}; pass transform= to convert "
            "each sample, say to float32 or int64"
        ) from None


def _tensor(value: np.ndarray) -> torch.Tensor:
    """A tensor that shares memory with an array, but where PyTorch could not: it has no negative strides."""
    if any(stride < 0 for stride in value.strides):
        value = value.copy()
    if is_ml(value.dtype) and hasattr(torch, value.dtype.name):
        bits = value.view(np.int16 if value.dtype.itemsize == 2 else np.uint8)
        return torch.from_numpy(bits).view(getattr(torch, value.dtype.name))
    return torch.from_numpy(value)


def tensors(value: Any) -> Any:
    """NumPy arrays and numbers as tensors that share their memory, within tuples, lists and dictionaries too."""
    if isinstance(value, (np.ndarray, np.generic)):
        return _tensor(np.asarray(value))
    if isinstance(value, dict):
        return {key: tensors(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(tensors(one) for one in value)
    return value


class Samples(list[Any]):
    """Samples of one batch, that know the batch they are views of."""

    batch: Any = None


class Rows(Dataset[Any]):
    """Samples by index: ``dataset[7]``, and a whole batch in one parallel fetch.

    ``DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=dataset.collate)`` gets each batch as it was
    read; torch's own collating copies it once more.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<hubarray Rows of {self._columns!r}>"

    def __getitem__(self, index: int) -> Any:
        return self._columns.sample(self._columns.read(index))

    def __getitems__(self, indices: list[int]) -> Samples:
        """The samples of a batch; DataLoader asks for them so."""
        parts = self._columns.read(np.asarray(indices, np.intp))
        samples = Samples(self._columns.sample(one) for one in zip(*parts, strict=True))
        if self._columns.transform is None:
            samples.batch = tensors(parts[0] if len(parts) == 1 else tuple(parts))
        return samples

    @staticmethod
    def collate(samples: list[Any]) -> Any:
        """A batch as it was read, where nothing was transformed; else :func:`torch.utils.data.default_collate`."""
        batch = getattr(samples, "batch", None)
        return default_collate(samples) if batch is None else batch


class Stream(IterableDataset[Any]):
    """Samples, or batches, in an order of their own for each epoch, rank and worker; groups are read ahead.

    Iterate it, or its :meth:`loader`, which counts epochs and can be resumed. For a plain
    ``DataLoader(stream, batch_size=None, num_workers=...)`` call :meth:`set_epoch` before each epoch, as for
    torch's DistributedSampler; without a seed, and in one rank, the order differs by itself.
    """

    def __init__(
        self,
        columns: Columns,
        batch_size: int | None,
        shuffle: bool,
        seed: int | None,
        drop_last: bool,
        rank: int,
        world_size: int,
        buffer_bytes: int,
    ) -> None:
        self._columns = columns
        self._item_rows = batch_size or 1
        self._batched = batch_size is not None
        self._drop_last = drop_last
        self._own_order = seed is None and world_size == 1
        if self._own_order:
            # Another order in each process; ranks have to agree, so theirs is always the same.
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
        try:
            self._plan = plan(
                len(columns), columns.row_bytes, columns.arrays[0].chunks[0], batch_rows=self._item_rows,
                shuffle=shuffle, seed=seed or 0, rank=rank, world_size=world_size, buffer_bytes=buffer_bytes,
            )  # fmt: skip
        except ValueError as error:
            raise ConfigError(str(error)) from None
        fits = columns.row_bytes * len(columns) <= buffer_bytes
        self._reader = RowReader(columns.arrays, shuffle and fits)
        # Epoch, items of it that were taken, how often these were set, and the seed; shared, so that workers see it.
        self._position = torch.tensor([0, 0, 0, self._plan.seed], dtype=torch.int64).share_memory_()
        self._seen_change, self._passes = 0, 0

    @property
    def epoch(self) -> int:
        """The epoch that was set last."""
        return int(self._position[0])

    def set_epoch(self, epoch: int, *, start: int = 0) -> None:
        """Choose the epoch of the next iteration; those after it count on.

        Parameters
        ----------
        epoch : int
        start : int
            Items (batches; samples where ``batch_size`` is None) that were taken already and are skipped
            without being read. A DataLoader has to have as many workers as it had.
        """
        if epoch < 0 or start < 0:
            raise ConfigError(f"epoch {epoch}, start {start}: neither can be negative")
        self._position[0], self._position[1] = epoch, start
        self._position[2] += 1

    def identity(self) -> dict[str, Any]:
        """The facts that make a position in one stream mean the same in another; the seed is not among them."""
        arrays = [[one.name, one.version, one.commit] for one in self._columns.arrays]
        plan = self._plan
        return {
            "arrays": arrays,
            "batch_size": self._item_rows if self._batched else None,
            "drop_last": self._drop_last,
            "rank": plan.rank,
            "world_size": plan.world_size,
            "rows": [plan.rows, plan.unit_rows, plan.group_rows, plan.shuffle],
        }

    @property
    def seed(self) -> int:
        """The seed of its order, given or chosen."""
        return int(self._position[3])

    def take_seed(self, seed: int) -> None:
        """Go on in the order of another stream.

        Raises
        ------
        ConfigError
            This one was given a seed of its own.
        """
        if not self._own_order and seed != self.seed:
            raise ConfigError(f"the state is of an order with seed {seed}, and this stream was made with {self.seed}")
        self._position[3] = seed

    def loader(self, **options: Any) -> StreamLoader:
        """A DataLoader of this stream that counts epochs; takes DataLoader's options, such as ``num_workers``."""
        return StreamLoader(self, **options)

    def __len__(self) -> int:
        """Items that this rank gets in an epoch, all its workers together."""
        rows = self._plan.rank_rows
        return rows // self._item_rows if self._drop_last else -(-rows // self._item_rows)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        change = int(self._position[2])
        if change != self._seen_change:
            self._seen_change, self._passes = change, 0
        epoch = self.epoch + self._passes
        start = int(self._position[1]) if self._passes == 0 else 0
        self._passes += 1
        order = replace(self._plan, seed=self.seed)
        if self._own_order and info is not None and change == 0:
            # Alike in all workers of a DataLoader's epoch, and another one in the next.
            order = replace(order, seed=(info.seed - info.id) % (1 << 63))
        given, turn = dealt([self._worker_items(one, workers) for one in range(workers)], start)
        # A DataLoader begins with its first worker, which therefore takes the part of the one whose turn it is.
        worker = (worker + turn) % workers
        return self._items(order, epoch, worker, workers, given[worker])

    def _worker_items(self, worker: int, workers: int) -> int:
        lengths = self._plan.group_lengths(worker, workers)
        return sum(n // self._item_rows if self._drop_last else -(-n // self._item_rows) for n in lengths)

    def _items(self, order: Plan, epoch: int, worker: int, workers: int, skip: int) -> Iterator[Any]:
        for group in in_groups(self._reader, order.groups(epoch, worker, workers)):
            for first in range(0, len(group.rows), self._item_rows):
                last = min(first + self._item_rows, len(group.rows))
                if self._drop_last and last - first < self._item_rows:
                    continue
                if skip:
                    skip -= 1
                    continue
                parts = group.parts()
                if self._batched:
                    yield self._batch([part[first:last] for part in parts])
                else:
                    yield self._columns.sample([part[first] for part in parts])

    def _batch(self, parts: list[np.ndarray]) -> Any:
        if self._columns.transform is None:
            return tensors(parts[0] if len(parts) == 1 else tuple(parts))
        return default_collate([self._columns.sample(one) for one in zip(*parts, strict=True)])


class StreamLoader(DataLoader[Any]):
    """A DataLoader of a stream: each pass is the next epoch, and it can be taken up where it was left.

    ``state_dict()`` says how many items the loop has taken; ``load_state_dict`` makes the next pass begin there,
    in the same order, with as many workers as there were.
    """

    def __init__(self, stream: Stream, **options: Any) -> None:
        for taken in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if taken in options:
                raise ConfigError(f"{taken}= belongs to to_pytorch(iterable=True), which makes the batches")
        super().__init__(stream, batch_size=None, **options)
        self._stream = stream
        self._epoch, self._taken = 0, 0
        self._next = (0, 0)

    def __iter__(self) -> Any:
        epoch, start = self._next
        # The pass after this one is another epoch, also if this one is broken off.
        self._next = (epoch + 1, 0)
        self._epoch, self._taken = epoch, start
        self._stream.set_epoch(epoch, start=start)
        return self._counted(super().__iter__(), epoch)

    def _counted(self, items: Any, epoch: int) -> Iterator[Any]:
        for item in items:
            if self._epoch == epoch:
                self._taken += 1
            yield item
        if self._epoch == epoch:
            self._epoch, self._taken = epoch + 1, 0

    def __len__(self) -> int:
        return len(self._stream)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is, and of which stream: JSON."""
        place = {"epoch": self._epoch, "taken": self._taken, "num_workers": self.num_workers}
        return place | {"seed": self._stream.seed, "stream": self._stream.identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass begin where a state was taken.

        Raises
        ------
        ConfigError
            It was another stream: of other commits, batches, ranks or seed, or with more or fewer workers.
        """
        try:
            epoch, taken, workers = int(state["epoch"]), int(state["taken"]), int(state["num_workers"])
            seed, theirs = int(state["seed"]), dict(state["stream"])
        except (KeyError, TypeError, ValueError):
            raise ConfigError("not a state that a loader of a stream gave") from None
        if epoch < 0 or taken < 0:
            raise ConfigError(f"not a state that a loader of a stream gave: epoch {epoch}, taken {taken}")
        if max(1, workers) != max(1, self.num_workers):
            raise ConfigError(
                f"the state is of a loader with num_workers={workers}, this one has {self.num_workers}: "
                "rows would be read twice or not at all; use as many"
            )
        ours = self._stream.identity()
        different = [key for key in ours if theirs.get(key) != ours[key]]
        if different:
            told = "; ".join(f"{key} was {theirs.get(key)} and is {ours[key]}" for key in different)
            raise ConfigError(f"the state is of another stream: {told}. Load name@number to read the commits it had")
        self._stream.take_seed(seed)
        self._next = self._epoch, self._taken = epoch, taken
