"""Where a loop over epochs is: JSON of about a hundred bytes, checked before it is used. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hubarray.errors import ConfigError
from hubarray.readers.order.order import MAX_CUTS, MAX_INTERVALS, Progress, every_cut, resumed, taken_of

MODES = ("exact", "drop", "pad")
_MOST = 1 << 63


@dataclass(frozen=True)
class ReaderState:
    """Where a loop is.

    Attributes
    ----------
    source : str
        Its identity.
    mode : "exact", "drop" or "pad"
    seed, epoch : int
    unit_rows, group_rows : int
        How rows are grouped; 0 where the source says what its units are.
    shuffle : int
        1 for units, and 2 for rows, added up.
    parts : int
        Into how many parts each unit is cut.
    cuts : tuple of Progress
        How the epoch was cut, and what was taken.
    intervals : int
        Of the first epoch. Those after it have as many, where the number of ranks divides them.
    rank, world_size : int or None
        Of whom it is, where rows decide how many each rank gets: then a whole list of states is resumed from.
    """

    source: str
    mode: str
    seed: int
    epoch: int
    unit_rows: int
    group_rows: int
    shuffle: int
    parts: int
    cuts: tuple[Progress, ...]
    intervals: int
    rank: int | None = None
    world_size: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The state as JSON."""
        described: dict[str, Any] = {
            "source": self.source,
            "mode": self.mode,
            "seed": self.seed,
            "epoch": self.epoch,
            "rows": [self.unit_rows, self.group_rows, self.shuffle, self.parts],
            "cuts": [
                [cut.intervals, cut.step_rows, cut.taken if isinstance(cut.taken, int) else list(cut.taken)]
                for cut in self.cuts
            ],
        }
        if self.intervals != self.cuts[0].intervals:
            described["intervals"] = self.intervals
        if self.rank is not None:
            described["rank"] = [self.rank, self.world_size]
        return described

    def at(self, *, epoch: int, cuts: Sequence[Progress]) -> ReaderState:
        """The same loop, elsewhere."""
        return replace(self, epoch=epoch, cuts=tuple(cuts))


def state_from_json(saved: Any, rank: int = 0, world_size: int = 1) -> ReaderState:
    """The state that some JSON, or a list of all ranks' JSON, says to one of some ranks.

    Raises
    ------
    ConfigError
        It is none, or the list is incomplete or of different loops.
    """
    if not isinstance(saved, (list, tuple)):
        state = _state(saved)
        return state if state.rank is None else _merged([state])
    states = _ranked([_state(saved_state) for saved_state in saved])
    if len({state.epoch for state in states}) <= 1:
        return _merged(states)
    # Near the end of an epoch, ranks that have a row less are in the next one.
    if len(states) != world_size:
        raise ConfigError(
            f"the states are of different epochs, and of {len(states)} ranks: only this many ranks can resume, not "
            f"{world_size}; save states while all ranks are in one epoch"
        )
    if len({replace(state, rank=None, epoch=0, cuts=()) for state in states}) != 1:
        raise ConfigError("the states are of different loops; save those of all ranks in one moment")
    own = {i if state.rank is None else state.rank: state for i, state in enumerate(states)}
    if sorted(own) != list(range(world_size)):
        raise ConfigError(f"the states are of the ranks {', '.join(map(str, sorted(own)))}; give one of each rank")
    return replace(own[rank], rank=None, world_size=None)


def _ranked(states: Sequence[ReaderState]) -> list[ReaderState]:
    """A list of all ranks' states, each with its rank if some of them say theirs: others are in order."""
    if all(state.rank is None for state in states):
        return list(states)
    return [
        replace(state, rank=i, world_size=len(states)) if state.rank is None else state
        for i, state in enumerate(states)
    ]


def _state(saved: Any) -> ReaderState:
    try:
        if not isinstance(saved, Mapping):
            raise ValueError("it is not an object")
        source, mode = saved["source"], saved["mode"]
        seed, epoch = (_count(saved[name]) for name in ("seed", "epoch"))
        unit_rows, group_rows, shuffle, parts = (_count(number) for number in _items(saved["rows"], 4))
        cuts = _items(saved["cuts"], None)
        known = isinstance(source, str) and mode in MODES and shuffle < 4
        if not known or not 1 <= len(cuts) <= MAX_CUTS or min(group_rows, parts) < 1:
            raise ValueError("a field has the wrong type")
        history = tuple(_progress(cut) for cut in cuts)
        intervals = _count(saved.get("intervals", history[0].intervals))
        if not 1 <= intervals <= MAX_INTERVALS:
            raise ValueError("an epoch has no intervals")
        rank = world = None
        if "rank" in saved:
            rank, world = (_count(number) for number in _items(saved["rank"], 2))
            if not rank < world <= MAX_INTERVALS:
                raise ValueError("a rank is below the size of its world")
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"not a state that a reader or loader gave: {str(error)[:200]}") from None
    return ReaderState(
        source, mode, seed, epoch, unit_rows, group_rows, shuffle, parts, history, intervals, rank, world
    )


def _items(saved: Any, count: int | None) -> list[Any]:
    if not isinstance(saved, (list, tuple)) or (count is not None and len(saved) != count):
        raise ValueError("a list is missing, or has another length")
    return list(saved)


def _count(saved: Any) -> int:
    if type(saved) is not int or not 0 <= saved < _MOST:
        raise ValueError("a count is missing or not a count")
    return saved


def _progress(saved: Any) -> Progress:
    intervals, step_rows, taken = _items(saved, 3)
    if not 1 <= _count(intervals) <= MAX_INTERVALS or not _count(step_rows):
        raise ValueError("a cut has no intervals")
    if isinstance(taken, (list, tuple)):
        if not 1 <= len(taken) <= MAX_INTERVALS or intervals % len(taken):
            raise ValueError("a cut has no ranks, or some that do not share its intervals")
        return Progress(intervals, step_rows, tuple(_count(count) for count in taken))
    return Progress(intervals, step_rows, _count(taken))


def _merged(states: Sequence[ReaderState]) -> ReaderState:
    """One state of those of all ranks."""
    if not states:
        raise ConfigError("the list of states is empty; give one of each rank")
    first = states[0]
    if first.rank is None:
        return first if all(state == first for state in states) else _of_uneven_ranks(states)
    worlds = {state.world_size for state in states}
    ranks = sorted(-1 if state.rank is None else state.rank for state in states)
    if len(worlds) != 1 or ranks != list(range(first.world_size or 0)):
        raise ConfigError(
            f"of ranks that took unequally many rows, as a predicate, windows, batches or epochs before had it, the "
            f"states of all {first.world_size} ranks are needed together, and these are of rank "
            f"{', '.join(map(str, ranks))}"
        )
    ordered = sorted(states, key=lambda state: state.rank or 0)
    return _joined(ordered)


def _of_uneven_ranks(states: Sequence[ReaderState]) -> ReaderState:
    """One state of ranks that took unequally many rows, though their order has them take equally many."""
    if states[0].cuts[-1].intervals % len(states):
        raise ConfigError(
            f"the {len(states)} states are of different places. Where ranks took equally many rows, give one state, of "
            "any rank; otherwise those of all ranks, in their order"
        )
    return _joined(states)


def _joined(states: Sequence[ReaderState]) -> ReaderState:
    """States of all ranks, in their order, as one."""
    first = states[0]
    alike = {replace(state, rank=None, cuts=state.cuts[:-1]) for state in states}
    lasts = {(state.cuts[-1].intervals, state.cuts[-1].step_rows) for state in states}
    if len(alike) != 1 or len(lasts) != 1:
        raise ConfigError("the states are of different loops or epochs; save those of all ranks in one moment")
    taken = tuple(state.cuts[-1].taken for state in states)
    if not all(isinstance(item, int) for item in taken):
        raise ConfigError("not states that readers gave: one of them is of several ranks")
    last = replace(first.cuts[-1], taken=taken)  # type: ignore[arg-type]
    return replace(first, rank=None, world_size=None, cuts=(*first.cuts[:-1], last))


def check_source(state: ReaderState, source: str) -> None:
    """Refuse a state of another source.

    Raises
    ------
    ConfigError
    """
    if state.source != source:
        raise ConfigError(
            f"the state is of {state.source[:200]!r}, and this is {source[:200]!r}: its position does not fit other "
            "rows. Read the same source: name@commit, the same rows and filters, files that were not rewritten"
        )


def first_cuts(world_size: int, step_rows: int, intervals: int | None = None) -> tuple[Progress, ...]:
    """The cuts of an epoch that begins."""
    count = intervals if intervals is not None and intervals % world_size == 0 else world_size
    return (Progress(count, step_rows, 0),)


def gone_on(
    cuts: Sequence[Progress], rows: int, world_size: int, step_rows: int, *, whole_intervals: bool = False
) -> tuple[Progress, ...]:
    """The cuts with which a world goes on; ``whole_intervals`` where each rank has to have one interval.

    Raises
    ------
    ConfigError
        They say more than an epoch has.
    """
    if sum(cut.intervals for cut in cuts) > MAX_INTERVALS * 2:
        raise ConfigError("not a state that a reader or loader gave: it has too many intervals")
    for progress, cut in zip(cuts, every_cut(rows, cuts), strict=True):
        said = progress.taken
        if isinstance(said, int) and said > cut.rows:
            raise ConfigError(f"not a state that a reader or loader gave: more than the {cut.rows:,} rows were taken")
        places = taken_of(cut.intervals, said)
        if any(place > int(bounds[-1]) for place, bounds in zip(places, cut.firsts, strict=True)):
            raise ConfigError("not a state that a reader or loader gave: more rows were taken than there are")
    cuts_now = tuple(resumed(cuts, world_size, step_rows, whole_intervals=whole_intervals))
    if len(cuts_now) > MAX_CUTS:
        raise ConfigError(f"an epoch was resumed on {MAX_CUTS} different worlds; begin the next one")
    return cuts_now
