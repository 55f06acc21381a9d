"""A cache of row groups that several readers share while row groups are put out of it and readers are killed."""

import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hubarray as hub

ROWS, GROUP_ROWS = 4000, 100
# About a third of what there is: row groups are put out all the time.
LIMIT = ROWS * 1000 // 3
READER = """
import sys
import hubarray as hub
for epoch in range(1000):
    with hub.make_reader(sys.argv[1], cache_type="local-disk", cache_location=sys.argv[2],
                         cache_size_limit=int(sys.argv[3]), seed=epoch) as reader:
        for i, row in enumerate(reader):
            assert row.x[0] == row.id, (row.id, row.x)
            if i == 0 and epoch == 0:
                print("begun", flush=True)
"""


def dataset(folder):
    ids = np.arange(ROWS)
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids, 125).astype("f8")), 125)
    pq.write_table(pa.table({"id": ids, "x": x}), folder / "rows.parquet", row_group_size=GROUP_ROWS)
    return str(folder / "rows.parquet")


def test_readers_that_are_killed_leave_a_cache_that_others_go_on_with(tmp_path):
    source, cache = dataset(tmp_path), tmp_path / "cache"
    command = [sys.executable, "-c", READER, source, str(cache), str(LIMIT)]
    lasting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert lasting.stdout.readline() == "begun\n"
        for wait in (0.05, 0.2, 0.45):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
                assert killed.stdout.readline() == "begun\n"
                time.sleep(wait)
                killed.send_signal(signal.SIGKILL)
        for _ in range(2):
            with hub.make_reader(
                source, cache_type="local-disk", cache_location=cache, cache_size_limit=LIMIT
            ) as reader:
                rows = [(int(row.id), float(row.x[-1])) for row in reader]
                diagnostics = reader.diagnostics
            assert sorted(rows) == [(i, float(i)) for i in range(ROWS)]
        assert diagnostics["cache_hits"] + diagnostics["cache_misses"] == ROWS // GROUP_ROWS
        assert lasting.poll() is None, "a reader that nobody killed goes on"
        kept = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        assert 0 < kept < 2 * LIMIT, "the limit holds, but for what the killed were writing"
    finally:
        lasting.kill()
        lasting.wait()
