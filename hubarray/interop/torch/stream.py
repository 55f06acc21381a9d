"""Streams of epochs for PyTorch: batches in an order of their own, for any number of ranks and workers."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from hubarray.errors import ConfigError
from hubarray.interop.torch.items import Items, items_of
from hubarray.interop.torch.tensors import pinned
from hubarray.readers.order.cursor import EpochCursor
from hubarray.readers.order.sampler import Share
from hubarray.readers.order.state import state_from_json
from hubarray.readers.pipeline.batching import Runs, run_counts, steps
from hubarray.readers.pipeline.groups import fed
from hubarray.readers.streams import keep_if_small, loop_of, require_known

# What a state takes as JSON, at most: some hundred numbers.
_STATE_BYTES = 1 << 16
# Single samples are looked up so many at a time.
_BLOCK_ROWS = 256
_DEFAULTS: dict[str, Any] = {
    "batch_size": None, "global_batch_size": None, "shuffle": None, "seed": None, "drop_last": False, "rank": None,
    "world_size": None, "intervals": None, "shard_balance": None, "buffer_bytes": None,
}  # fmt: skip


def only_streams(options: Mapping[str, Any]) -> None:
    """Refuse options of streams where a dataset by index is made.

    Raises
    ------
    ConfigError, TypeError
    """
    require_known("to_pytorch", options)
    for name, value in options.items():
        if value != _DEFAULTS[name]:
            raise ConfigError(f"{name}= is for iterable=True; give DataLoader its own")


def _is_accelerated() -> bool:
    """Whether Hugging Face's accelerate runs several processes here, and so deals out what a DataLoader gives."""
    state = sys.modules.get("accelerate.state")
    return state is not None and state.is_initialized() and torch.distributed.is_initialized()


def _place_in_the_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise ConfigError("give rank and world_size together, or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if not 0 <= rank < world_size:
        raise ConfigError(f"rank {rank} of a world of {world_size}: ranks count from 0 to {world_size - 1}")
    return rank, world_size


class Stream(IterableDataset[Any]):
    """Samples, or batches, in an order of their own for each epoch; runs of rows are read ahead.

    Iterate it, or its :meth:`loader`, which counts epochs and can be resumed. For a plain
    ``DataLoader(stream, batch_size=None, num_workers=...)`` call :meth:`set_epoch` before each epoch, as for
    torch's DistributedSampler; without a seed, and in one rank, the order differs by itself.

    Parameters
    ----------
    source : Source
    columns : list of str
    form : "value", "tuple" or "dict"
        What a sample is of its columns.
    transform : callable or None
    **options
        Of :meth:`hubarray.Array.to_pytorch`.
    """

    def __init__(
        self,
        source: Any,
        columns: Sequence[str],
        form: str,
        transform: Callable[[Any], Any] | None,
        *,
        shuffle: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> None:
        self._is_placed = rank is not None
        self._is_accelerated = False
        require_known("to_pytorch", options)
        rank, world_size = _place_in_the_world(rank, world_size)
        shuffled = shuffle is not False
        self._source, self._columns = source, list(columns)
        self._loop = loop_of(source, shuffle=shuffled, rank=rank, world_size=world_size, **options)
        batched = options.get("batch_size") is not None or options.get("global_batch_size") is not None
        self._items = items_of(self._columns, form, transform, batched=batched)
        self._at_once = 1 if batched else _BLOCK_ROWS
        keep_if_small(source, self._loop, shuffle=shuffled, buffer_bytes=options.get("buffer_bytes"))
        # Of the iteration that was begun last, in this process: where it began, and how many items it has given.
        self._iteration: dict[str, Any] | None = None
        self._item_count = 0
        self._resumed: dict[str, Any] | None = None
        self._own_order = options.get("seed") is None and world_size == 1
        self._share_position()

    def _share_position(self) -> None:
        # The bytes of a state, their number, and how often it was set: in shared memory, so that workers see it.
        self._position = torch.zeros(_STATE_BYTES, dtype=torch.uint8).share_memory_()
        self._change = torch.zeros(2, dtype=torch.int64).share_memory_()
        self._workers_iterate = torch.zeros(1, dtype=torch.bool).share_memory_()
        self._seen_change, self._passes = -1, 0
        self._put(self._loop, 0)

    def _put(self, loop: EpochCursor, change: int) -> None:
        encoded = json.dumps(loop.to_json(by_rows=False) | {"source": ""}).encode()
        self._position[: len(encoded)] = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        self._change[0], self._change[1] = len(encoded), change

    def put(self, loop: EpochCursor) -> None:
        """Have the next iteration, in whatever process, begin where a loop is."""
        self._put(loop, int(self._change[1]) + 1)

    def current_loop(self) -> EpochCursor:
        """A loop that is where the next iteration begins."""
        loop = copy.copy(self._loop)
        encoded = bytes(self._position[: int(self._change[0])].numpy())
        loop.go(state_from_json(json.loads(encoded)))
        return loop

    def apart(self) -> Stream:
        """The same stream, whose iterations begin wherever its own loop says."""
        other = copy.copy(self)
        other._share_position()
        return other

    @property
    def epoch(self) -> int:
        """The epoch that was set last."""
        return self.current_loop().state.epoch

    @property
    def seed(self) -> int:
        """The seed of its order, given or chosen."""
        return self._loop.state.seed

    @property
    def items(self) -> Items:
        """How rows become items."""
        return self._items

    def set_epoch(self, epoch: int, *, start: int = 0) -> None:
        """Choose the epoch of the next iteration; those after it count on.

        Parameters
        ----------
        epoch : int
        start : int
            Items (batches; samples where ``batch_size`` is None) that were taken already and are skipped without
            being read.
        """
        if epoch < 0 or start < 0:
            raise ConfigError(f"epoch {epoch}, start {start}: neither can be negative")
        loop = copy.copy(self._loop)
        loop.begin(epoch)
        loop.skip(start)
        self.put(loop)

    def loader(self, **options: Any) -> StreamLoader:
        """A DataLoader of this stream that counts epochs, and takes DataLoader's options, such as ``num_workers``.

        Workers read and transform; how many there are changes neither what comes nor its order.
        """
        return StreamLoader(self, **options)

    def __len__(self) -> int:
        """Items that this rank gets in an epoch, all its workers together."""
        return self._loop.steps_of_an_epoch().steps

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        if info is not None:
            self._workers_iterate[0] = True
        self.check_place()
        if not self._is_placed and self._loop.world_size > 1 and (self._is_accelerated or _is_accelerated()):
            raise ConfigError(
                "accelerate would deal out rows that are dealt out already: iterate stream.loader(num_workers=...), "
                "which accelerator.prepare leaves as it is, and bring batches to accelerator.device"
            )
        loop, change = self.current_loop(), int(self._change[1])
        if change != self._seen_change:
            self._seen_change, self._passes = change, 0
        if self._passes:
            loop.begin(loop.state.epoch + self._passes)
        self._passes += 1
        if self._own_order and info is not None and change == 0:
            # Alike in all workers of a DataLoader's epoch, and another one in the next.
            loop.take_seed((info.seed - info.id) % (1 << 62))
        resumed, self._resumed = self._resumed, None
        given_rows = 0
        if resumed is not None:
            base = loop.state.epoch
            loop.load(resumed["loop"])
            # Those that follow count on from there.
            given_rows, self._passes = resumed["given"], loop.state.epoch - base + 1
        self._iteration = loop.to_json(by_rows=False)
        order = loop.order()
        share = loop.share(order)
        # Whole stretches of steps, so that workers of a plain DataLoader hardly read the same chunks.
        first, stop = (share.steps * k // workers for k in (worker, worker + 1))
        first = min(first + given_rows, stop)
        feed = fed(order, share, self.read, self._items.opened, counts=run_counts(share, first, stop))
        self._item_count = given_rows
        for _, item in self.joined(share, feed, first, stop):
            self._item_count += 1
            yield item

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration of this process is, for torchdata's StatefulDataLoader, which asks each worker for it.

        Raises
        ------
        ConfigError
            Workers of a DataLoader iterate the stream, so that this process does not know where they are.
        """
        if self._iteration is None and get_worker_info() is None and self._workers_iterate[0]:
            raise ConfigError(
                "workers of a DataLoader iterate this stream, so it does not know how far they are: use "
                "stream.loader(num_workers=...), whose state_dict() counts what was taken"
            )
        loop = self.current_loop().to_json(by_rows=False) if self._iteration is None else self._iteration
        return {"loop": loop, "given": self._item_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration continue from a state, with the same number of ranks and workers.

        Raises
        ------
        ConfigError
            The state does not belong to this stream.
        """
        known = isinstance(state, Mapping) and isinstance(state.get("loop"), Mapping)
        if not known or type(state.get("given")) is not int or state["given"] < 0:
            raise ConfigError("not a state that a stream gave")
        copy.copy(self._loop).load(state["loop"])
        self._resumed = {"loop": dict(state["loop"]), "given": state["given"]}

    def check_place(self) -> None:
        """Refuse what was made before the ranks were known: each of them would give all rows.

        Raises
        ------
        ConfigError
        """
        distributed = torch.distributed
        if self._is_placed or self._loop.world_size > 1 or not distributed.is_available():
            return
        if distributed.is_initialized() and distributed.get_world_size() > 1:
            raise ConfigError(
                "this stream was made before torch.distributed was initialized, so each rank would give all rows: make "
                "it afterwards, such as in Lightning's train_dataloader(), or give rank= and world_size="
            )

    def __getstate__(self) -> dict[str, Any]:
        # A worker that is spawned does not know what runs in its parent.
        return self.__dict__ | {"_is_accelerated": self._is_accelerated or _is_accelerated()}

    def read(self, rows: Any) -> Any:
        """The columns of some rows."""
        columns = self._source.read(rows, self._columns)
        return [columns[name] for name in self._columns]

    def joined(self, share: Share, runs: Runs[Any], first: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Numbers of steps, and their items."""
        items = self._items
        blocks = steps(share, runs, items.part, items.join, first=first, stop=stop, at_once=self._at_once)
        for step, block in blocks:
            for i, item in enumerate(items.unbatched(block)):
                yield step + i, item

    def runs(self, worker: int, workers: int) -> Iterator[Any]:
        """The runs that one of some workers reads, packed for another process."""
        loop = self.current_loop()
        order = loop.order()
        share = loop.share(order)
        counts = [run.count if i % workers == worker else 0 for i, run in enumerate(share.runs)]
        held = max(2, -(-(share.open_runs + 2) // workers))
        feed = fed(order, share, self.read, self._items.opened, counts=counts, held=held)
        for number in range(worker, len(share.runs), workers):
            yield self._items.packed(feed.get(number), share.parts_of(number))
            feed.used(number, counts[number])


class _Runs(IterableDataset[Any]):
    """Runs of a stream, dealt out to the workers of a DataLoader, which takes one from each in turn.

    If somebody makes another loader of its dataset, as accelerate does to skip batches, that loader gives the batches.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return iter(self.stream.loader())
        return self.stream.runs(info.id, info.num_workers)


class _Arriving:
    """Runs as workers hand them over, in their order."""

    def __init__(self, share: Share, items: Iterator[Any], unpacked: Callable[[Any], Any]) -> None:
        self._left = [run.count for run in share.runs]
        self._items, self._unpacked = items, unpacked
        self._runs_by_number: dict[int, Any] = {}
        self._next = 0

    def get(self, number: int) -> Any:
        while self._next <= number:
            self._runs_by_number[self._next] = self._unpacked(next(self._items))
            self._next += 1
        return self._runs_by_number[number]

    def used(self, number: int, rows: int) -> None:
        self._left[number] -= rows
        if self._left[number] <= 0:
            del self._runs_by_number[number]


def _as_it_is(item: Any) -> Any:
    return item


class StreamLoader(DataLoader[Any]):
    """A DataLoader of a stream: each pass is the next epoch, and it can be taken up where it was left.

    ``state_dict()`` says what the world has taken, in about a hundred bytes, the same on every rank; with
    ``load_state_dict`` the next pass gives exactly the rest, on any number of ranks and workers.
    """

    # Marks of Hugging Face's accelerate: a loader that it leaves as it is, and whose state it keeps with its own.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    def __init__(self, stream: Stream, **options: Any) -> None:
        for taken in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if taken in options:
                raise ConfigError(f"{taken}= belongs to to_pytorch(iterable=True), which makes the batches")
        if options.get("in_order") is False:
            raise ConfigError("in_order=False would change the order that a saved state refers to; leave it out")
        self._collate = options.pop("collate_fn", None) or _as_it_is
        if options.get("num_workers"):
            # Workers read ahead by themselves, and hand over many batches at a time.
            options.setdefault("prefetch_factor", 1)
        self._stream = stream.apart()
        self._loop = stream.current_loop()
        self._begun, self._pass = False, 0
        super().__init__(_Runs(self._stream), batch_size=None, collate_fn=_as_it_is, **options)

    def __iter__(self) -> Any:
        self._stream.check_place()
        loop = self._loop
        if self._begun:
            # The pass after one that was broken off is another epoch.
            loop.begin(loop.state.epoch + 1)
        self._begun = True
        self._pass += 1
        self._stream.put(loop)
        order = loop.order()
        share = loop.share(order)
        runs: Runs[Any]
        if self.num_workers:
            runs = _Arriving(share, super().__iter__(), self._stream.items.unpacked)
        else:
            runs = fed(order, share, self._stream.read, self._stream.items.opened)
        return self._counted(share, runs, self._pass)

    def _counted(self, share: Share, runs: Runs[Any], number: int) -> Iterator[Any]:
        loop, cuts, remaining = self._loop, self._loop.state.cuts, self._loop.remaining()
        pin = self.pin_memory and torch.cuda.is_available()
        for step, item in self._stream.joined(share, runs):
            if self._pass == number:
                loop.take(cuts, min(remaining, (step + 1) * loop.step_rows))
            yield self._collate(pinned(item) if pin else item)
        if self._pass == number:
            loop.begin(loop.state.epoch + 1)
            self._begun = False

    def __len__(self) -> int:
        return len(self._stream)

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, unless the loop is in it: what trainers call before each."""
        if epoch != self._loop.state.epoch:
            self._loop.begin(epoch)
            self._begun = False
        self._stream.put(self._loop)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: JSON of about a hundred bytes, the same on every rank."""
        return self._loop.to_json(by_rows=False)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass begin where a state was taken, on however many ranks and workers.

        Raises
        ------
        ConfigError
            It was another stream: of other commits, seed or mode.
        """
        self._loop.load(state)
        self._begun = False
