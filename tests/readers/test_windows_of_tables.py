"""Windows in time over tables: they follow a partition, whatever the index became."""

import numpy as np
import pandas as pd
import pytest

import hubarray as hub


def write(name, root, field, parts):
    schema = hub.Schema({"id": hub.Field("i8", index=True), field: hub.Field("i8")})
    with hub.table_writer(name, schema, root=root) as w:
        for key, ids in parts.items():
            with w.partition(key) as p:
                p.extend({"id": i, field: i} for i in ids)
    return hub.read_index(name, root=root)


def pairs(index, root, delta=10, **options):
    gram = hub.NGram({0: ["id"], 1: ["id"]}, delta, "id")
    with hub.make_reader(index, gram, root=root, shuffle_row_groups=False, **options) as reader:
        return [(int(window[0].id), int(window[1].id)) for window in reader]


@pytest.mark.parametrize("how", ["right", "outer"])
def test_of_rows_that_the_first_table_lacks_the_next_one_says_the_partition(root, how):
    left = write("t/l:v0", root, "t", {"p": [0, 1, 2]})
    right = write("t/r:v0", root, "u", {"q": [3, 4, 5], "s": [6, 7, 8], "x": [9, 10, 11]})
    expected = [(a, a + 1) for first in (3, 6, 9) for a in (first, first + 1)]
    assert pairs(right, root) == expected
    result = pairs(hub.join(left, right, on="id", how=how), root)
    assert result == ([(0, 1), (1, 2)] if how == "outer" else []) + expected


def test_an_index_sorted_by_time_over_partitions_has_the_windows_of_each(root):
    index = write("t/two:v0", root, "t", {"a": range(0, 40, 2), "b": range(1, 41, 2)})
    by_time = index.sort_values("id")
    expected = sorted(pairs(index, root, 2))
    assert len(expected) == 38
    assert sorted(pairs(by_time, root, 2)) == expected
    parts = [pairs(by_time, root, 2, cur_shard=rank, shard_count=3) for rank in range(3)]
    assert sorted(pair for part in parts for pair in part) == expected


def test_an_index_whose_rows_go_back_in_time_is_refused(root):
    index = write("t/one:v0", root, "t", {"a": range(20)})
    with pytest.raises(hub.errors.UnsortedRowsError, match="not sorted by 'id'"):
        pairs(index.iloc[::-1], root)


def test_rows_that_come_several_times_make_no_windows(root):
    index = write("t/classes:v0", root, "t", {"a": [0, 1, 2, 3, 4]})
    drawn = hub.balanced(index, by="id", weights={0: 1, 1: 3}, num_rows=8, root=root)
    for source in (drawn, pd.concat([index, index.iloc[2:3]])):
        with pytest.raises(hub.errors.ConfigError, match="occur several times, as with hub"):
            pairs(source, root)


def test_rows_that_cannot_be_read_are_left_out_and_no_window_goes_on_across_them(root, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i in range(3):
        table = pa.table({"id": np.arange(100) + 100 * i, "v": np.arange(100)})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=10, compression="none", use_dictionary=False)
    path = tmp_path / "1.parquet"
    data = bytearray(path.read_bytes())
    begin = pq.ParquetFile(path).metadata.row_group(3).column(0).data_page_offset
    data[begin : begin + 30] = b"\xff" * 30
    path.write_bytes(data)
    for delta, across in ((1, True), (50, True), (1, False)):
        gram = hub.NGram({0: ["id", "v"], 1: ["id"]}, delta, "id", across_row_groups=across)
        with hub.make_reader(str(tmp_path), gram, on_error="skip", shuffle_row_groups=False) as reader:
            result = [(int(window[0].id), int(window[1].id)) for window in reader]
            skipped = reader.diagnostics["rows_skipped"]
        expected = [(i, i + 1) for i in range(299) if not {i, i + 1} & set(range(130, 140))]
        assert result == (expected if across else [pair for pair in expected if pair[0] % 10 != 9])
        assert skipped == 10


def test_of_a_damaged_block_of_a_partition_only_its_windows_are_missing(root):
    schema = hub.Schema({"id": hub.Field("i8"), "v": hub.Field("u1", (3000,))}, rows_per_block={"rest": 8})
    with hub.table_writer("t/harmed:v0", schema, root=root) as w, w.partition("a") as p:
        p.extend({"id": i, "v": np.full(3000, i, "u1")} for i in range(64))
    table = hub.load("t/harmed:v0", root=root)
    hub.flush()
    where = table._record()
    from hubarray.blobs.ref import blob_place
    from hubarray.tables.read.row_fetch import located
    from hubarray.tables.snapshot.snapshot import TableSnapshot

    state = TableSnapshot.of(table._version, where)
    group = table.schema.groups["rest"]
    result, chunks = located(state, group, np.array([20]))
    place = blob_place(state.block_refs(group, chunks, result)[0])
    data = bytearray(root.store.get(place.key))
    data[place.offset + 40] ^= 255
    root.store.put(place.key, bytes(data))
    gram = hub.NGram({0: ["id"], 1: ["id"]}, 1, "id")
    with hub.make_reader(table.index(), gram, root=root, on_error="skip", shuffle_row_groups=False) as reader:
        firsts = [int(window[0].id) for window in reader]
        assert reader.diagnostics["rows_skipped"] == 8
    assert firsts == [i for i in range(63) if not {i, i + 1} & set(range(16, 24))]
