"""Data-parallel runs: real ranks of torch.distributed, that share an epoch and go on as others."""

import json

import numpy as np
import pytest

import hubarray as hub
from tests import forked

IMPORTS = ("torch.distributed", "hubarray.interop.torch.stream")
ROWS = 103

RANK = """
import json, os, sys
import torch, torch.distributed as dist
import hubarray as hub

told = json.loads(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + told["meet"], rank=told["rank"], world_size=told["world"])
if told["reader"]:
    loop = hub.make_reader(told["name"], root=told["root"], seed=3, cur_shard="auto", shard_balance=told["mode"])
else:
    array = hub.load(told["name"], root=told["root"])
    loop = array.to_pytorch(iterable=True, batch_size=4, seed=3, shard_balance=told["mode"]).loader(num_workers=told["workers"])
if told["state"] is not None:
    loop.load_state_dict(told["state"])
rows = []
for step, item in enumerate(loop):
    rows.append([int(item.value)] if told["reader"] else item.tolist())
    if told["take"] is not None and step + 1 == told["take"]:
        break
# Whoever is at another place sees it here: all ranks meet.
steps = torch.tensor([len(rows)])
most, least = steps.clone(), steps.clone()
dist.all_reduce(most, op=dist.ReduceOp.MAX)
dist.all_reduce(least, op=dist.ReduceOp.MIN)
print(json.dumps({"rows": rows, "state": loop.state_dict(), "equal": bool(most == least)}))
dist.destroy_process_group()
"""


def run(tmp_path, root, world, *, mode, reader, take=None, state=None, workers=0):
    meet = tmp_path / f"meet{len(list(tmp_path.iterdir()))}"
    told = {"meet": str(meet), "world": world, "mode": mode, "reader": reader, "take": take, "state": state,
            "name": "t/a:v0", "root": root.url, "workers": workers}  # fmt: skip
    meet.touch()
    ended = forked.run(
        [RANK] * world, arguments=[[json.dumps(told | {"rank": rank})] for rank in range(world)], imports=IMPORTS,
        seconds=100,
    )  # fmt: skip
    assert [item.errors for item in ended if item.status] == []
    return [json.loads(item.output.strip().splitlines()[-1]) for item in ended]


@pytest.fixture
def array(root):
    made = hub.array(ROWS, "t/a:v0", "i8", chunks=5, root=root)
    made[...] = np.arange(ROWS)
    return made


def rows_of(ranks):
    return [row for rank in ranks for item in rank["rows"] for row in item]


@pytest.mark.parametrize("reader", [True, False], ids=["reader", "stream"])
def test_exact_ranks_share_every_row_once(array, root, tmp_path, reader):
    ranks = run(tmp_path, root, 3, mode="exact", reader=reader)
    assert sorted(rows_of(ranks)) == list(range(ROWS))
    sizes = [sum(map(len, rank["rows"])) for rank in ranks]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("reader", [True, False], ids=["reader", "stream"])
def test_dropping_ranks_have_equally_many_batches(array, root, tmp_path, reader):
    ranks = run(tmp_path, root, 4, mode="drop", reader=reader)
    assert all(rank["equal"] for rank in ranks)
    rows = rows_of(ranks)
    assert len(set(rows)) == len(rows) > ROWS - 16


@pytest.mark.parametrize("reader", [True, False], ids=["reader", "stream"])
def test_an_epoch_goes_on_with_another_number_of_ranks(array, root, tmp_path, reader):
    first = run(tmp_path, root, 4, mode="exact", reader=reader, take=3, workers=1)
    states = {json.dumps(rank["state"]) for rank in first}
    assert len(states) == 1
    assert len(states.pop()) < 300
    rest = run(tmp_path, root, 2, mode="exact", reader=reader, state=first[0]["state"])
    assert sorted(rows_of(first) + rows_of(rest)) == list(range(ROWS))
