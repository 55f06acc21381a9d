import itertools

from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs.coalesce import plan_runs

PIECES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 5000), st.integers(1, 400)), max_size=40
)


def _names(pieces):
    return [(f"lab/{home}", bytes([pack]), offset, length) for pack, home, offset, length in pieces]


@given(PIECES, st.integers(400, 3000), st.integers(0, 300))
def test_every_blob_is_in_exactly_one_run_that_covers_it(pieces, max_run, max_gap):
    names = _names(pieces)
    runs = plan_runs(names, max_run_bytes=max_run, max_gap_bytes=max_gap)
    members = [i for run in runs for i in run.members]
    assert sorted(members) == list(range(len(pieces)))
    for run in runs:
        assert run.length <= max_run
        for i in run.members:
            pack, home, offset, length = pieces[i]
            assert (pack, home) == pieces[run.members[0]][:2]
            assert run.start <= offset
            assert offset + length <= run.start + run.length


def _one_by_one(pieces, max_run, max_gap):
    """Runs as sets of positions: a blob joins the run before it where that is near enough and stays short enough."""
    runs, last = [], None
    for i in sorted(range(len(pieces)), key=lambda i: (pieces[i][1], pieces[i][0], pieces[i][2])):
        pack, home, start, length = pieces[i]
        if last is not None and last[0] == (pack, home) and start - last[2] <= max_gap:
            stop = max(last[2], start + length)
            if stop - last[1] <= max_run:
                runs[-1].append(i)
                last = (last[0], last[1], stop)
                continue
        runs.append([i])
        last = ((pack, home), start, start + length)
    return sorted(runs, key=min)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 50)), max_size=40),
    st.integers(50, 3000),
    st.integers(0, 300),
)
def test_runs_are_as_long_as_they_may_be_and_in_order_of_their_earliest_blob(places, max_run, max_gap):
    # Blobs of one pack never overlap in part; two may be the same one.
    pieces = [(pack, home, 100 * place, 60) for pack, home, place in places]
    runs = plan_runs(_names(pieces), max_run_bytes=max_run, max_gap_bytes=max_gap)
    assert [run.members for run in runs] == _one_by_one(pieces, max_run, max_gap)


@given(PIECES)
def test_neighbours_within_the_gap_share_a_run_and_others_do_not(pieces):
    runs = plan_runs(_names(pieces), max_run_bytes=10**9, max_gap_bytes=100)
    for run in runs:
        intervals = sorted((pieces[i][2], pieces[i][2] + pieces[i][3]) for i in run.members)
        end = intervals[0][1]
        for start, stop in intervals[1:]:
            assert start - end <= 100
            end = max(end, stop)
    spans = sorted((pieces[run.members[0]][:2], run.start, run.start + run.length) for run in runs)
    for (place, _, stop), (next_place, start, _) in itertools.pairwise(spans):
        assert place != next_place or start - stop > 100


def test_ten_neighbours_make_one_request():
    runs = plan_runs(_names([(1, 0, i * 150, 150) for i in range(10)]))
    assert [(run.start, run.length) for run in runs] == [(0, 1500)]


@given(PIECES, st.data())
def test_a_plan_for_some_blobs_is_the_plan_of_those_alone(pieces, data):
    positions = [i for i in range(len(pieces)) if data.draw(st.booleans())]
    alone = plan_runs(_names([pieces[i] for i in positions]))
    among = plan_runs(_names(pieces), positions)
    assert [(run.start, run.length) for run in among] == [(run.start, run.length) for run in alone]
    assert [run.members for run in among] == [[positions[i] for i in run.members] for run in alone]
