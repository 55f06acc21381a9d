"""A mix of readers: its draws, and its states."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub


@pytest.fixture
def odd(tmp_path):
    pq.write_table(pa.table({"id": np.arange(21)}), tmp_path / "a.parquet", row_group_size=4)
    return str(tmp_path)


def mix_of(where, rank, ranks, **options):
    readers = [
        hub.make_reader(where, num_epochs=None, cur_shard=rank, shard_count=ranks, seed=seed, **options)
        for seed in (1, 2)
    ]
    return hub.petastorm.WeightedSamplingReader(readers, [0.5, 0.5])


@pytest.mark.parametrize("predicate", [None, hub.petastorm.in_lambda(["id"], lambda i: i % 3 != 0)])
def test_a_mix_of_uneven_shards_goes_on_from_the_states_of_all_ranks(odd, predicate):
    mixes = [mix_of(odd, rank, 2, predicate=predicate) for rank in (0, 1)]
    for mix in mixes:
        for _ in range(50):
            next(mix)
    states = json.loads(json.dumps([mix.state_dict() for mix in mixes]))
    expected = [[int(next(mix).id) for _ in range(10)] for mix in mixes]
    for rank in (0, 1):
        again = mix_of(odd, rank, 2, predicate=predicate)
        with pytest.raises(hub.errors.ConfigError, match="states of all 2 ranks are needed together"):
            again.load_state_dict(states[rank])
        again.load_state_dict(states)
        assert [int(next(again).id) for _ in range(10)] == expected[rank]


def test_shards_of_a_mix_draw_alike_without_a_seed(odd):
    mixes = [mix_of(odd, rank, 3) for rank in range(3)]
    for mix in mixes:
        for _ in range(6):
            next(mix)
    states = [mix.state_dict() for mix in mixes]
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("states", [[], [{}], [{"seed": 0, "drawn": 1, "readers": []}], 7, [7], "ab"])
def test_what_is_no_state_of_a_mix_is_refused(odd, states):
    with pytest.raises(hub.errors.ConfigError):
        mix_of(odd, 0, 2).load_state_dict(states)
