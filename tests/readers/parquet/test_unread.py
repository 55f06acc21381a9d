"""Bytes of Parquet that a reader leaves unread: those are damaged here, and whoever reads them hears of it."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import SourceError

GROUPS, ROWS = 6, 10


@pytest.fixture
def damaged(tmp_path):
    """Writes a file with a light and a heavy column, and damages columns of row groups."""
    path = tmp_path / "rows.parquet"
    heavy = [np.random.default_rng(i).bytes(5000) for i in range(GROUPS * ROWS)]
    table = pa.table({"id": np.arange(GROUPS * ROWS), "heavy": heavy})
    pq.write_table(table, path, row_group_size=ROWS, use_dictionary=False, compression="zstd")

    def damage(columns, groups):
        result, data = pq.read_metadata(path), bytearray(path.read_bytes())
        for group in groups:
            for column in columns:
                chunk = result.row_group(group).column(column)
                begin = chunk.data_page_offset
                data[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
        path.write_bytes(data)
        with hub.make_reader(str(path)) as reader, pytest.raises(SourceError):
            list(reader)
        return str(path)

    return damage


def ids(path, **options):
    with hub.make_reader(path, shuffle_row_groups=False, **options) as reader:
        return [int(row.id) for row in reader]


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_heavy_columns_are_read_only_of_row_groups_with_a_row_that_passes(damaged, pool):
    path = damaged([1], [0, 2, 3, 5])
    keep = hub.petastorm.in_set([11, 17, 42], "id")
    assert ids(path, predicate=keep, reader_pool_type=pool) == [11, 17, 42]
    with pytest.raises(SourceError, match="row group 2"):
        ids(path, predicate=hub.petastorm.in_set([11, 25], "id"), reader_pool_type=pool)


def test_row_groups_that_statistics_rule_out_are_not_read_at_all(damaged):
    path = damaged([0, 1], [2, 3, 4, 5])
    assert ids(path, filters=[("id", "<", 15)]) == list(range(15))
    with pytest.raises(SourceError, match="row group 2"):
        ids(path, filters=[("id", "<", 21)])


def test_columns_that_are_not_wanted_are_not_read(damaged):
    path = damaged([1], range(GROUPS))
    assert ids(path, schema_fields=["id"]) == list(range(GROUPS * ROWS))


def test_row_groups_that_a_selector_leaves_out_are_not_read(tmp_path):
    fields = [hub.petastorm.UnischemaField("id", np.int64), hub.petastorm.UnischemaField("town", np.str_)]
    with hub.parquet_writer(tmp_path / "d", hub.petastorm.Unischema("Rows", fields), rows_per_row_group=5) as writer:
        writer.write_rows([{"id": np.int64(i), "town": "Ulm" if i < 5 else "Bonn"} for i in range(20)])
    hub.petastorm.build_rowgroup_index(str(tmp_path / "d"), [hub.petastorm.SingleFieldIndexer("by town", "town")])
    (path,) = (tmp_path / "d").glob("*.parquet")
    result, data = pq.read_metadata(path), bytearray(path.read_bytes())
    chunk = result.row_group(2).column(0)
    data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = bytes(
        chunk.total_compressed_size
    )
    state = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert ids(str(tmp_path / "d"), rowgroup_selector=hub.petastorm.SingleIndexSelector("by town", ["Ulm"])) == list(
        range(5)
    )
