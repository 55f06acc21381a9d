"""Loaders of tables: how many workers there are changes neither what a rank sees nor its order."""

import itertools
import json

import numpy as np
import pytest

import hubarray as hub
from tests.optional import Optional
from tests.readers.pipeline.test_memory_and_workers import broken
from tests.tables import rows as model

torch_data = Optional("torch.utils.data")

PARTS = {key: model.drive(key, 25) for key in "abc"}
FIELDS = ["log_id", "frame", "lidar", "note", "weight"]


@pytest.fixture(scope="module")
def index(make_root):
    root = make_root("local")
    model.write("me/drives:v1", PARTS, root, model.schema(rest=4))
    return hub.read_index("me/drives:v1", root=root), root


def loader_of(index, workers, *, rank=0, world=2, mode="exact", state=None, **options):
    frame, root = index
    given = {"batch_size": 4, "seed": 5, "intervals": 4} | options
    stream = hub.row_loader(frame, root=root).to_pytorch(
        FIELDS, iterable=True, rank=rank, world_size=world, shard_balance=mode, **given
    )
    loader = stream.loader(num_workers=workers, **({"multiprocessing_context": "fork"} if workers else {}))
    if state is not None:
        loader.load_state_dict(state)
    return loader


def rows_of(batch):
    """The rows of a batch: which they are, each checked to be that row."""
    result = []
    for values in zip(*(batch[name] for name in FIELDS), strict=True):
        log, frame = values[0], int(values[1])
        expected = PARTS[log][frame]
        np.testing.assert_array_equal(values[2], expected["lidar"])
        assert values[3] == expected["note"]
        assert (values[4] if values[4] is None else float(values[4])) == expected["weight"]
        result.append((log, frame))
    return result


def epochs(index, workers, count=2, **options):
    loader = loader_of(index, workers, **options)
    return [[rows_of(batch) for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("mode", ["exact", "drop", "pad"])
def test_each_rank_sees_the_same_batches_in_each_epoch_however_many_workers_there_are(index, mode):
    seen = []
    for rank in (0, 1):
        alone = epochs(index, 0, rank=rank, mode=mode)
        for workers in (1, 2):
            assert epochs(index, workers, rank=rank, mode=mode) == alone
        seen += alone[0]
        assert alone[0] != alone[1]
    rows = list(itertools.chain(*seen))
    every = {(key, i) for key in PARTS for i in range(25)}
    assert len(rows) == {"exact": 75, "drop": 72, "pad": 80}[mode]
    assert len(set(rows)) == min(len(rows), 75)
    assert set(rows) <= every


@pytest.mark.parametrize(
    "rows", [lambda frame: frame[frame["frame"] % 3 == 1], lambda frame: frame.sort_values("frame", ascending=False)]
)
def test_of_the_rows_of_any_index_too(index, rows):
    frame, root = index
    some = (rows(frame), root)
    alone = epochs(some, 0, 1)
    assert epochs(some, 2, 1) == alone
    both = itertools.chain(*alone[0], *epochs(some, 0, 1, rank=1)[0])
    assert sorted(both) == sorted(zip(some[0]["log_id"], some[0]["frame"], strict=True))


def test_rows_that_are_not_shuffled_come_as_the_index_has_them(index):
    for workers in (0, 1, 2):
        (seen,) = epochs(index, workers, 1, world=1, intervals=1, shuffle=False)
        assert list(itertools.chain(*seen)) == list(zip(index[0]["log_id"], index[0]["frame"], strict=True))


def test_single_rows_and_transforms_are_the_same_with_workers(index):
    frame, root = index

    def seen(workers):
        stream = hub.row_loader(frame, root=root).to_pytorch(
            FIELDS, iterable=True, seed=1, intervals=2, transform=lambda row: (row["log_id"], int(row["frame"]) * 2)
        )
        return list(stream.loader(num_workers=workers, **({"multiprocessing_context": "fork"} if workers else {})))

    alone = seen(0)
    assert sorted(alone) == [(key, 2 * i) for key in "abc" for i in range(25)]
    assert seen(1) == seen(2) == alone


@pytest.mark.parametrize(("workers", "others", "taken"), [(0, 2, 3), (2, 1, 1), (1, 0, 9), (2, 2, 10)])
def test_what_was_handed_over_counts_and_what_workers_read_ahead_is_read_again(index, workers, others, taken):
    whole = epochs(index, 0, rank=1)
    first = loader_of(index, workers, rank=1)
    begun = [rows_of(batch) for batch in itertools.islice(first, taken)]
    rest = loader_of(index, others, rank=1, state=json.loads(json.dumps(first.state_dict())))
    result = [begun + [rows_of(batch) for batch in rest], [rows_of(batch) for batch in rest]]
    assert result == whole


def test_what_is_left_goes_to_any_number_of_ranks_with_workers_of_their_own(index):
    ranks = [loader_of(index, rank, rank=rank) for rank in (0, 1)]
    result = [row for rank in ranks for batch in itertools.islice(rank, 3) for row in rows_of(batch)]
    (state,) = {json.dumps(rank.state_dict()) for rank in ranks}
    for rank in range(3):
        rest = loader_of(index, rank, rank=rank, world=3, intervals=3, state=json.loads(state))
        result += [row for batch in rest for row in rows_of(batch)]
    assert sorted(result) == [(key, i) for key in "abc" for i in range(25)]


def look(index, whole):
    """All that is promised of two workers, in short, of a rank and its epochs."""
    first = loader_of(index, 2, rank=1)
    begun = [rows_of(batch) for batch in itertools.islice(first, 3)]
    rest = loader_of(index, 2, rank=1, state=first.state_dict())
    assert [begun + [rows_of(batch) for batch in rest], [rows_of(batch) for batch in rest]] == whole
    stream = hub.row_loader(index[0], root=index[1]).to_pytorch(FIELDS, iterable=True, batch_size=4, seed=5)
    plain = torch_data.DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert sorted(row for batch in plain for row in rows_of(batch)) == [(key, i) for key in "abc" for i in range(25)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(step + 1) * loop.step_rows", "(step + 2) * loop.step_rows"),
        ("loop.take(cuts, min(remaining, (step + 1) * loop.step_rows))", "loop.take(cuts, remaining)"),
        ("self._stream.put(loop)", "pass"),
        ("loop.begin(loop.state.epoch + 1)\n            self._begun = False", "self._begun = False"),
        ("self._left[number] -= rows\n", "self._left[number] -= 2 * rows\n"),
        ("while self._next <= number:", "while self._next < number:"),
        ("(share.steps * k // workers for k in (worker, worker + 1))", "(share.steps * k for k in (0, 1))"),
    ],
)
def test_a_loader_that_breaks_a_rule_of_workers_is_seen(index, monkeypatch, old, new):
    from hubarray.interop.torch import stream, tables

    whole = epochs(index, 0, rank=1)
    monkeypatch.setattr(tables, "Stream", broken(stream, old, new).Stream)
    with pytest.raises((AssertionError, KeyError, RuntimeError, ValueError)):
        look(index, whole)


def test_a_loader_that_keeps_the_rules_of_workers_passes(index):
    look(index, epochs(index, 0, rank=1))
