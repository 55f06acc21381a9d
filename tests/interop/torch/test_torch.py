"""PyTorch datasets: by index and as streams, under every way of starting workers."""

import functools
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError
from tests.interop import ROWS
from tests.optional import Optional
from tests.rounds import rounds

torch = Optional("torch")
torch_data = Optional("torch.utils.data")


@pytest.fixture
def local_pair(make_root):
    root = make_root("local")
    images = hub.array((ROWS, 4), "t/images:v0", "f4", chunks=(3, 4), root=root)
    images[...] = np.arange(ROWS)[:, None]
    labels = hub.array(ROWS, "t/labels:v0", "i8", chunks=64, root=root)
    labels[...] = np.arange(ROWS)
    return images, labels


def halved(sample):
    image, label = sample
    return {"image": image / 2, "label": int(label)}


def read_all(loader):
    seen = []
    for images, labels in loader:
        assert torch.equal(images[:, 0, 0] if images.ndim == 3 else images[:, 0], labels.float())
        seen += labels.tolist()
    return seen


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("iterable", [False, True])
def test_workers_of_every_kind_read_every_sample_once(pair, iterable, method):
    images, labels = pair
    options = {"num_workers": 2, "multiprocessing_context": method}
    if iterable:
        loader = images.to_pytorch(labels, iterable=True, batch_size=16).loader(**options)
    else:
        dataset = images.to_pytorch(labels)
        loader = torch_data.DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=dataset.collate, **options)
    assert sorted(read_all(loader)) == list(range(ROWS))
    assert len(loader) == -(-ROWS // 16)


@pytest.mark.parametrize("workers", [0, 2, 4])
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_persistent_workers_get_another_order_in_each_epoch(local_pair, workers):
    images, labels = local_pair
    loader = images.to_pytorch(labels, iterable=True, batch_size=16, seed=7).loader(
        num_workers=workers, persistent_workers=workers > 0
    )
    epochs = [read_all(loader) for _ in range(3)]
    assert all(sorted(item) == list(range(ROWS)) for item in epochs)
    assert len({tuple(item) for item in epochs}) == 3
    again = images.to_pytorch(labels, iterable=True, batch_size=16, seed=7).loader(num_workers=workers)
    assert [read_all(again) for _ in range(3)] == epochs


def test_a_plain_loader_differs_by_epoch_too_without_a_seed(local_pair):
    images, labels = local_pair
    loader = torch_data.DataLoader(
        images.to_pytorch(labels, iterable=True, batch_size=16), batch_size=None, num_workers=2
    )
    first, second = read_all(loader), read_all(loader)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second


# Pairs of how many workers there were and are, and how much was taken between: in everyday runs some of them.
LEFT = [(0, 0, 1), (1, 3, 7), (2, 0, 18), (0, 2, 30), (3, 1, 33)]
ALL_LEFT = [(first, second, taken) for first in range(4) for second in range(4) for taken in (1, 7, 18, 30, 33)]


@pytest.mark.parametrize(("workers", "others", "taken"), rounds(LEFT, ALL_LEFT))
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_a_loop_goes_on_exactly_where_it_was_left_with_other_workers(local_pair, workers, others, taken):
    images, labels = local_pair

    def loader(workers):
        stream = images.to_pytorch(labels, iterable=True, batch_size=9, seed=1, buffer_bytes=1 << 10)
        return stream.loader(num_workers=workers)

    expected = loader(0)
    list(expected)
    expected = [label.tolist() for _, label in expected]
    first = loader(workers)
    list(first)
    begun = [label.tolist() for _, label in itertools.islice(first, taken)]
    rest = loader(others)
    rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert begun + [label.tolist() for _, label in rest] == expected


@pytest.mark.parametrize(
    "options", [{"batch_size": 7}, {}, {"batch_size": 5, "transform": halved}, {"transform": halved}]
)
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_how_many_workers_there_are_changes_nothing_that_is_seen(local_pair, options):
    images, labels = local_pair

    def seen(workers):
        stream = images.to_pytorch(labels, iterable=True, seed=3, intervals=4, buffer_bytes=1 << 11, **options)
        return [item["label"] if "transform" in options else item[1] for item in stream.loader(num_workers=workers)]

    alone = [np.asarray(item).tolist() for item in seen(0)]
    for workers in (1, 3):
        assert [np.asarray(item).tolist() for item in seen(workers)] == alone
    flat = [row for item in alone for row in (item if isinstance(item, list) else [item])]
    assert sorted(flat) == list(range(ROWS))


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_a_plain_loader_over_a_stream_gives_every_row_once_whatever_its_workers(local_pair):
    images, labels = local_pair
    for workers in (0, 1, 3):
        stream = images.to_pytorch(labels, iterable=True, batch_size=7, seed=3)
        assert sorted(read_all(torch_data.DataLoader(stream, batch_size=None, num_workers=workers))) == list(
            range(ROWS)
        )


def ranks_of(images, world, **options):
    options = {"seed": 2, "intervals": 8, "shard_balance": "exact", "buffer_bytes": 1 << 10} | options
    return [images.to_pytorch(iterable=True, rank=rank, world_size=world, **options).loader() for rank in range(world)]


def test_global_batches_are_the_same_at_every_world_size_that_divides_intervals_and_batch(local_pair):
    images, _ = local_pair
    steps = {}
    for world in (1, 2, 4, 8):
        ranks = ranks_of(images, world, global_batch_size=24)
        steps[world] = [sorted(int(item[0]) for part in parts for item in part) for parts in zip(*ranks, strict=False)]
    assert steps[1] == steps[2] == steps[4] == steps[8]


def test_an_epoch_goes_on_with_other_numbers_of_ranks(local_pair):
    images, _ = local_pair
    seen, state = [], None
    for world, taken in ((8, 3), (4, 2), (6, 4), (3, None)):
        ranks = ranks_of(images, world, batch_size=3, intervals=8 if world in (8, 4) else None)
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
        for rank in ranks:
            seen += [int(item[0]) for batch in itertools.islice(rank, taken) for item in batch]
        assert len({json.dumps(rank.state_dict()) for rank in ranks}) == 1
        state = ranks[0].state_dict()
        assert len(json.dumps(state)) < 250
    assert sorted(seen) == list(range(ROWS))


def test_what_does_not_fit_the_ranks_is_refused_with_what_does(local_pair):
    images, _ = local_pair
    for options, told in [
        ({"global_batch_size": 25}, "24 or 28 would fit"),
        ({"intervals": 6}, "multiple of the 4 ranks"),
        ({"batch_size": 2, "global_batch_size": 8}, "give batch_size"),
        ({"shard_balance": "even"}, "give 'exact'"),
        ({"shard_balance": "pad", "drop_last": True}, "give only one of them"),
    ]:
        with pytest.raises(ConfigError, match=told):
            ranks_of(images, 4, **options)
    with pytest.raises(hub.errors.NoDataAvailableError, match="no whole step"):
        ranks_of(images, 4, batch_size=100, shard_balance=None)
    with pytest.raises(ConfigError, match="in_order"):
        images.to_pytorch(iterable=True).loader(in_order=False)


def test_a_state_of_another_stream_is_refused(local_pair):
    images, labels = local_pair

    def loader(**options):
        return images.to_pytorch(labels, iterable=True, **({"batch_size": 9, "seed": 1} | options)).loader()

    state = loader().state_dict()
    for options in ({"seed": 2}, {"drop_last": True}, {"shard_balance": "pad"}, {"shuffle": False}):
        with pytest.raises(ConfigError, match="state is of"):
            loader(**options).load_state_dict(state)
    labels[0] = 7
    with pytest.raises(ConfigError, match="state is of"):
        loader().load_state_dict(state)
    with pytest.raises(ConfigError, match="not a state"):
        loader().load_state_dict({})
    for change in ({"cuts": None}, {"cuts": [[1, 9, ROWS + 1]]}, {"epoch": -1}):
        with pytest.raises(ConfigError, match="not a state"):
            loader().load_state_dict(loader().state_dict() | change)


def test_without_a_seed_orders_differ_and_a_state_brings_its_own(local_pair):
    images, labels = local_pair
    left, second = (images.to_pytorch(labels, iterable=True, batch_size=9).loader() for _ in range(2))
    first = read_all(left)
    assert first != read_all(second)
    second.load_state_dict(left.state_dict() | {"epoch": 0})
    assert read_all(second) == first


def test_a_pass_that_is_broken_off_is_followed_by_a_whole_one(local_pair):
    images, labels = local_pair
    loader = images.to_pytorch(labels, iterable=True, batch_size=9).loader()
    next(iter(loader))
    for _ in loader:
        break
    assert sorted(read_all(loader)) == list(range(ROWS))


def test_ranks_share_the_rows_and_get_equally_many(local_pair):
    images, labels = local_pair
    parts = []
    for rank in range(3):
        stream = images.to_pytorch(labels, iterable=True, batch_size=4, seed=1, rank=rank, world_size=3)
        parts.append(read_all(stream.loader()))
    assert len({len(part) for part in parts}) == 1
    assert len({row for part in parts for row in part}) == sum(map(len, parts)) > ROWS - 30


def test_ranks_are_torch_distributeds(local_pair, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert len(local_pair[0].to_pytorch(iterable=True)) == ROWS
    finally:
        torch.distributed.destroy_process_group()


def test_a_transform_gets_numpy_and_gives_anything(local_pair):
    images, labels = local_pair
    by_index = images.to_pytorch(labels, transform=halved)
    assert torch.equal(by_index[8]["image"], torch.full((4,), 4.0))
    batch = next(iter(torch_data.DataLoader(by_index, batch_size=5, collate_fn=by_index.collate)))
    assert batch["image"].shape == (5, 4)
    assert batch["label"].tolist() == [0, 1, 2, 3, 4]
    stream = images.to_pytorch(labels, transform=halved, iterable=True, batch_size=5, shuffle=False)
    assert next(iter(stream))["label"].tolist() == [0, 1, 2, 3, 4]


def test_a_batch_by_index_is_one_request_and_is_not_copied(make_root, forget):
    root = make_root("s3")
    array = hub.array((64, 100), "t/x:v0", "i4", chunks=(1, 100), codec="none", root=root)
    array[...] = np.arange(6400).reshape(64, 100)
    forget()
    dataset = hub.load("t/x:v0", root=root).to_pytorch()
    dataset[0]
    before = hub.stats()
    samples = dataset.__getitems__(list(range(10, 26)))
    assert (hub.stats() - before).gets == 1
    batch = dataset.collate(samples)
    assert batch.data_ptr() == samples[0].data_ptr()
    assert torch.equal(batch, torch.stack(list(samples)))


def test_single_samples_and_pinning_work_and_order_is_kept_without_a_shuffle(local_pair):
    images, labels = local_pair
    stream = images.to_pytorch(labels, iterable=True, shuffle=False)
    assert [int(label) for _, label in stream] == list(range(ROWS))
    dropped = images.to_pytorch(labels, iterable=True, batch_size=64, drop_last=True)
    assert [len(label) for _, label in dropped] == [64] * 4
    assert len(dropped) == 4


def test_a_stream_reads_its_commit_whatever_is_written_meanwhile(local_pair):
    images, labels = local_pair
    stream = images.to_pytorch(labels, iterable=True, batch_size=10)
    images[...] = -1
    assert sorted(read_all(stream)) == list(range(ROWS))


def test_bad_input_is_refused_with_the_names(local_pair, make_root):
    images, labels = local_pair
    root = make_root("local")
    short = hub.array(10, "t/short:v0", "i8", root=root)
    with pytest.raises(ConfigError, match=r"t/images:v0 has 300, t/short:v0 has 10"):
        images.to_pytorch(short)
    with pytest.raises(ConfigError, match="no axes"):
        hub.array((), "t/scalar:v0", root=root).to_pytorch()
    with pytest.raises(ConfigError, match="no tensors of dtype"):
        hub.array(4, "t/text:v0", "U5", root=root).to_pytorch()
    for option, wrong in [
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("batch_size", "3"),
        ("buffer_bytes", 0),
        ("seed", 0.5),
    ]:
        for make in (images.to_tensorflow, functools.partial(images.to_pytorch, iterable=True)):
            with pytest.raises(ConfigError, match=option):
                make(**{option: wrong})
    with pytest.raises(ConfigError, match="together"):
        images.to_pytorch(iterable=True, rank=1)
    with pytest.raises(ConfigError, match="iterable=True"):
        images.to_pytorch(batch_size=3)
    largest = images.to_pytorch(iterable=True, seed=(1 << 63) - 1, batch_size=64).loader()
    largest.load_state_dict(largest.state_dict())
    assert sum(len(item) for item in largest) == ROWS
    with pytest.raises(ConfigError, match="seed=-1"):
        images.to_pytorch(iterable=True, seed=-1)
    with pytest.raises(ConfigError, match="ndarray"):
        images.to_pytorch(np.arange(ROWS))
    with pytest.raises(ConfigError, match="batch_size= belongs"):
        images.to_pytorch(labels, iterable=True).loader(batch_size=3)


def test_an_index_out_of_range_in_a_worker_is_an_index_error(local_pair):
    dataset = local_pair[0].to_pytorch()
    with pytest.raises(IndexError):
        list(torch_data.DataLoader(dataset, sampler=[1, 2, 5000], num_workers=1))


KILLED_WORKER = """
import os, signal, sys
import torch
import hubarray as hub

images, labels = (hub.load(f"t/{name}:v0", root=sys.argv[1]) for name in ("images", "labels"))
items = iter(images.to_pytorch(labels, iterable=True, batch_size=1).loader(num_workers=1, prefetch_factor=1))
next(items)
for child in torch.multiprocessing.active_children():
    os.kill(child.pid, signal.SIGKILL)
list(items)
"""


def test_a_killed_worker_is_an_error_within_seconds(local_pair):
    # PyTorch raises where it waits for the worker or reads from it, and perhaps once more where the signal of its end
    # finds the main thread. The second could hit the test runner, so the program runs in a process of its own.
    root = local_pair[0].root.url
    ended = subprocess.run([sys.executable, "-c", KILLED_WORKER, root], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert re.search(r"exited unexpectedly|killed by signal: Killed|EOFError|ConnectionResetError", ended.stderr)


def test_a_version_that_is_deleted_meanwhile_reads_on_or_says_so(local_pair):
    images, labels = local_pair
    stream = images.to_pytorch(labels, iterable=True, batch_size=10)
    hub.delete("t/images:v0", root=images.root)
    assert sorted(read_all(stream)) == list(range(ROWS))


def test_chunks_that_are_too_large_to_be_mixed_are_said_so(make_root):
    root = make_root("local")
    large = hub.array((64, 1 << 20), "t/large:v0", "u1", chunks=(8, 1 << 20), codec="none", root=root)
    with pytest.warns(UserWarning, match=r"chunks of 8 MB are mixed at a time.*buffer_bytes=268,435,456 mixes 32"):
        large.to_pytorch(iterable=True, buffer_bytes=50 << 20)
    large.to_pytorch(iterable=True, shuffle=False, buffer_bytes=50 << 20)


def test_a_state_of_a_stream_that_workers_iterate_is_refused(local_pair):
    images, labels = local_pair
    stream = images.to_pytorch(labels, iterable=True, batch_size=9, seed=1)
    for _ in zip(range(2), torch_data.DataLoader(stream, batch_size=None, num_workers=2), strict=False):
        pass
    with pytest.raises(ConfigError, match=r"stream\.loader\(num_workers="):
        stream.state_dict()
    assert stream.loader(num_workers=2).state_dict()
