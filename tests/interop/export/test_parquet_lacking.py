"""Tables as Parquet where rows lack a group, or have what Parquet has not."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from tests.tables.rows import write


def test_a_published_merge_whose_rows_lack_a_table_is_exported_and_comes_back(root, tmp_path):
    labels = hub.Schema({"k": hub.Field("i8", index=True), "label": hub.Field(str), "q": hub.Field("f4")})
    write("lab/a:v1", {"p": [{"k": i, "x": i} for i in range(4)]}, root,
          hub.Schema({"k": hub.Field("i8", index=True), "x": hub.Field("i4")}))  # fmt: skip
    write("lab/b:v1", {"p": [{"k": i, "label": str(i), "q": i / 2} for i in range(3)]}, root, labels)
    merged = hub.join(*(hub.read_index(f"lab/{name}:v1", root=root) for name in "ab"), on="k", how="left")
    hub.write_index(merged, "lab/ab:v1", root=root)
    hub.export("lab/ab:v1", tmp_path / "ab.parquet", root=root)
    assert pq.read_table(tmp_path / "ab.parquet")["label"].to_pylist() == ["0", "1", "2", None]
    again = hub.import_table(tmp_path / "ab.parquet", "lab/again:v1", root=root)
    assert [row["q"] for row in again] == [0, 0.5, 1, None]
    assert again.schema["label"].nullable
    assert not again.schema["x"].nullable


def test_bytes_of_a_fixed_length_within_arrays_come_back(root, tmp_path):
    values = [np.array([b"ab", b"c"], "S5"), np.array([b"", b"12345"], "S5")]
    write("lab/s:v1", {"p": [{"s": value} for value in values]}, root, hub.Schema({"s": hub.Field("S5", (2,))}))
    hub.export("lab/s:v1", tmp_path / "s.parquet", root=root)
    again = hub.import_table(tmp_path / "s.parquet", "lab/again:v1", root=root)
    assert [row.tolist() for row in again] == [value.tolist() for value in values]


def test_a_time_beyond_parquet_is_an_error_that_says_which_partition(root, tmp_path):
    schema = hub.Schema({"t": hub.Field("M8[s]"), "x": hub.Field("i4")})
    write("lab/t:v1", {"p": [{"t": np.datetime64(2**62, "s"), "x": 1}]}, root, schema)
    with pytest.raises(hub.errors.ConfigError, match="partition 'p' has a value that Parquet cannot hold"):
        hub.export("lab/t:v1", tmp_path / "t.parquet", root=root)
    assert not (tmp_path / "t.parquet").exists()


def test_columns_of_a_frame_without_a_null_are_no_lists_afterwards(root):
    frame = pd.DataFrame({"i": np.arange(5), "f": np.arange(5) / 2, "s": list("abcde"), "gone": [1, None, 3, 4, 5]})
    table = hub.import_table(frame, "lab/frame:v1", root=root)
    assert [table.schema[name].nullable for name in frame] == [False, False, False, True]
    assert table.loader().get_columns(range(5), ["f"])["f"].mean() == 1
