"""Columns of a loader as tables of Arrow."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.format.arrow_columns import arrow_column, arrow_type
from tests.tables import rows as model
from tests.tables.strategies import fields, values

NAMES = ("a", "b", "t")


def expected(loader, positions, names):
    """The same, from rows."""
    rows = loader.get_batch(positions, names, encoded=True)
    columns, schema = {}, loader.tables()[0].metadata.schema
    for name in names:
        field = schema[name]
        columns[name] = arrow_column(arrow_type(name, field), field, [row[name] for row in rows])
    return pa.table(columns)


def text_of(table):
    return str(table.schema), [model.arrow_text(column) for column in table.columns]


@given(st.data())
@settings(max_examples=25)
def test_columns_of_arrow_are_those_of_rows(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("root")
    made = {name: data.draw(fields().filter(lambda field: field.dtype != np.dtype("c8"))) for name in NAMES}
    made["t"] = hub.Field(data.draw(st.sampled_from([str, bytes])), nullable=data.draw(st.booleans()), group="t")
    size = data.draw(st.sampled_from([1, 2, 16]))
    count = data.draw(st.integers(1, 12))
    rows = [{name: data.draw(values(field)) for name, field in made.items()} for _ in range(count)]
    table = model.write("lab/t:v1", {"p": rows}, root, hub.Schema(made, rows_per_block=size))
    loader = table.loader()
    positions = data.draw(st.lists(st.integers(0, count - 1), max_size=20) | st.just(range(count)))
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    result = loader.get_columns(positions, names, as_="arrow")
    result.validate(full=True)
    assert sorted(result.column_names) == sorted(names)
    assert text_of(result) == text_of(expected(loader, positions, result.column_names))
    parts = list(loader.iter_columns(names, positions=positions, rows=data.draw(st.integers(1, 9)), as_="arrow"))
    assert not parts or text_of(pa.concat_tables(parts)) == text_of(result)
    assert sum(map(len, parts)) == len(positions)


def test_columns_of_the_index_and_images_as_they_are_stored_are_there(root):
    rows = model.drive("a", 10)
    loader = model.write("lab/drives:v1", {"a": rows}, root).loader()
    result = loader.get_columns([7, 3, 3], as_="arrow")
    assert text_of(result) == text_of(expected(loader, [7, 3, 3], loader.columns))
    assert result["weight"].to_pylist() == [3.5, None, None]
    assert result["camera.image"][0].as_py() == loader.get_row(7, "camera.image", encoded=True)["camera.image"]


def test_an_image_of_a_fixed_shape_is_its_file_too(root):
    schema = hub.Schema({"image": hub.Field("u1", (4, 5, 3), codec="png")})
    loader = model.write("lab/t:v1", {"a": [{"image": np.ones((4, 5, 3), "u1")}] * 3}, root, schema).loader()
    assert loader.get_columns(range(3), as_="arrow")["image"].type == pa.binary()
    assert text_of(loader.get_columns([2], as_="arrow")) == text_of(expected(loader, [2], ["image"]))


def test_rows_without_a_table_of_a_join_are_null(root):
    frames = model.write("lab/drives:v1", {"a": model.drive("a", 6)}, root)
    notes = hub.Schema({"frame": hub.Field("i8", index=True), "label.text": hub.Field(str), "label.x": hub.Field("f4")})
    model.write(
        "lab/notes:v1", {"a": [{"frame": i, "label.text": f"note {i}", "label.x": i} for i in (4, 1)]}, root, notes
    )
    index = hub.join(frames.index(), hub.read_index("lab/notes:v1", root=root), on="frame", how="left")
    loader = hub.row_loader(index, root)
    result = loader.get_columns(range(6), ["frame", "label.*"], as_="arrow")
    assert result["label.text"].to_pylist() == [None, "note 1", None, None, "note 4", None]
    assert result["label.x"].to_pylist() == [None, 1, None, None, 4, None]
    assert result["frame"].to_pylist() == [*range(6)]


@pytest.mark.parametrize(
    ("one", "two", "value"),
    [
        (hub.Field("f4"), hub.Field("f8"), 0.1),
        (hub.Field("u1", (2, 2, 3)), hub.Field("u1", (2, 2, 3), codec="png"), np.ones((2, 2, 3), "u1")),
    ],
)
def test_a_column_that_tables_store_in_several_types_is_refused(root, one, two, value):
    for name, field in (("one", one), ("two", two)):
        schema = hub.Schema({"frame": hub.Field("i8", index=True), "x": field})
        model.write(f"lab/{name}:v1", {"a": [{"frame": 1, "x": value}]}, root, schema)
    index = pd.concat([hub.read_index(f"lab/{name}:v1", root=root) for name in ("one", "two")])
    loader = hub.row_loader(index, root)
    assert len(loader.get_columns([0, 1], "x")["x"]) == 2
    with pytest.raises(
        hub.errors.ConfigError, match=r"'x': its tables have Field.* and Field.*; leave it out, or read it as NumPy"
    ):
        loader.get_columns([0, 1], "x", as_="arrow")


def test_what_arrow_lacks_or_cannot_hold_is_refused_by_column(root):
    schema = hub.Schema({"z": hub.Field("c8"), "time": hub.Field("M8[s]")})
    rows = [{"z": 1j, "time": np.datetime64(1 << 60, "s")}]
    loader = model.write("lab/t:v1", {"a": rows}, root, schema).loader()
    with pytest.raises(hub.errors.ConfigError, match="'z': Arrow and Parquet lack complex64"):
        loader.get_columns([0], as_="arrow")
    with pytest.raises(hub.errors.ConfigError, match="column 'time': Arrow cannot hold a value as timestamp"):
        list(loader.iter_columns("time", as_="arrow"))
    with pytest.raises(hub.errors.ConfigError, match="'arrow' for columns"):
        loader.get_row(0, as_="arrow")


def test_text_is_in_few_chunks_and_keeps_no_more_than_its_rows_in_memory(root):
    schema = hub.Schema({"s": hub.Field(str)}, rows_per_block=64)
    rows = [{"s": "x" * 1000 + str(i)} for i in range(2000)]
    loader = model.write("lab/t:v1", {"a": rows}, root, schema).loader()
    whole = loader.get_columns(range(2000), as_="arrow")["s"]
    assert whole.num_chunks < 10
    assert whole.to_pylist() == [row["s"] for row in rows]
    scattered = loader.get_columns(range(3, 2000, 64), as_="arrow")["s"]
    assert scattered.num_chunks == 1
    assert scattered.get_total_buffer_size() < 1100 * len(scattered)
    assert scattered.to_pylist() == [row["s"] for row in rows[3::64]]
