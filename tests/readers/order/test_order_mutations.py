"""Rules of the order, each broken on purpose: a check that lets the broken one pass would be worth nothing."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from hubarray.readers.order import order as real_order
from hubarray.readers.order import sampler as real_sampler
from tests.readers.order import test_order as checks

# The file, what stands there, and what stands there in the broken one.
ORDER, SAMPLER = real_order.__file__, real_sampler.__file__
BROKEN = {
    "1: units are not permuted": (ORDER, "if self.shuffle_units else np.arange(count)", "if False else np.arange(count)"),
    "1: units do not depend on the epoch": (ORDER, "_UNITS, self.seed, self.epoch)", "_UNITS, self.seed, 0)"),
    "1: intervals of unequal length": (ORDER, "+ min(i, rows % intervals)", "+ (rows % intervals if i else 0)"),
    "2: groups end together": (ORDER, "(2 * i + 1) * self.group_rows", "self.group_rows"),
    "2: edges that are not units'": (ORDER, "np.unique(snapped[snapped > start])", "np.unique(aimed[aimed > start])"),
    "2: groups that reach over intervals": (ORDER, "np.concatenate([[start], inside, [stop]])",
                                            "np.concatenate([[start], inside, [min(stop + 1, self.rows)]])"),
    "3: rows of a group are not permuted": (ORDER, "if self.shuffle_rows:", "if False:"),
    "3: every group in one permutation": (ORDER, "_ROWS, self.seed, self.epoch, start)", "_ROWS, self.seed, self.epoch)"),
    "3: a library's generator": (ORDER, "rows = rows[permutation(len(rows), _ROWS, self.seed, self.epoch, start)]",
                                 "np.random.default_rng(start).shuffle(rows)"),
    "4: intervals one after the other": (SAMPLER, "to = (place * intervals + i - self._rank) // world - before",
                                         "to = (i * 10_000 + place - self._rank) // world - before"),
    "4: parts side by side": (SAMPLER, "intervals // world))", "1))"),
    "4: ranks of another remainder": (SAMPLER, "range(self._rank, intervals, self._world_size)",
                                      "range(intervals - 1 - self._rank, -1, -self._world_size)"),
    "5: any number of ranks goes on": (ORDER, "else last.intervals % world_size == 0", "else True"),
    "5: tails in another order": (ORDER, "for i, numbers in enumerate(taken) for place in",
                                  "for i, numbers in reversed(list(enumerate(taken))) for place in"),
    "5: one row too few is taken": (ORDER, "-(-(each[i % len(each)] - i) // intervals)",
                                    "(each[i % len(each)] - i) // intervals"),
    "5: groups anew after a cut": (SAMPLER, "Run((start, stop), begin - start, count, interval, place)",
                                   "Run((begin, begin + count), 0, count, interval, place)"),
    "6: drop keeps what is over": (SAMPLER, 'if mode == "drop":', 'if mode == "never":'),
    "6: pad adds nothing": (SAMPLER, 'elif mode == "pad" and over:', "elif False:"),
    "6: pad repeats the first rows": (SAMPLER, "source -= self._step_rows", "source -= self._cut.rows"),
}  # fmt: skip


def module_of(path, name, old, new):
    text = Path(path).read_text()
    assert old is None or text.count(old) >= 1, f"the file has no longer what is to be broken: {path}: {old}"
    made = types.ModuleType(name)
    made.__file__ = path
    sys.modules[name] = made
    exec(compile(text if old is None else text.replace(old, new), path, "exec"), made.__dict__)
    return made


@pytest.fixture
def put_in_place(monkeypatch):
    """Has the checks look at other versions of the two files."""

    def put(path=None, old=None, new=None):
        for real in (real_order, real_sampler):
            monkeypatch.setitem(sys.modules, real.__name__, real)
        order = module_of(ORDER, real_order.__name__, *((old, new) if path == ORDER else (None, None)))
        sampler = module_of(SAMPLER, real_sampler.__name__, *((old, new) if path == SAMPLER else (None, None)))
        for name in ("EpochCut", "Order", "Progress", "current_cut", "interval_start", "resumed", "taken_of"):
            monkeypatch.setattr(checks, name, getattr(order, name))
        monkeypatch.setattr(checks, "Share", sampler.Share)
        return order

    yield put
    sys.modules[real_order.__name__] = real_order
    sys.modules[real_sampler.__name__] = real_sampler


def look():
    """Everything that the rules promise, of a few orders."""
    checks.test_the_golden_order_stays()
    checks.test_groups_of_the_intervals_do_not_end_together()
    checks.test_eight_ranks_four_and_sixteen_see_the_same_steps()
    bounds = np.array([0, 3, 4, 9, 12, 20, 27, 31, 40, 47])
    order = checks.Order(bounds, 5, 1, 4, 9)
    dealt = checks.naive_order(order)
    assert dealt == DEALT
    for world in (1, 2, 4):
        for rank in range(world):
            result = checks.steps_of(order, checks.whole(order), step_rows=8, rank=rank, world_size=world)
            assert [row for step in result for row in step] == dealt[rank::world]
    for i in range(4):
        assert set(order.group_edges(i)[1:-1].tolist()) <= set(order._edges.tolist())
    for mode, steps in (("drop", 5), ("pad", 6)):
        ranks = [
            checks.steps_of(order, checks.whole(order), step_rows=8, rank=r, world_size=2, mode=mode) for r in (0, 1)
        ]
        assert [len(item) for item in ranks] == [steps, steps]
        assert {len(step) for item in ranks for step in item} == {4}
        if mode == "pad":
            assert [row for pair in zip(*(item[-1] for item in ranks), strict=True) for row in pair] == PADDED
    history = checks.resumed([checks.Progress(4, 8, 16)], 3, 6)
    rest = [
        checks.steps_of(order, checks.current_cut(order.rows, history), step_rows=6, rank=rank, world_size=3)
        for rank in range(3)
    ]
    assert rest == REST
    assert sorted(dealt[:16] + checks.flat(rest)) == list(range(47))


def test_the_rules_as_they_are_pass(put_in_place):
    put_in_place()
    look()


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_seen(put_in_place, rule):
    put_in_place(*BROKEN[rule])
    with pytest.raises((AssertionError, ValueError, IndexError, TypeError)):
        look()


DEALT = [
    7,
    19,
    35,
    28,
    5,
    24,
    33,
    27,
    6,
    26,
    37,
    30,
    8,
    1,
    31,
    29,
    4,
    2,
    39,
    44,
    15,
    21,
    38,
    43,
    17,
    25,
    34,
    41,
    13,
    0,
    36,
    46,
    14,
    22,
    9,
    45,
    16,
    20,
    32,
    40,
    12,
    23,
    11,
    42,
    18,
    3,
    10,
]
PADDED = [12, 23, 11, 42, 18, 3, 10, 40]
REST = [
    [[4, 15], [17, 13], [14, 16], [12, 18], [2, 21], [25]],
    [[0, 22], [20, 23], [3, 39], [38, 34], [36, 9]],
    [[32, 11], [10, 44], [43, 41], [46, 45], [40, 42]],
]
