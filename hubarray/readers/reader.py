"""The reader: rows, windows or batches of one source, in epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from hubarray.errors import ConfigError, NoDataAvailableError, ReaderStoppedError
from hubarray.readers.fields.ngram import NGram
from hubarray.readers.fields.unischema import Unischema
from hubarray.readers.order.cursor import EpochCursor
from hubarray.readers.order.order import Order, Progress
from hubarray.readers.order.sampler import Segment, Share
from hubarray.readers.pipeline.batching import steps
from hubarray.readers.pipeline.pipeline import Loaded, Pipeline, batch_columns
from hubarray.readers.pipeline.prefetch_queue import PrefetchQueue
from hubarray.readers.pipeline.worker_pools import Pool

T = TypeVar("T")
# Rows that are looked up in the plan, and held, at a time.
_BLOCK_ROWS = 256
_BLOCK_BYTES = 8 << 20
_MAX_EMPTY_EPOCHS = 16


class Reader:
    """An iterator over the rows of a source, in epochs; see :func:`hubarray.make_reader`.

    Its items are rows as named tuples, windows as dictionaries of rows by offset, or batches as named tuples of
    columns. As a context manager, it stops its workers at the end of the block.

    Attributes
    ----------
    schema : Unischema
        The schema of its items.
    last_row_consumed : bool
        Whether the reader has given all rows.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        pool: Pool,
        loop: EpochCursor,
        *,
        num_epochs: int | None,
        batched: bool,
        ragged: str,
        ahead: int,
    ) -> None:
        self._pipeline, self._pool, self._loop = pipeline, pool, loop
        self._num_epochs, self._batched, self._ragged, self._ahead = num_epochs, batched, ragged, ahead
        self._by_rows = pipeline.decides or batched
        self.schema = pipeline.schema
        self.last_row_consumed = False
        self._stopped = self._resumed = False
        self._first_epoch = 0
        self._items: Iterator[Any] | None = None
        self._feed: PrefetchQueue[Any] | None = None
        self._item_count = self._skipped = self._cache_hits = self._cache_misses = 0
        self._waited_seconds = 0.0

    @property
    def batched_output(self) -> bool:
        """Whether items are batches of columns."""
        return self._batched

    @property
    def is_batched_reader(self) -> bool:
        """Same as ``batched_output``, under Petastorm's other name."""
        return self._batched

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(
            "a reader is iterated, and has no items by index; for PyTorch: "
            "hubarray.interop.torch.DataLoader(reader, batch_size=...), with the reader's own workers"
        )

    @property
    def ngram(self) -> NGram | None:
        """The windows, if it gives windows."""
        return self._pipeline.ngram

    @property
    def ragged(self) -> str:
        """How batches contain rows of different shapes: ``"list"``, ``"pad"`` or ``"nested"``."""
        return self._ragged

    @property
    def transformed_schema(self) -> Unischema:
        """The schema of its items, under Petastorm's name."""
        return self.schema

    @property
    def num_epochs(self) -> int | None:
        """The number of epochs; None repeats forever."""
        return self._num_epochs

    @property
    def seed(self) -> int:
        """The seed of its order."""
        return self._loop.state.seed

    @property
    def epoch(self) -> int:
        """The epoch of the last item, from 0."""
        return self._loop.state.epoch

    def set_group_rows(self, rows: int) -> None:
        """Shuffle within about this number of rows, like ``shuffling_queue_capacity`` of the PyTorch loaders.

        Raises
        ------
        ConfigError
            The reader has already given items.
        """
        if self._item_count or self._items is not None:
            raise ConfigError(
                "the order is fixed once a reader has returned items; set shuffling before the first item"
            )
        if self._resumed:
            raise ConfigError("a loaded state fixes the order; set shuffling, then load the state")
        if rows < 1:
            raise ConfigError(f"{rows!r} rows: give at least one")
        self._loop.shuffle_among(rows)

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Any:
        if self._stopped:
            raise ReaderStoppedError("this reader was stopped; make another one")
        if self._items is None:
            if self.last_row_consumed:
                raise StopIteration
            self._items = self._epochs()
        try:
            item = next(self._items)
        except StopIteration:
            self._items, self.last_row_consumed = None, True
            self._pool.rest()
            raise
        except BaseException as error:
            # Whoever asks again gets the item that failed, or its error again.
            self._items = None
            if self._stopped and isinstance(error, Exception):
                raise ReaderStoppedError("this reader was stopped while it was read; make another one") from None
            self._drop_loaded()
            raise
        self._item_count += 1
        return item

    next = __next__

    def __len__(self) -> int:
        """Return the number of items of an epoch in this shard.

        Raises
        ------
        TypeError
            The number depends on a predicate, on windows or on a transform of batches.
        """
        if self._pipeline.decides:
            raise TypeError(
                "only the rows decide how many items an epoch has: a predicate, n-grams, a transform of batches "
                "or on_error='skip'. filters= on partition keys or fields of the index is known before"
            )
        share = self._loop.steps_of_an_epoch()
        return len(share.runs) if self._batched else share.rows_before(share.steps)

    def reset(self) -> None:
        """Start again, with the epochs after those that were read.

        Raises
        ------
        NotImplementedError
            The reader is in the middle of an epoch. Use ``load_state_dict`` to go to any position.
        ReaderStoppedError
        """
        if self._stopped:
            raise ReaderStoppedError("this reader was stopped; make another one")
        if not self.last_row_consumed:
            if self._item_count == 0:
                return
            raise NotImplementedError(
                "reset() in the middle of an epoch: read it to its end, or load_state_dict the place that you want"
            )
        self.last_row_consumed = self._resumed = False
        self._first_epoch = self._loop.state.epoch + 1
        self._loop.begin(self._first_epoch)

    def rewind(self) -> None:
        """Start again like :meth:`reset`, at any position. The rest of its epochs is dropped."""
        if self._stopped:
            raise ReaderStoppedError("this reader was stopped; make another one")
        self._drop_loaded()
        self._items = None
        self.last_row_consumed = True
        self.reset()

    def stop(self) -> None:
        """Stop the workers, and drop items that are loaded."""
        self._stopped = True
        self._drop_loaded()
        self._pool.stop()

    def join(self) -> None:
        """Wait until the workers have ended."""
        self._pool.join()

    def _drop_loaded(self) -> None:
        if self._feed is not None:
            self._feed.cancel()

    def __reduce__(self) -> Any:
        raise TypeError("a reader has workers, and is not pickled: send its state_dict(), and make one there")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Count items and the like.

        The keys are the pool, the number of items, what ``on_error="skip"`` skipped, hits and misses of
        ``cache_type="local-disk"``, runs loaded ahead, and seconds waited.

        ``shuffled_together`` is the fraction of the rows that are shuffled with each other. If a dataset is sorted by
        class, it tells how much of it a step sees.
        """
        return self._pool.diagnostics() | {
            "items": self._item_count,
            "epoch": self.epoch,
            "shuffled_together": self._loop.shuffled_together,
            "rows_skipped": self._skipped,
            "files_skipped": getattr(self._pipeline.source, "files_skipped", 0),
            "cache_hits": self._cache_hits,
            "cache_misses": self._cache_misses,
            "output_queue_size": self._feed.waiting() if self._feed is not None else 0,
            "waited_seconds": round(self._waited_seconds, 3),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this reader, as JSON of about a hundred bytes.

        It is the same on every shard, with two exceptions: if the number of items depends on a predicate, windows or
        batches, and if shards have read several epochs with unequal numbers of rows. Then the states contain ``rank``,
        and you need those of all shards.
        """
        drifts = self._num_epochs != 1 and self._loop.drifts
        return self._loop.to_json(by_rows=self._by_rows or drifts)

    @property
    def world_size(self) -> int:
        """The number of shards."""
        return self._loop.world_size

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from a state, exactly with the rest of its epoch, on any number of shards and workers.

        Parameters
        ----------
        state : dict, or list of dict
            The result of ``state_dict``, or the results of all shards if they contain ``rank``.

        Raises
        ------
        ConfigError
            The state belongs to another source, seed or mode, or the list is incomplete.
        """
        if self._item_count and not self.last_row_consumed:
            raise ConfigError("a state is loaded before the first item, or after the last")
        self._loop.load(state)
        self.last_row_consumed, self._items, self._resumed = False, None, True
        # A reader's epochs come in rows of num_epochs: reset() goes to the next row.
        epochs = self._num_epochs or 1
        self._first_epoch = self._loop.state.epoch // epochs * epochs

    def _epochs(self) -> Iterator[Any]:
        loop, empty = self._loop, 0
        while self._num_epochs is None or loop.state.epoch < self._first_epoch + self._num_epochs:
            cuts, order = loop.state.cuts, loop.order()
            share = loop.share(order)
            remaining, given_items = loop.remaining(), self._item_count
            yield from (self._batches if self._batched else self._singles)(cuts, order, share, remaining)
            loop.take(cuts, remaining)
            more = loop.state.epoch + 1
            empty = 0 if self._item_count > given_items else empty + 1
            # Another epoch deals other rows to a shard, but not to the only one.
            if self._num_epochs is None and empty > (0 if loop.world_size == 1 else _MAX_EMPTY_EPOCHS):
                raise NoDataAvailableError(
                    f"{self._pipeline.source.where}: no row passed the predicate in a whole epoch, and epochs have "
                    "no end; use another predicate, or set num_epochs"
                )
            if self._num_epochs is not None and more >= self._first_epoch + self._num_epochs:
                return
            loop.begin(more)

    def _begun(self, order: Order, share: Share, opened: Callable[[Loaded], T]) -> PrefetchQueue[T]:
        def begin(number: int) -> Any:
            return self._pool.submit(share.source_rows(order, number))

        feed = PrefetchQueue([run.count for run in share.runs], begin, self._ahead + share.open_runs, opened)
        self._feed = feed
        return feed

    def _singles(self, cuts: Sequence[Progress], order: Order, share: Share, remaining: int) -> Iterator[Any]:
        def opened(loaded: Loaded) -> tuple[np.ndarray, list[Any]]:
            self._count(loaded)
            return loaded.slots, self._pipeline.items(loaded)

        def part(run: tuple[np.ndarray, list[Any]], first: int, count: int) -> tuple[list[int], list[Any]]:
            slots, values = run
            low, high = np.searchsorted(slots, [first, first + count])
            return (slots[low:high] - first).tolist(), values[low:high]

        def join(length: int, parts: Sequence[tuple[tuple[list[int], list[Any]], Segment]]) -> list[Any]:
            block: list[Any] = [_MISSING] * length
            for (slots, values), segment in parts:
                for slot, value in zip(slots, values, strict=True):
                    block[segment.to + slot * segment.stride] = value
            return block

        world = self._loop.world_size
        runs = self._timed(self._begun(order, share, opened))
        at_once = max(1, min(_BLOCK_ROWS, int(_BLOCK_BYTES / self._pipeline.source.row_bytes)))
        for step, block in steps(share, runs, part, join, at_once=at_once):
            for i, item in enumerate(block):
                if item is not _MISSING:
                    self._loop.take(cuts, min(remaining, (step + i + 1) * world))
                    yield item

    def _batches(self, cuts: Sequence[Progress], order: Order, share: Share, remaining: int) -> Iterator[Any]:
        feed = self._begun(order, share, lambda loaded: loaded)
        runs, make, taken = self._timed(feed), self.schema.row_type._make, 0
        for number, run in enumerate(share.runs):
            loaded = runs.get(number)
            runs.used(number, run.count)
            self._count(loaded)
            # Runs that pad the last step lie before those that were given.
            taken = max(taken, (run.place + run.count) * self._loop.world_size - share.taken)
            self._loop.take(cuts, min(taken, remaining))
            columns = loaded.columns
            if not len(next(iter(columns.values()), ())):
                continue
            batch = batch_columns(columns, self.schema, self._ragged)
            yield make([batch[name] for name in self.schema.fields])

    def _count(self, loaded: Loaded) -> None:
        self._skipped += loaded.skipped
        self._cache_hits += loaded.cache_hits
        self._cache_misses += loaded.cache_misses

    def _timed(self, feed: PrefetchQueue[T]) -> _Timed[T]:
        return _Timed(feed, self._wait)

    def _wait(self, seconds: float) -> None:
        self._waited_seconds += seconds


class _Timed(Generic[T]):
    """A feed, and how long was waited for it."""

    def __init__(self, feed: PrefetchQueue[T], on_wait: Callable[[float], None]) -> None:
        self._feed, self._on_wait, self.used = feed, on_wait, feed.used

    def get(self, number: int) -> T:
        begin = time.monotonic()
        item = self._feed.get(number)
        self._on_wait(time.monotonic() - begin)
        return item


_MISSING = object()
