"""Where a loop over the epochs of one source is, on one rank: its order, its share, and its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, NoDataAvailableError
from hubarray.readers.order.order import Order, Progress, current_cut
from hubarray.readers.order.sampler import Share
from hubarray.readers.order.state import ReaderState, check_source, first_cuts, gone_on, state_from_json


class EpochCursor:
    """Epochs of one source for one rank.

    Parameters
    ----------
    identity, where : str
        The identity of the source, which a state is compared with, and its name in messages.
    bounds : ndarray of int64
        The first row of each unit, and the number of all rows.
    unit_rows, group_rows : int
        ``unit_rows`` is 0 where the source says what its units are.
    mode : "exact", "drop" or "pad"
    own_mode : bool
        Whether it is the default. Then an epoch that continues from a state drops or repeats rows as the state says.
    seed : int
    own_seed : bool
        Whether it was chosen here: then a state brings its own.
    shuffle_units, shuffle_rows : bool
    rank, world_size, step_rows : int
        ``step_rows`` are the world's.
    intervals : int, optional
        The number of ranks by default.
    parts : int
        Into how many parts each unit was cut.
    whole_intervals : bool
        Whether a rank reads an interval to its end before the next: then each rank always has one.

    Raises
    ------
    NoDataAvailableError
        There are fewer rows than ranks, or rows for no whole step.
    """

    def __init__(
        self,
        identity: str,
        where: str,
        *,
        bounds: np.ndarray,
        unit_rows: int,
        group_rows: int,
        mode: str,
        seed: int,
        own_seed: bool,
        own_mode: bool = False,
        shuffle_units: bool,
        shuffle_rows: bool,
        rank: int,
        world_size: int,
        step_rows: int,
        intervals: int | None = None,
        parts: int = 1,
        whole_intervals: bool = False,
    ) -> None:
        self._where, self._bounds = where, bounds
        self.rank, self.world_size, self.step_rows = rank, world_size, step_rows
        self._own_seed, self._own_mode, self._mode = own_seed, own_mode, mode
        self._whole_intervals = whole_intervals
        # Since the ranks began, or went on from one place.
        self._drifted = False
        shuffle = int(shuffle_units) + 2 * int(shuffle_rows)
        cuts = first_cuts(world_size, step_rows, intervals)
        self.state = ReaderState(
            identity, mode, seed, 0, unit_rows, group_rows, shuffle, parts, cuts, cuts[0].intervals
        )
        if 0 < self.rows < world_size:
            raise NoDataAvailableError(
                f"{where}: {self.rows:,} rows cannot be shared by {world_size} shards; use fewer"
            )
        if mode == "drop" and self.rows < step_rows:
            raise NoDataAvailableError(
                f"{where}: {self.rows:,} rows make no whole step of {step_rows:,}; use a smaller batch_size, or "
                "shard_balance='exact'"
            )

    @property
    def rows(self) -> int:
        """Rows of an epoch, of all ranks together."""
        return int(self._bounds[-1])

    @property
    def shuffled_together(self) -> float:
        """Which part of the rows is mixed at a time: those of a group of each interval, or of a unit."""
        state, units = self.state, max(1, len(self._bounds) - 1)
        if state.shuffle & 2:
            return min(1.0, state.cuts[0].intervals * max(state.group_rows, self.rows / units) / max(1, self.rows))
        return min(1.0, state.cuts[0].intervals / units if state.shuffle else 0.0)

    def order(self) -> Order:
        """The order of the epoch that it is in."""
        state = self.state
        return Order(
            self._bounds, state.seed, state.epoch, state.cuts[0].intervals, state.group_rows,
            bool(state.shuffle & 1), bool(state.shuffle & 2),
        )  # fmt: skip

    def share(self, order: Order) -> Share:
        """The rest of the epoch, as far as this rank reads it."""
        last = self.state.cuts[-1]
        assert isinstance(last.taken, int)
        return Share(
            order, current_cut(self.rows, self.state.cuts), taken=last.taken, step_rows=self.step_rows, rank=self.rank,
            world_size=self.world_size, mode=self.state.mode,
        )  # fmt: skip

    def steps_of_an_epoch(self) -> Share:
        """The share of a whole epoch."""
        fresh = EpochCursor.__new__(EpochCursor)
        fresh.__dict__ |= self.__dict__
        fresh.begin(self.state.epoch)
        return fresh.share(fresh.order())

    def remaining(self) -> int:
        """Rows of the epoch that the world has not taken."""
        last = self.state.cuts[-1]
        assert isinstance(last.taken, int)
        return current_cut(self.rows, self.state.cuts).rows - last.taken

    def begin(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._drifted = self._drifted or (epoch > self.state.epoch and self._is_uneven())
        intervals = self.world_size if self._whole_intervals else self.state.intervals
        cuts = first_cuts(self.world_size, self.step_rows, intervals)
        self.state = replace(self.state, mode=self._mode).at(epoch=epoch, cuts=cuts)

    def take(self, cuts: Sequence[Progress], rows: int) -> None:
        """Go to the position this number of rows of the world behind some cuts."""
        last = cuts[-1]
        assert isinstance(last.taken, int)
        progress = Progress(last.intervals, last.step_rows, last.taken + rows)
        self.state = self.state.at(epoch=self.state.epoch, cuts=(*cuts[:-1], progress))

    def skip(self, steps: int) -> None:
        """Leave out steps of an epoch that has just begun."""
        self.take(self.state.cuts, min(self.rows, steps * self.step_rows))

    def take_seed(self, seed: int) -> None:
        """Another order."""
        self.state = replace(self.state, seed=seed)

    def shuffle_among(self, rows: int) -> None:
        """Shuffle within about this number of rows of this rank. Two more groups are read ahead."""
        open_at_once = max(1, self.state.cuts[-1].intervals // self.world_size)
        # Edges of groups are aimed at halves.
        group_rows = 2 * self.rows if rows >= self.rows else max(1, rows // open_at_once)
        self.state = replace(self.state, group_rows=group_rows, shuffle=self.state.shuffle | 2)

    @property
    def drifts(self) -> bool:
        """Whether ranks that took equally many rows are at different places.

        Those that have a row less of an epoch, or of what was left of one, begin the next a step earlier.
        """
        return self._drifted or (self._is_uneven() and self.remaining() <= 0)

    def _is_uneven(self) -> bool:
        return self.state.mode == "exact" and current_cut(self.rows, self.state.cuts).rows % self.world_size != 0

    def to_json(self, *, by_rows: bool) -> dict[str, Any]:
        """The state; ``by_rows`` where rows decide how many each rank gets, and all ranks' states are needed."""
        state = self.state
        if by_rows and self.world_size > 1:
            state = replace(state, rank=self.rank, world_size=self.world_size)
        return state.to_json()

    def load(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go to where a state was taken.

        Raises
        ------
        ConfigError
            It is of another source, seed, mode or shuffling, or a list is incomplete.
        """
        loaded, ours = state_from_json(state, self.rank, self.world_size), self.state
        check_source(loaded, ours.source)
        if self._own_mode and loaded.mode == "exact":
            # Of a single rank, perhaps; and of several, by default none gets more batches than another.
            loaded = replace(loaded, mode=self._mode)
        if loaded.mode != self._mode and not self._own_mode:
            raise ConfigError(f"the state is of shard_balance={loaded.mode!r}, and this loop has {self._mode!r}")
        if not self._own_seed and loaded.seed != ours.seed:
            raise ConfigError(f"the state is of an order with seed {loaded.seed}, and this loop has seed {ours.seed}")
        if (loaded.shuffle, loaded.parts) != (ours.shuffle, ours.parts):
            raise ConfigError("the state is of another shuffling: shuffle the units and rows as there")
        if (loaded.unit_rows == 0) != (ours.unit_rows == 0):
            raise ConfigError("the state is of a source with other units")
        cuts = gone_on(
            loaded.cuts, self.rows, self.world_size, self.step_rows, whole_intervals=self._whole_intervals
        )  # fmt: skip
        last = cuts[-1]
        if not isinstance(last.taken, int):
            cuts = (*cuts[:-1], Progress(last.intervals, last.step_rows, last.taken[self.rank]))
        self.go(loaded.at(epoch=loaded.epoch, cuts=cuts))
        if len(loaded.cuts) == 1 and loaded.cuts[0].taken == 0:
            self.begin(loaded.epoch)
        self._drifted = isinstance(state, (list, tuple)) and len({rank_state.get("epoch") for rank_state in state}) > 1

    def go(self, state: ReaderState) -> None:
        """Go to the position of another loop of the same source and world."""
        if state.unit_rows != self.state.unit_rows:
            self._bounds = cut_units(uniform_units(self.rows, state.unit_rows), state.parts)
        self.state = replace(state, source=self.state.source)


def uniform_units(rows: int, unit_rows: int) -> np.ndarray:
    """The bounds of units of equal lengths, the last one maybe shorter."""
    return np.append(np.arange(0, rows, max(1, unit_rows), dtype=np.int64), rows).astype(np.int64)


def cut_units(bounds: np.ndarray, parts: int) -> np.ndarray:
    """Return the bounds of units that are divided into this number of parts."""
    if parts == 1:
        return bounds
    lengths = np.diff(bounds)
    firsts = (bounds[:-1, None] + lengths[:, None] * np.arange(parts)[None, :] // parts).ravel()
    return np.unique(np.append(firsts, bounds[-1]))
