"""Tables as Parquet files: what others read in them, and that they come back as they were."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.interop.export.parquet import SCHEMA_KEY
from tests.tables import rows as model

RNG = np.random.default_rng(3)


def test_an_exported_table_is_read_by_others_and_imported_as_it_was(root, tmp_path):
    result = {key: model.drive(key, count) for key, count in (("a", 9), ("b", 0), ("c", 3))}
    table = model.write("me/drives:v1", result, root)
    path = tmp_path / "drives.parquet"
    hub.export("me/drives:v1", path, root=root)
    read = pq.read_table(path)
    assert read.column_names == ["partition", *table.schema]
    assert read["partition"].to_pylist() == ["a"] * 9 + ["c"] * 3
    assert read["lidar"].to_pylist() == [row["lidar"].tolist() for row in table]
    assert read["camera.image"][0].as_py() == table.loader().get_row(0, "camera.image", encoded=True)["camera.image"]
    back = hub.import_table(path, "me/back:v1", root=root)
    assert back.schema == table.schema
    model.assert_rows(list(back), list(table))
    # Partitions without rows are in no row group.
    assert back.partitions == ["a", "c"]


def test_some_columns_are_exported_and_a_file_is_replaced_only_if_it_is_said(root, tmp_path):
    model.write("me/drives:v1", {"a": model.drive("a", 4)}, root)
    path = tmp_path / "drives.parquet"
    hub.export("me/drives:v1", path, columns=["speed", "frame"], root=root)
    assert pq.read_schema(path).names == ["partition", "frame", "speed"]
    with pytest.raises(hub.errors.AlreadyExistsError, match="overwrite"):
        hub.export("me/drives:v1", path, root=root)
    hub.export("me/drives:v1", path, overwrite=True, root=root)
    assert len(pq.read_schema(path)) == 1 + len(model.DRIVES)
    with pytest.raises(hub.errors.ConfigError, match="no column"):
        hub.export("me/drives:v1", tmp_path / "x.parquet", columns="sped", root=root)
    with pytest.raises(hub.errors.ConfigError, match="written as Parquet"):
        hub.export("me/drives:v1", tmp_path / "x.npy", format="npy", root=root)
    with pytest.raises(hub.errors.ConfigError, match="local file"):
        hub.export("me/drives:v1", tmp_path / "x.zarr", root=root)
    assert [item.name for item in tmp_path.iterdir()] == ["drives.parquet"]


def test_what_parquet_has_not_and_arrays_are_refused_by_name(root, tmp_path):
    model.write("me/odd:v1", {"a": [{"z": np.complex64(1)}]}, root, hub.Schema({"z": hub.Field("c8")}))
    with pytest.raises(hub.errors.ConfigError, match="'z': Arrow and Parquet lack complex64"):
        hub.export("me/odd:v1", tmp_path / "x.parquet", root=root)
    hub.array((3,), "me/array:v1", dtype="u1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="is an array"):
        hub.export("me/array:v1", tmp_path / "x.parquet", format="parquet", root=root)


@pytest.mark.parametrize("described", [b"nonsense", b"{}", b'{"fields": [], "rows_per_block": {}}', b"[" * 1000])
def test_a_strangers_schema_in_a_file_is_refused(root, tmp_path, described):
    table = pa.table({"partition": ["a"], "x": [1]})
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: described}), tmp_path / "x.parquet")
    with pytest.raises((hub.errors.SourceError, hub.errors.ConfigError), match="schema"):
        hub.import_table(tmp_path / "x.parquet", "me/x:v1", root=root)
    assert not hub.exists("me/x:v1", root=root)


def test_a_row_group_of_several_partitions_is_refused(root, tmp_path):
    described = json.dumps(hub.Schema({"x": hub.Field("i8")}).to_json()).encode()
    table = pa.table({"partition": ["a", "b"], "x": [1, 2]})
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: described}), tmp_path / "x.parquet")
    with pytest.raises(hub.errors.SourceError, match="row group 0"):
        hub.import_table(tmp_path / "x.parquet", "me/x:v1", root=root)
