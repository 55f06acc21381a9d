"""DuckDB and Polars query the index of a table, and loaders take their answers."""

import duckdb
import polars as pl
import pytest

import hubarray as hub
from tests.tables import rows as model


@pytest.fixture
def expected(root):
    result = {key: model.drive(key, 6) for key in ("a", "b")}
    model.write("me/drives:v1", result, root)
    return [row for row in [*result["a"], *result["b"]] if row["frame"] % 2 and row["log_id"] == "b"]


def test_duckdb_queries_an_index(root, expected):
    index = hub.read_index("me/drives:v1", as_="arrow", root=root)
    chosen = duckdb.sql("select * from index where frame % 2 = 1 and log_id = 'b' order by frame")
    loader = hub.row_loader(chosen.to_arrow_table(), root=root)
    model.assert_rows(loader.get_batch(range(len(loader))), expected)
    assert len(index) == 12
    # A query that has not run yet speaks Arrow's C stream, too.
    model.assert_rows(list(hub.row_loader(chosen, root=root).iter_rows()), expected)


def test_polars_queries_an_index(root, expected):
    index = hub.read_index("me/drives:v1", as_="polars", root=root)
    assert isinstance(index, pl.DataFrame)
    chosen = index.filter((pl.col("frame") % 2 == 1) & (pl.col("log_id") == "b"))
    model.assert_rows(list(hub.row_loader(chosen, root=root).iter_rows()), expected)
    table = hub.write_index(chosen, "me/chosen:v1", root=root)
    model.assert_rows(list(table), expected)
