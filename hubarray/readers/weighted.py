"""A mix of readers: each item comes from a reader that is drawn by its weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.order.permutation import chosen_seed, fractions, hashes
from hubarray.readers.reader import Reader
from hubarray.redaction import counted


class WeightedSamplingReader:
    """Draw items from several readers with given probabilities, until a drawn reader is exhausted.

    Draw ``n`` depends only on the seed and ``n``, so a state is a number and the states of the readers.

    Parameters
    ----------
    readers : sequence of Reader
        Readers with the same fields. Use ``num_epochs=None`` for an endless mix.
    probabilities : sequence of float
        The relative probability of each reader.
    seed : int, optional
        Seed of the draws, which must be the same on every rank. The default is 0 if the readers are shards, and
        otherwise random; the state contains it.

    Raises
    ------
    ConfigError
        The readers do not fit each other.
    """

    def __init__(self, readers: Sequence[Reader], probabilities: Sequence[float], *, seed: int | None = None) -> None:
        if not readers or len(readers) != len(probabilities):
            raise ConfigError(
                f"{counted(len(readers), 'reader')} and {len(probabilities)} probabilities: give one for each"
            )
        weights = np.asarray(probabilities, np.float64)
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
            raise ConfigError(f"probabilities={list(probabilities)}: give numbers from 0 on, of which one is above 0")
        first = readers[0]
        for other in readers[1:]:
            if list(other.schema.fields) != list(first.schema.fields):
                names = "; ".join(", ".join(reader.schema.fields) for reader in readers)
                raise ConfigError(f"the readers have different fields: {names}"[:400])
            if other.batched_output != first.batched_output or (other.ngram is None) != (first.ngram is None):
                raise ConfigError("the readers give different things: all rows, all batches or all windows")
        self._readers = list(readers)
        self._ends = np.cumsum(weights) / weights.sum()
        self._own_seed = seed is None
        is_shard = any(reader.world_size > 1 for reader in readers)
        self._seed = int(seed or 0) if seed is not None or is_shard else chosen_seed()
        self._drawn = 0
        self.last_row_consumed = False

    @property
    def schema(self) -> Any:
        """The schema of its items."""
        return self._readers[0].schema

    @property
    def batched_output(self) -> bool:
        """Whether items are batches of columns."""
        return self._readers[0].batched_output

    @property
    def ngram(self) -> Any:
        """The windows, if it gives windows."""
        return self._readers[0].ngram

    @property
    def ragged(self) -> str:
        """How batches contain rows of different shapes."""
        return self._readers[0].ragged

    @property
    def num_epochs(self) -> int | None:
        """The number of epochs of every reader; None repeats forever."""
        known = [reader.num_epochs for reader in self._readers]
        return None if None in known else min(epochs for epochs in known if epochs is not None)

    def set_group_rows(self, rows: int) -> None:
        """Shuffle within about this number of rows of each reader."""
        for reader in self._readers:
            reader.set_group_rows(rows)

    def __len__(self) -> int:
        """Return the number of items of one epoch of all readers. The mix may end earlier."""
        return sum(map(len, self._readers))

    def __iter__(self) -> WeightedSamplingReader:
        return self

    def __next__(self) -> Any:
        where = float(fractions(hashes(1, self._seed, first=self._drawn))[0])
        chosen = min(int(np.searchsorted(self._ends, where, "right")), len(self._readers) - 1)
        try:
            item = next(self._readers[chosen])
        except StopIteration:
            self.last_row_consumed = True
            raise
        self._drawn += 1
        return item

    next = __next__

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the mix, as JSON."""
        states = [reader.state_dict() for reader in self._readers]
        return {"seed": self._seed, "drawn": self._drawn, "readers": states}

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from a state.

        Parameters
        ----------
        state : dict, or list of dict
            The result of ``state_dict``, or the results of all ranks if the readers need them.

        Raises
        ------
        ConfigError
            The state belongs to another mix, or to other readers.
        """
        states_by_reader = list(state) if isinstance(state, (list, tuple)) else [state]
        seeds, draws, states = zip(*map(_parts, states_by_reader), strict=True) if states_by_reader else ((), (), ())
        if len(set(seeds)) != 1:
            raise ConfigError("the states are of no rank, or of several mixes: give those of all ranks of one")
        for entry in states:
            if len(entry) != len(self._readers):
                raise ConfigError(f"the state is of {len(entry)} readers, and these are {len(self._readers)}")
        if not self._own_seed and seeds[0] != self._seed:
            raise ConfigError(f"the state is of draws with seed {seeds[0]}, and these have {self._seed}")
        for reader, reader_states in zip(self._readers, zip(*states, strict=True), strict=True):
            reader.load_state_dict(list(reader_states) if isinstance(state, (list, tuple)) else reader_states[0])
        self._seed, self._drawn, self.last_row_consumed = seeds[0], max(draws), False

    def reset(self) -> None:
        """Start again, with the next epochs of every reader. The rest of unfinished epochs is dropped.

        Raises
        ------
        NotImplementedError
            The mix has not ended.
        """
        if not self.last_row_consumed:
            if self._drawn == 0:
                return
            raise NotImplementedError("reset() before the end of the mix: read it to its end, or make another one")
        for reader in self._readers:
            reader.rewind()
        self.last_row_consumed = False

    def stop(self) -> None:
        """Stop the workers of all readers."""
        for reader in self._readers:
            reader.stop()

    def join(self) -> None:
        """Wait until the workers of all readers have ended."""
        for reader in self._readers:
            reader.join()

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """The diagnostics of each reader."""
        return [reader.diagnostics for reader in self._readers]

    def __enter__(self) -> WeightedSamplingReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()


def _parts(state: Any) -> tuple[int, int, list[Any]]:
    """The seed, the number of draws, and the states of the readers, of what may come from anywhere."""
    try:
        seed, drawn, states = state["seed"], state["drawn"], state["readers"]
        if type(seed) is not int or type(drawn) is not int or min(seed, drawn) < 0 or not isinstance(states, list):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ConfigError("not a state that a WeightedSamplingReader gave") from None
    return seed, drawn, states
