"""Rules 5 and 6 of the order where a loop is left and resumed, each broken on purpose: states, and shard_balance."""

import json
import sys
import types
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import pytest

from hubarray.errors import ConfigError
from hubarray.readers.order import cursor, order, sampler, state

BOUNDS = np.cumsum([0, 3, 1, 5, 3, 8, 7, 4, 9, 7])
ROWS = 47


@pytest.fixture
def built(monkeypatch):
    """Builds the modules of a loop anew, one of them with a line that is another, and gives the one of loops."""

    def build(changed=None, old=None, new=None):
        for real in (order, sampler, state, cursor):
            text = Path(real.__file__).read_text()
            if real is changed:
                assert text.count(old) == 1, f"what is to be broken is not once in {real.__file__}: {old}"
                text = text.replace(old, new)
            made = types.ModuleType(real.__name__)
            monkeypatch.setitem(sys.modules, real.__name__, made)
            exec(compile(text, real.__file__, "exec"), made.__dict__)
        return made

    return build


def loops(module, world, *, step_rows=12, **options):
    given = {
        "bounds": BOUNDS, "unit_rows": 0, "group_rows": 9, "mode": "exact", "seed": 3, "own_seed": False,
        "shuffle_units": True, "shuffle_rows": True,
    } | options  # fmt: skip
    return [
        module.EpochCursor("rows", "here", rank=rank, world_size=world, step_rows=step_rows, **given)
        for rank in range(world)
    ]


def steps_of(one):
    """The rows of each step that are left of a rank's epoch."""
    order = one.order()
    share = one.share(order)
    result = []
    for step in range(share.steps):
        rows = np.full(share.step_length(step), -1)
        for segment in share.segments(step):
            run = share.runs[segment.run]
            some = order.group_source_rows(*run.group)[segment.first : segment.first + segment.count]
            rows[segment.to : segment.to + (segment.count - 1) * segment.stride + 1 : segment.stride] = some
        result.append(rows.tolist())
    return result


def read(one, steps=None):
    """Steps that a rank takes: all that are left by default."""
    result, left = steps_of(one)[:steps], one.remaining()
    one.take(one.state.cuts, left if steps is None else min(left, steps * one.step_rows))
    return result


def of_the_world(ranks, steps=None):
    """The rows of each step of all ranks together."""
    return [sorted(chain(*parts)) for parts in zip_longest(*(read(item, steps) for item in ranks), fillvalue=[])]


def state_of(ranks):
    """The one state that all ranks tell, small, and through JSON."""
    told = {json.dumps(item.to_json(by_rows=False)) for item in ranks}
    assert len(told) == 1, "the same on every rank"
    (text,) = told
    assert len(text) < 200, "about a hundred bytes"
    return json.loads(text)


def gone_on(module, world, told, **options):
    ranks = loops(module, world, **options)
    for item in ranks:
        item.load(told)
    return ranks


def every_row_once(*parts):
    assert sorted(chain(*(step for part in parts for step in part))) == list(range(ROWS))


def look_at_ranks_that_divide(module):
    """Resuming with a number of ranks that divides C goes on with the same steps, again and again."""
    whole = of_the_world(loops(module, 4))
    ranks = loops(module, 4)
    assert ranks[0].state.cuts[0].intervals == 4, "C is the first number of ranks"
    result = of_the_world(ranks, 1)
    for world in (2, 1, 4):
        ranks = gone_on(module, world, state_of(ranks))
        result += of_the_world(ranks, 1 if world != 4 else None)
    assert result == whole
    assert gone_on(module, 2, state_of(loops(module, 4)), step_rows=6)[0].remaining() == ROWS
    other = gone_on(module, 2, state_of(ranks := loops(module, 4)), step_rows=4)
    every_row_once(of_the_world(other, 3), of_the_world(gone_on(module, 4, state_of(other)), None))
    assert ranks[0].remaining() == ROWS


def look_at_any_ranks(module):
    """Any other number of ranks cuts anew what is left, in the groups that there were."""
    groups, parts, told = None, [], state_of(loops(module, 4))
    for world, steps in ((4, 1), (3, 1), (5, 0), (2, 2), (6, None)):
        ranks = gone_on(module, world, told, step_rows=world * 2)
        edges = sorted({edge for i in range(4) for edge in ranks[0].order().group_edges(i).tolist()})
        assert groups in (None, edges)
        groups = edges
        parts.append(of_the_world(ranks, steps))
        told = state_of(ranks)
    every_row_once(*parts)


def look_at_the_next_epoch(module):
    """The next epoch goes back to the first C where the number of ranks divides it."""
    for first, world, expected in ((4, 2, 4), (6, 3, 6), (4, 3, 3)):
        ranks = loops(module, first)
        of_the_world(ranks, 1)
        between = gone_on(module, 5, state_of(ranks), step_rows=10)
        of_the_world(between, 1)
        ranks = gone_on(module, world, state_of(between))
        for item in ranks:
            item.begin(1)
        assert {item.state.cuts[0].intervals for item in ranks} == {expected}
        fresh = loops(module, expected)
        for item in fresh:
            item.begin(1)
        assert of_the_world(ranks) == of_the_world(fresh)


def look_at_uneven_ranks(module):
    """Where rows decide, each rank tells where it is, and all of them together go on."""

    def begun(world, intervals=None):
        ranks = loops(module, world, step_rows=world, intervals=intervals)
        result = [list(chain(*read(item, 2 + 3 * i))) for i, item in enumerate(ranks)]
        return result, [json.loads(json.dumps(item.to_json(by_rows=True))) for item in ranks]

    for world, intervals in ((3, None), (3, 6), (2, 4)):
        result, told = begun(world, intervals)
        for after in (1, 2, 3, 4, 6):
            for some in (told, told[::-1]):
                ranks = gone_on(module, after, some, step_rows=after)
                every_row_once(result, *(read(item) for item in ranks))
    _, told = begun(3)
    others = [item | {"seed": 4} for item in told]
    for wrong in (told[:2], told[0], [told[0], told[0], told[2]], [*told[:2], others[2]], [], [*told, told[0]]):
        refused(module, wrong)


def look_at_other_rows(module):
    """A state of other rows, another order or another balance is refused, and so is one that says more than there is."""
    told = state_of(loops(module, 2))
    for change in (
        {"source": "others"}, {"seed": 4}, {"mode": "pad"}, {"rows": [0, 9, 1, 1]}, {"rows": [0, 9, 3, 2]},
        {"rows": [5, 9, 3, 1]}, {"cuts": [[2, 12, ROWS + 1]]}, {"cuts": [[2, 12, [60, 1]]]}, {"cuts": []},
        {"epoch": -1},
    ):  # fmt: skip
        refused(module, told | change)


def refused(module, told):
    with pytest.raises(ConfigError):
        loops(module, 2, step_rows=2)[0].load(told)


def look_at_balances(module):
    """Balances give the world the same steps at every number of ranks that divides C and B."""
    dealt = {mode: [of_the_world(loops(module, w, mode=mode, intervals=4)) for w in (1, 2, 4)] for mode in state.MODES}
    for mode, worlds in dealt.items():
        assert worlds[0] == worlds[1] == worlds[2], mode
    exact, drop, pad = (dealt[mode][0] for mode in state.MODES)
    assert [len(item) for item in exact] == [12, 12, 12, 11]
    assert drop == exact[:3]
    assert [len(item) for item in pad] == [12] * 4
    assert pad[:3] == exact[:3]
    (repeated,) = [row for row in pad[3] if row not in exact[3]]
    assert repeated in exact[2], "what is missing are rows of the step before"
    for world in (1, 2, 4):
        # 26 rows in steps of 12: two are left for the last one, and two of four ranks have none.
        ranks = [read(item) for item in loops(module, world, bounds=BOUNDS[:7] * 26 // 27, intervals=4)]
        assert all(min(map(len, steps)) > 0 for steps in ranks), "no rank has a step without rows"
        sizes = [sum(map(len, steps)) for steps in ranks]
        assert max(sizes) - min(sizes) <= 1


def look_at_the_balance_of_a_state(module):
    """By default an epoch ends as it began, the next one as is the default, and no rank gets more steps than another."""
    for before, after, mode in ((4, 1, "exact"), (4, 8, "drop"), (1, 3, "drop"), (1, 8, "drop"), (3, 4, "drop")):
        own = {"own_mode": True, "step_rows": 24}
        ranks = loops(module, before, mode="exact" if before == 1 else "drop", **own)
        parts = of_the_world(ranks, 1)
        ranks = gone_on(module, after, state_of(ranks), mode=mode, **own)
        rest = [read(item) for item in ranks]
        assert len({len(steps) for steps in rest}) == 1, "no rank waits for another"
        seen = list(chain(*parts, *(rows for steps in rest for rows in steps)))
        assert len(seen) == len(set(seen)) == (24 if before != 1 or after != 1 else ROWS)
        for item in ranks:
            item.begin(1)
        assert {item.state.mode for item in ranks} == {mode}


LOOKS = (
    look_at_the_balance_of_a_state, look_at_ranks_that_divide, look_at_any_ranks, look_at_the_next_epoch, look_at_uneven_ranks, look_at_other_rows,
    look_at_balances,
)  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_a_loop_that_is_left_keeps_its_rules(built, look):
    look(built())


# What is broken, where, what stands there, and what stands there in the broken one.
BROKEN = {
    "C of other than the first ranks": (state, "% world_size == 0 else world_size", "% world_size == 0 else 1"),
    "a C that the ranks do not divide": (state, "intervals % world_size == 0 else", "True else"),
    "only the same ranks go on": (order, "else last.intervals % world_size == 0", "else last.intervals == world_size"),
    "another step forgets what was taken": (order, "progress = Progress(last.intervals, step_rows, last.taken)",
                                            "progress = Progress(last.intervals, step_rows, 0)"),
    "a cut forgets those before it": (order, "return [*history, Progress(world_size, step_rows, 0)]",
                                      "return [Progress(world_size, step_rows, 0)]"),
    "a cut takes the rest of the first interval alone": (order, "for i, numbers in enumerate(taken) for place in",
                                                         "for i, numbers in enumerate(taken[:1]) for place in"),
    "what was taken is of this process": (cursor, "last.taken + rows)", "rows)"),
    "groups are of the last cut": (cursor, "state.epoch, state.cuts[0].intervals", "state.epoch, state.cuts[-1].intervals"),
    "an epoch keeps the last cut": (cursor, "else self.state.intervals\n", "else self.state.cuts[-1].intervals\n"),
    "an epoch keeps what was taken": (cursor, ".at(epoch=epoch, cuts=cuts)\n\n    def take(",
                                      ".at(epoch=epoch, cuts=self.state.cuts)\n\n    def take("),
    "a state tells its rank": (cursor, "if by_rows and self.world_size > 1:", "if self.world_size > 1:"),
    "cursors do not tell their rank": (cursor, "if by_rows and self.world_size > 1:", "if False:"),
    "each interval is where the first rank is": (order, "each[i % len(each)] - i", "each[0] - i"),
    "each rank goes on where the first was": (cursor, "last.taken[self.rank]", "last.taken[0]"),
    "cursors of as many intervals are lost": (order, "if later.intervals != before.intervals or not isinstance(before.taken, int):",
                                              "if later.intervals != before.intervals:"),
    "an incomplete list goes": (state, "if len(worlds) != 1 or ranks != list(range(first.world_size or 0)):", "if False:"),
    "a mixed list goes": (state, "if len(alike) != 1 or len(lasts) != 1:", "if False:"),
    "a list goes in any order": (state, "sorted(states, key=lambda state: state.rank or 0)", "list(states)"),
    "one state of several goes": (state, "return state if state.rank is None else _merged([state])", "return state"),
    "an empty list goes": (state, "if not states:", "if False:"),
    "another source goes": (state, "if state.source != source:", "if False:"),
    "another seed goes": (cursor, "if not self._own_seed and loaded.seed != ours.seed:", "if False:"),
    "another balance goes": (cursor, "if loaded.mode != self._mode and not self._own_mode:", "if False:"),
    "ranks get unequal numbers of steps": (cursor, 'if self._own_mode and loaded.mode == "exact":', "if False:"),
    "what was left out comes after all": (cursor, 'if self._own_mode and loaded.mode == "exact":', "if self._own_mode:"),
    "a balance outlives its epoch": (cursor, "replace(self.state, mode=self._mode).at(", "self.state.at("),
    "another shuffling goes": (cursor, "if (loaded.shuffle, loaded.parts) != (ours.shuffle, ours.parts):", "if False:"),
    "other units go": (cursor, "if (loaded.unit_rows == 0) != (ours.unit_rows == 0):", "if False:"),
    "more of a rank than there is goes": (state, "if any(place > int(bounds[-1])", "if any(False"),
    "steps of no rows": (sampler, "if self.steps and self._count(taken + (self.steps - 1) * step_rows, self._stop) == 0:",
                         "if False:"),
    "drop of a rank's rows": (sampler, "over = remaining % step_rows", "over = remaining % world_size"),
    "pad of a rank's own rows": (sampler, "source -= self._step_rows", "source -= self._world_size"),
    "exact leaves rows out": (sampler, 'if mode == "drop":', 'if mode != "pad":'),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_loop_that_breaks_a_rule_is_seen(built, rule):
    module = built(*BROKEN[rule])

    def look():
        for item in LOOKS:
            item(module)

    with pytest.raises((AssertionError, ConfigError, ValueError, IndexError, TypeError, pytest.fail.Exception)):
        look()
