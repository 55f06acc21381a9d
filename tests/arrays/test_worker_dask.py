"""Workers of one transaction on Dask: processes of a cluster write, one commit shows it all."""

import os

import numpy as np
import pytest

import hubarray as hub


def _fill(worker, rows):
    with worker as w:
        w[rows] = np.arange(*rows.indices(40))[:, None]
    return w.part, os.getpid()


def _die_once(worker, rows, marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(1)
    return _fill(worker, rows)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_dask_workers_write_one_commit_and_one_that_dies_is_run_again(kind, make_root, tmp_path):
    from distributed import Client, LocalCluster

    root = make_root(kind)
    array = hub.array((40, 6), "t/x:v0", "i8", chunks=(7, 6), root=root)
    marker = str(tmp_path / "died")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        with array.transaction("by a cluster") as t:
            parts = [slice(start, start + 10) for start in range(0, 40, 10)]
            futures = [client.submit(_fill, t.worker(), rows, pure=False) for rows in parts[1:]]
            futures.append(client.submit(_die_once, t.worker(), parts[0], marker, pure=False))
            results = client.gather(futures)
            for part, _ in results:
                t.add(part)
        assert client.submit(lambda a: int(a[...].sum()), array).result() == 6 * sum(range(40))
    assert {pid for _, pid in results} - {os.getpid()}
    assert array[:, 0].tolist() == list(range(40))
    assert array.commit == 2
    assert hub.verify("t/x", root=root).problems == []
