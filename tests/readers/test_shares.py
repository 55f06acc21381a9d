"""Orders that workers do not change, merged indexes, finished readers, and parts of row groups that come apart."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import ReaderStoppedError
from tests.readers.conftest import ROWS


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_change_neither_the_rows_of_a_table_nor_their_order(root, workers):
    schema = hub.Schema({"id": hub.Field("i8", index=True), "x": hub.Field("f4", (3,)), "note": hub.Field(str)})
    with hub.table_writer("t/rows:v0", schema, root=root) as w:
        for part in range(3):
            with w.partition(part) as p:
                p.extend([{"id": part * 50 + i, "x": np.full(3, i, "f4"), "note": str(i)} for i in range(50)])
    for rank in range(2):

        def stream(rank=rank):
            table = hub.load("t/rows:v0", root=root)
            return table.to_pytorch(
                ["id", "note"],
                iterable=True,
                batch_size=8,
                seed=5,
                rank=rank,
                world_size=2,
                intervals=4,
                shard_balance="exact",
            )

        def items(loader):
            return [[(int(i), note) for i, note in zip(batch["id"], batch["note"], strict=True)] for batch in loader]

        alone = items(stream().loader(num_workers=0))
        assert items(stream().loader(num_workers=workers, multiprocessing_context="fork")) == alone
        assert sum(map(len, alone)) == 75


def test_a_merged_index_is_read_row_for_row(root):
    left = hub.Schema({"id": hub.Field("i8", index=True), "x": hub.Field("f4")})
    right = hub.Schema({"id": hub.Field("i8", index=True), "label": hub.Field(str)})
    for name, schema, rows in (
        ("t/sensors:v0", left, [{"id": i, "x": i / 2} for i in range(40)]),
        ("t/labels:v0", right, [{"id": i, "label": f"l{i}"} for i in range(39, -1, -3)]),
    ):
        with hub.table_writer(name, schema, root=root) as w, w.partition("p") as p:
            p.extend(rows)
    first, second = (hub.read_index(name, root=root) for name in ("t/sensors:v0", "t/labels:v0"))
    merged = hub.join(first, second, on=["id"], how="left")
    with hub.make_reader(merged, ["id", "x", "label"], shuffle_row_groups=False, root=root) as reader:
        result = [(int(row.id), float(row.x), row.label) for row in reader]
    assert result == [(i, i / 2, f"l{i}" if i % 3 == 0 else None) for i in range(40)]
    chosen = merged[merged["id"] % 2 == 1]
    with hub.make_batch_reader(chosen, ["id"], seed=1, root=root) as reader:
        assert sorted(i for batch in reader for i in batch.id.tolist()) == list(range(1, 40, 2))


def test_a_finished_reader_gives_nothing_more_until_it_is_reset_and_a_stopped_one_says_so(sample):
    reader = sample.reader(["id"])
    assert len(list(reader)) == ROWS
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(reader)
    assert reader.last_row_consumed
    reader.reset()
    assert len([next(reader) for _ in range(ROWS)]) == ROWS
    reader.stop()
    reader.join()
    for use in (lambda: next(reader), reader.reset):
        with pytest.raises(ReaderStoppedError, match="make another"):
            use()


def test_parts_of_a_row_group_come_apart_and_each_row_once(tmp_path):
    pq.write_table(pa.table({"id": np.arange(1200)}), tmp_path / "rows.parquet", row_group_size=100)
    followed = []
    for parts in (1, 4):
        with hub.make_reader(str(tmp_path / "rows.parquet"), seed=2, shuffle_row_drop_partitions=parts) as reader:
            ids = [int(row.id) for row in reader]
        assert sorted(ids) == list(range(1200))
        groups = [first // 100 for first in ids[:: 100 // parts]]
        followed.append(sum(first == second for first, second in itertools.pairwise(groups)))
    # Of 48 parts about 3 of the 47 that follow another are of the same row group by chance; side by side 36 would be.
    assert followed[0] == 0
    assert followed[1] < 12
