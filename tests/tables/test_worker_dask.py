"""Partitions of one table on Dask: processes of a cluster write, die and are run again, and the table is the same."""

import os

import numpy as np
import pytest
from distributed import Client, LocalCluster, as_completed

import hubarray as hub
from tests.tables import rows as model

KEYS = [f"drive-{i}" for i in range(8)]


def _extract(worker, key, marker=None):
    with worker.partition(key) as p:
        p.extend(model.drive(key, 9))
    if marker is not None and not os.path.exists(marker):
        open(marker, "w").close()
        # Its rows are uploaded, and nobody hears of them.
        os._exit(1)
    return p.part


def _extract_otherwise(worker, key):
    with worker.partition(key) as p:
        p.extend(dict(row, speed=np.float32(-1)) for row in model.drive(key, 9))
    return p.part


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def test_a_cluster_whose_workers_die_writes_the_table_that_one_process_writes(client, s3_root, tmp_path):
    expected = model.write("me/one:v1", {key: model.drive(key, 9) for key in KEYS}, s3_root)
    markers = [None if i % 3 else str(tmp_path / f"died-{i}") for i in range(len(KEYS))]
    with hub.table_writer("me/many:v1", model.schema(), root=s3_root) as w:
        jobs = client.map(_extract, [w.worker()] * len(KEYS), KEYS, markers, pure=False)
        for _, part in as_completed(jobs, with_results=True):
            w.add(part)
    table = hub.load("me/many:v1", root=s3_root)
    assert len(list(tmp_path.iterdir())) == 3
    model.assert_rows(list(table), list(expected))
    assert index_pieces(table) == index_pieces(expected)
    assert hub.verify("me/many", root=s3_root).problems == []


def index_pieces(table):
    """The bytes of every piece of the index."""
    state = table._state()
    (append,) = state.metadata.appends
    first, end = append.first + append.chunk_files, state.metadata.partitions_number(append) + 1
    return [bytes(state._piece(number)[1]) for number in range(first, end)]


@pytest.mark.parametrize("on_duplicate", ["error", "first"])
def test_speculative_runs_add_their_rows_once_and_may_only_disagree_where_the_first_counts(client, root, on_duplicate):
    writer = hub.table_writer("me/twice:v1", model.schema(), on_duplicate=on_duplicate, root=root)
    jobs = client.map(_extract, [writer.worker()] * 2, ["a", "a"], pure=False)
    assert sorted(writer.add(part) for part in client.gather(jobs)) == [False, True]
    other = client.submit(_extract_otherwise, writer.worker(), "a").result()
    if on_duplicate == "error":
        with pytest.raises(hub.errors.ConflictError, match="'a' was written twice, with different rows"):
            writer.add(other)
    else:
        assert not writer.add(other)
    writer.publish()
    model.assert_rows(list(hub.load("me/twice:v1", root=root)), model.drive("a", 9))
