"""The reader: rows, windows or batches of one source, epoch after epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, NoDataAvailableError, ReaderStoppedError
from hubarray.readers.feed import Feed
from hubarray.readers.ngram import NGram
from hubarray.readers.order import Order, Progress, Share, current_cut
from hubarray.readers.permutation import key_of
from hubarray.readers.pipeline import Loaded, Pipeline, batch_columns
from hubarray.readers.pools import Pool
from hubarray.readers.state import State, check_source, first_cuts, gone_on, next_epoch_cuts, state_from_json
from hubarray.readers.unischema import Unischema

# Rows that are looked up in the plan at a time.
_BLOCK_ROWS = 256


class Reader:
    """Rows of one source, epoch after epoch; made by :func:`hubarray.make_reader` and ``make_batch_reader``.

    Iterate it: items are named tuples of a row; of windows, dictionaries of them by offset; of a batch reader, named
    tuples of columns. It is a context manager, which stops its workers at the end.

    Attributes
    ----------
    schema : Unischema
        Of what it gives.
    last_row_consumed : bool
        Whether everything was given.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        pool: Pool,
        *,
        bounds: np.ndarray,
        unit_rows: int,
        group_rows: int,
        seed: int,
        shuffle_units: bool,
        shuffle_rows: bool,
        num_epochs: int | None,
        rank: int,
        world_size: int,
        mode: str,
        batched: bool,
        ragged: str,
        ahead: int,
        own_seed: bool,
    ) -> None:
        self._pipeline, self._pool = pipeline, pool
        self._bounds = bounds
        self._shuffle_units, self._shuffle_rows = shuffle_units, shuffle_rows
        self._num_epochs, self._rank, self._world = num_epochs, rank, world_size
        self._batched, self._ragged, self._ahead = batched, ragged, ahead
        self._own_seed = own_seed
        self._by_rows = pipeline.decides or batched
        self._identity = pipeline.source.identity()
        self.schema = pipeline.schema
        self.last_row_consumed = False
        self._stopped = False
        self._first_epoch = 0
        self._state = State(
            self._identity, mode, seed, 0, unit_rows, group_rows, first_cuts(world_size, world_size)
        )  # fmt: skip
        self._items: Iterator[Any] | None = None
        self._feed: Feed[Loaded] | None = None
        self._given = self._skipped = 0
        self._waited_seconds = 0.0
        if 0 < self._rows < world_size:
            raise NoDataAvailableError(
                f"{pipeline.source.where}: {self._rows:,} rows cannot be shared by {world_size} shards; use fewer"
            )

    @property
    def _rows(self) -> int:
        return int(self._bounds[-1])

    @property
    def batched_output(self) -> bool:
        """Whether an item is a batch of columns."""
        return self._batched

    @property
    def ngram(self) -> NGram | None:
        """The windows that are given, if any."""
        return self._pipeline.ngram

    @property
    def transformed_schema(self) -> Unischema:
        """The schema of what it gives, as Petastorm calls it."""
        return self.schema

    @property
    def num_epochs(self) -> int | None:
        """How many epochs it gives; None is endless."""
        return self._num_epochs

    @property
    def seed(self) -> int:
        """The seed of its order, given or chosen."""
        return self._state.seed

    @property
    def epoch(self) -> int:
        """The epoch of the item that was given last, from 0 on."""
        return self._state.epoch

    def set_group_rows(self, rows: int) -> None:
        """Shuffle among about so many rows: what PyTorch's loaders take as ``shuffling_queue_capacity``.

        Raises
        ------
        ConfigError
            Items were given already: their order stands.
        """
        if self._given or self._items is not None:
            raise ConfigError("the order of a reader that has given items stands; set its shuffling before the first")
        if rows < 1:
            raise ConfigError(f"{rows!r} rows: give at least one")
        held = self._state.cuts[-1].intervals // self._world + 2
        self._shuffle_rows = True
        self._state = replace(self._state, group_rows=max(1, rows // held))

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
            raise
        self._given += 1
        return item

    next = __next__

    def __len__(self) -> int:
        """Items of an epoch for this shard.

        Raises
        ------
        TypeError
            A predicate, windows or a transform of batches decide how many there are.
        """
        if self._pipeline.decides:
            raise TypeError(
                "only the rows decide how many items an epoch has: a predicate, n-grams, a transform of batches "
                "or on_error='skip'. filters= on partition keys or fields of the index is known before"
            )
        share = self._share(self._order(0), first_cuts(self._world, self._world))
        return len(share.runs) if self._batched else share.rows_before(share.steps)

    def reset(self) -> None:
        """Begin again, with the epochs after those that were read.

        Raises
        ------
        NotImplementedError
            In the middle of an epoch: ``load_state_dict`` goes to any place.
        ReaderStoppedError
        """
        if self._stopped:
            raise ReaderStoppedError("this reader was stopped; make another one")
        if not self.last_row_consumed:
            if self._given == 0:
                return
            raise NotImplementedError(
                "reset() in the middle of an epoch: read it to its end, or load_state_dict the place that you want"
            )
        self.last_row_consumed = False
        self._first_epoch = self._state.epoch + 1
        self._state = self._state.at(
            epoch=self._first_epoch, cuts=next_epoch_cuts(self._state.cuts, self._world, self._world)
        )

    def stop(self) -> None:
        """Stop the workers; items that were loaded are dropped."""
        self._stopped = True
        if self._feed is not None:
            self._feed.cancel()
        self._pool.stop()

    def join(self) -> None:
        """Wait until the workers have ended."""
        self._pool.join()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()

    @property
    def diagnostics(self) -> dict[str, Any]:
        """The pool, items given, rows passed over by ``on_error="skip"``, runs loaded ahead, and seconds waited."""
        return self._pool.diagnostics() | {
            "items": self._given,
            "rows_skipped": self._skipped,
            "output_queue_size": self._feed.waiting() if self._feed is not None else 0,
            "waited_seconds": round(self._waited_seconds, 3),
        }

    def state_dict(self) -> dict[str, Any]:
        """Where this reader is: JSON of about a hundred bytes.

        The same on every shard, but where a predicate, windows or batches decide how many items there are: then the
        states of all shards are needed together.
        """
        state = self._state
        if self._by_rows and self._world > 1:
            state = replace(state, rank=self._rank, world_size=self._world)
        return state.to_json()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go on where a reader was: exactly with the rest of its epoch, on any number of shards and workers.

        Parameters
        ----------
        state : dict, or list of dict
            What ``state_dict`` gave; of all shards where it says ``rank``.

        Raises
        ------
        ConfigError
            It is of another source, seed or mode, or the list is incomplete.
        """
        if self._given and not self.last_row_consumed:
            raise ConfigError("a state is loaded before the first item, or after the last")
        found = state_from_json(state)
        check_source(found, self._identity)
        if found.mode != self._state.mode:
            raise ConfigError(f"the state is of shard_balance={found.mode!r}, and this reader has {self._state.mode!r}")
        if not self._own_seed and found.seed != self._state.seed:
            raise ConfigError(
                f"the state is of an order with seed {found.seed}, and this reader has {self._state.seed}"
            )
        if found.unit_rows != self._state.unit_rows:
            self._bounds = _uniform(self._rows, found.unit_rows)
        cuts = gone_on(found.cuts, self._rows, self._world, self._world)
        last = cuts[-1]
        if not isinstance(last.taken, int):
            cuts = (*cuts[:-1], Progress(last.intervals, last.step_rows, last.taken[self._rank]))
        self._state = found.at(epoch=found.epoch, cuts=cuts)
        self.last_row_consumed, self._items = False, None

    def _order(self, epoch: int) -> Order:
        state = self._state
        return Order(
            self._bounds, state.seed, epoch, state.cuts[0].intervals, state.group_rows,
            self._shuffle_units, self._shuffle_rows,
        )  # fmt: skip

    def _share(self, order: Order, cuts: Sequence[Progress]) -> Share:
        taken = cuts[-1].taken
        assert isinstance(taken, int)
        return Share(
            order, current_cut(self._rows, cuts), taken=taken, step_rows=self._world, rank=self._rank,
            world_size=self._world, mode=self._state.mode,
        )  # fmt: skip

    def _epochs(self) -> Iterator[Any]:
        while self._num_epochs is None or self._state.epoch < self._first_epoch + self._num_epochs:
            yield from self._batches() if self._batched else self._singles()
            more = self._state.epoch + 1
            if self._num_epochs is not None and more >= self._first_epoch + self._num_epochs:
                return
            self._state = self._state.at(epoch=more, cuts=next_epoch_cuts(self._state.cuts, self._world, self._world))

    def _begun(self, order: Order, share: Share) -> Feed[Loaded]:
        runs = share.runs

        def begin(number: int) -> Any:
            run = runs[number]
            rows = order.group_source_rows(*run.group)[run.first : run.first + run.count]
            return self._pool.submit(rows)

        open_runs = self._state.cuts[-1].intervals // self._world
        self._feed = Feed([run.count for run in runs], begin, self._ahead + max(0, open_runs - 1))
        return self._feed

    def _loaded(self, feed: Feed[Loaded], number: int) -> Loaded:
        begin = time.monotonic()
        found = feed.get(number)
        self._waited_seconds += time.monotonic() - begin
        return found

    def _took(self, cuts: Sequence[Progress], rows: int) -> None:
        last = cuts[-1]
        assert isinstance(last.taken, int)
        progress = Progress(last.intervals, last.step_rows, last.taken + rows)
        self._state = self._state.at(epoch=self._state.epoch, cuts=(*cuts[:-1], progress))

    def _singles(self) -> Iterator[Any]:
        cuts = self._state.cuts
        order = self._order(self._state.epoch)
        share = self._share(order, cuts)
        feed = self._begun(order, share)
        items: dict[int, tuple[np.ndarray, list[Any]]] = {}
        left = [run.count for run in share.runs]
        world, start = self._world, cuts[-1].taken
        assert isinstance(start, int)
        rows = current_cut(self._rows, cuts).rows
        for step in range(0, share.steps, _BLOCK_ROWS):
            steps = min(_BLOCK_ROWS, share.steps - step)
            length = share.rows_before(step + steps) - share.rows_before(step)
            block: list[Any] = [_MISSING] * length
            for piece in share.pieces(step, steps):
                if piece.run not in items:
                    loaded = self._loaded(feed, piece.run)
                    self._skipped += loaded.skipped
                    items[piece.run] = loaded.slots, self._pipeline.items(loaded)
                slots, values = items[piece.run]
                # A run's own rows begin where it does in its group.
                first = piece.first - share.runs[piece.run].first
                low, high = np.searchsorted(slots, [first, first + piece.count])
                for slot, value in zip((slots[low:high] - first).tolist(), values[low:high], strict=True):
                    block[piece.to + slot * piece.stride] = value
                left[piece.run] -= piece.count
                feed.used(piece.run, piece.count)
                if left[piece.run] <= 0:
                    del items[piece.run]
            for i, item in enumerate(block):
                if item is not _MISSING:
                    self._took(cuts, min(rows - start, (step + i + 1) * world))
                    yield item
        self._took(cuts, rows - start)

    def _batches(self) -> Iterator[Any]:
        cuts = self._state.cuts
        order = self._order(self._state.epoch)
        share = self._share(order, cuts)
        feed = self._begun(order, share)
        start = cuts[-1].taken
        assert isinstance(start, int)
        rows = current_cut(self._rows, cuts).rows
        make = self.schema.row_type._make
        for number, run in enumerate(share.runs):
            loaded = self._loaded(feed, number)
            feed.used(number, run.count)
            self._skipped += loaded.skipped
            done = (run.place + run.count) * self._world - start
            self._took(cuts, min(max(0, done), rows - start))
            columns = loaded.columns
            if not len(next(iter(columns.values()), ())):
                continue
            found = batch_columns(columns, self.schema, self._ragged)
            yield make([found[name] for name in self.schema.fields])
        self._took(cuts, rows - start)


_MISSING = object()


def _uniform(rows: int, unit_rows: int) -> np.ndarray:
    """The bounds of units of equal lengths, the last one maybe shorter."""
    return np.append(np.arange(0, rows, max(1, unit_rows), dtype=np.int64), rows).astype(np.int64)


def chosen_seed() -> int:
    """A seed that differs from run to run."""
    drawn = np.random.SeedSequence().generate_state(1, np.uint64)[0]
    return int(key_of(int(drawn)) >> np.uint64(2))
