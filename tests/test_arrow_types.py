"""Columns of Arrow mean the same in whatever layout a writer left them, in every way in."""

import io
import json

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imagecodecs import jpeg_encode, png_encode
from PIL import Image

import hubarray as hub
from hubarray.arrow_types import class_names, plain_type

TEXTS, CHUNKS = ["a", None, "b" * 50], [b"a", None, b"c" * 40]
LISTS = [[1, 2], None, [3]]
RNG = np.random.default_rng(1)


def columns():
    """Columns of odd layouts, and what they hold."""
    return {
        "text": (pa.array(TEXTS, pa.string_view()), TEXTS),
        "bytes": (pa.array(CHUNKS, pa.binary_view()), CHUNKS),
        "lists": (pa.array(LISTS, pa.list_view(pa.int32())), LISTS),
        "large lists": (pa.array(LISTS, pa.large_list_view(pa.int32())), LISTS),
        "texts": (pa.array([["a", "bc"], None, []], pa.list_(pa.string_view())), [["a", "bc"], None, []]),
        "files": (pa.array([{"bytes": item, "path": None} for item in CHUNKS]), CHUNKS),
        "views of files": (
            pa.array(
                [None if item is None else {"bytes": item, "path": "x"} for item in CHUNKS],
                pa.struct({"bytes": pa.binary_view(), "path": pa.string_view()}),
            ),
            CHUNKS,
        ),
    }


def listed(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", columns())
def test_a_reader_gives_the_values_that_a_view_or_a_wrapping_holds(tmp_path, name):
    column, expected = columns()[name]
    pq.write_table(pa.table({"id": [0, 1, 2], "x": column}), tmp_path / "a.parquet")
    with hub.make_reader(tmp_path, shuffle_row_groups=False) as reader:
        assert [listed(row.x) for row in reader] == expected
    with hub.make_batch_reader(tmp_path, ["x"], shuffle_row_groups=False) as reader:
        assert [listed(item) for batch in reader for item in batch.x] == expected


@pytest.mark.parametrize("name", [name for name in columns() if name != "texts"])
@pytest.mark.parametrize("way", ["file", "frame", "append"])
def test_a_table_has_the_values_that_a_view_or_a_wrapping_holds(tmp_path, root, name, way):
    column, expected = columns()[name]
    frame = pa.table({"id": [0, 1, 2], "x": column})
    if way == "file":
        pq.write_table(frame, tmp_path / "a.parquet")
        table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    elif way == "frame":
        table = hub.import_table(frame, "lab/t:v1", root=root)
    else:
        schema = hub.import_table(frame, "lab/like:v1", root=root).schema
        with hub.table_writer("lab/t:v1", schema, root=root) as writer, writer.partition("p") as part:
            part.extend(frame)
        table = hub.load("lab/t:v1", root=root)
    assert [listed(row["x"]) for row in table] == expected


def test_text_that_a_dictionary_repeats_is_counted_and_read_through_a_view(tmp_path):
    column = pa.array(["u" * 500] * 1000, pa.string_view())
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet")
    with hub.make_reader(tmp_path) as reader:
        assert {row.x for row in reader} == {"u" * 500}
    with (
        hub.make_reader(tmp_path, max_decoded_bytes=100_000) as reader,
        pytest.raises(hub.errors.SourceError, match="decodes to more"),
    ):
        next(reader)


def of_datasets(values, shape, *, told=None):
    """A column as Hugging Face's datasets keep an array of several axes."""
    metadata = {
        b"ARROW:extension:name": b"datasets.features.features.Array2DExtensionType",
        b"ARROW:extension:metadata": json.dumps([shape, "int64"]).encode() if told is None else told,
    }
    schema = pa.schema([pa.field("x", pa.list_(pa.list_(pa.int64())), metadata=metadata)])
    return pa.table([pa.array(values, schema.field(0).type)], schema=schema)


def test_arrays_of_hugging_face_have_their_axes(tmp_path, root):
    values = np.arange(12).reshape(2, 2, 3).tolist()
    pq.write_table(of_datasets(values, [2, 3]), tmp_path / "a.parquet")
    with hub.make_reader(tmp_path, shuffle_row_groups=False) as reader:
        assert reader.schema.x.shape == (2, 3)
        assert [row.x.tolist() for row in reader] == values
    table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    assert table.schema["x"].shape == (2, 3)
    assert [value.tolist() for value in table] == values


def test_an_axis_of_hugging_face_may_be_of_any_length(tmp_path, root):
    values = [[[1, 2]], [[3, 4], [5, 6]]]
    pq.write_table(of_datasets(values, [None, 2]), tmp_path / "a.parquet")
    table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    assert table.schema["x"].shape == (None, 2)
    assert [value.tolist() for value in table] == values


@pytest.mark.parametrize(
    ("shape", "values", "error"),
    [
        ([3, 3], [[[1, 2]], [[3, 4]]], hub.errors.SourceError),
        ([2**30, 2**30], [None, None], hub.errors.SourceError),
        ([2, 2**30], [[[1, 2]], None], hub.errors.SourceError),
    ],
)
def test_a_shape_that_the_values_do_not_have_is_refused_before_it_takes_room(tmp_path, root, shape, values, error):
    pq.write_table(of_datasets(values, shape), tmp_path / "a.parquet")
    with hub.make_reader(tmp_path) as reader, pytest.raises(error):
        list(reader)
    with pytest.raises(hub.HubError):
        hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    assert not hub.exists("lab/t:v1", root=root)


@pytest.mark.parametrize(
    "told", [b"", b"{}", b"[[2], 1]", b'[["a", 2], "x"]', b"[[0, 2]]", b"[[true, 2]]", b"[" * 10_000]
)
def test_a_shape_that_is_none_leaves_lists_within_lists(tmp_path, told):
    table = of_datasets([[[1, 2]]], [1, 2], told=told)
    assert plain_type(table.schema.field(0)) == table.schema.field(0).type


def encoded(values, kind="png"):
    return png_encode(values) if kind == "png" else jpeg_encode(values)


def images(*files):
    return pa.array([None if file is None else {"bytes": file, "path": "x"} for file in files])


@pytest.mark.parametrize("way", ["file", "frame"])
def test_images_of_hugging_face_are_imported_as_images_whose_files_are_kept(tmp_path, root, way):
    pictures = [RNG.integers(0, 255, (4 + i, 5, 3), "u1") for i in range(3)]
    files = [encoded(item, "jpeg") for item in pictures]
    frame = pa.table({"image": images(*files), "label": [0, 1, 0]})
    pq.write_table(frame, tmp_path / "a.parquet", row_group_size=2)
    table = hub.import_table(tmp_path / "a.parquet" if way == "file" else frame, "lab/t:v1", root=root)
    assert table.schema["image"].codec["name"] == "jpeg"
    assert [bytes(row["image"]) for row in table.loader().get_batch(range(3), ["image"], encoded=True)] == files


def test_what_comes_after_jpeg_and_is_none_is_refused_and_not_changed(tmp_path, root):
    picture = RNG.integers(0, 255, (4, 5, 3), "u1")
    files = images(encoded(picture, "jpeg"), encoded(picture))
    pq.write_table(pa.table({"image": files}), tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(hub.errors.SourceError, match=r"'image' of row 1: is not a JPEG.*codec png"):
        hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    schema = {"image": hub.Field("u1", (None, None, 3), codec="png")}
    table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", schema, root=root)
    np.testing.assert_array_equal(table[1], picture)


def test_sounds_of_hugging_face_keep_the_bytes_of_their_files(tmp_path, root):
    pq.write_table(pa.table({"audio": images(b"RIFF....WAVE", None)}), tmp_path / "a.parquet")
    table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    assert list(table) == [b"RIFF....WAVE", None]


@pytest.mark.parametrize("way", ["reader", "file", "frame"])
def test_a_file_of_which_only_the_path_is_there_is_refused(tmp_path, root, way):
    frame = pa.table(
        {"image": [{"bytes": encoded(np.zeros((2, 2), "u1")), "path": None}, {"bytes": None, "path": "b"}]}
    )
    pq.write_table(frame, tmp_path / "a.parquet")

    def read():
        if way == "reader":
            with hub.make_reader(tmp_path) as reader:
                return list(reader)
        return hub.import_table(tmp_path / "a.parquet" if way == "file" else frame, "lab/t:v1", root=root)

    with pytest.raises(hub.HubError, match=r"'image'.*row 1 names a file, 'b', and does not have its bytes"):
        read()


def test_images_of_a_frame_are_cut_by_its_key(root):
    pictures = [RNG.integers(0, 255, (2, 3, 3), "u1") for _ in range(4)]
    frame = pa.table({"image": images(*map(encoded, pictures)), "key": ["a", "b", "a", "b"]})
    table = hub.import_table(frame, "lab/t:v1", key="key", root=root)
    assert table.partitions == ["a", "b"]
    for row, i in zip(table, (0, 2, 1, 3), strict=True):
        np.testing.assert_array_equal(row["image"], pictures[i])


@pytest.mark.parametrize("way", ["file", "frame"])
def test_names_of_classes_become_an_attribute(tmp_path, root, way):
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "x": {"dtype": "int64", "_type": "Value"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    frame = pa.table({"label": [1, 0], "x": [1, 2]}).replace_schema_metadata(metadata)
    pq.write_table(frame, tmp_path / "a.parquet")
    source = tmp_path / "a.parquet" if way == "file" else frame
    table = hub.import_table(source, "lab/t:v1", attrs={"by": "me"}, root=root)
    assert dict(table.attrs) == {"class_names": {"label": ["cat", "dog"]}, "by": "me"}


@pytest.mark.parametrize(
    "told",
    [
        b"", b"[]", b"{", b'{"info": 1}', b'{"info": {"features": []}}', b'{"info": {"features": {"x": 1}}}', b"[" * 10**5,
        b'{"info": {"features": {"x": {"_type": "ClassLabel", "names": [1]}}}}', b"\xff",
    ],
)  # fmt: skip
def test_names_of_classes_that_are_none_are_passed_over(told):
    assert class_names({b"huggingface": told}) == {}


def test_whoever_asks_for_a_column_that_was_left_out_is_told_why(tmp_path):
    pq.write_table(pa.table({"id": [1], "x": [{"a": 1}]}), tmp_path / "a.parquet")
    why = r"column 'x' of struct<a: int64> has no NumPy type, and is left out"
    with pytest.warns(UserWarning, match=why), pytest.raises(hub.errors.ConfigError, match=why):
        hub.make_reader(tmp_path, ["id", "x"])
    with pytest.warns(UserWarning, match=why), pytest.raises(hub.errors.ConfigError, match=why):
        hub.make_reader(tmp_path, filters=[("x", "=", 1)])
    with pytest.warns(UserWarning, match=why), pytest.raises(hub.errors.ConfigError, match=why):
        hub.make_reader(tmp_path, predicate=hub.petastorm.in_set([1], "x"))


def test_a_file_of_which_every_column_is_left_out_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [{"a": 1}]}), tmp_path / "a.parquet")
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(hub.errors.ConfigError, match=r"'x' of struct.*no NumPy type"),
    ):
        hub.make_reader(tmp_path)


def test_a_frame_of_polars_that_parquet_keeps_as_views_comes_back(tmp_path, root):
    sink = io.BytesIO()
    polars.DataFrame({"s": ["a", "b"], "v": [[1], [2, 3]]}).write_parquet(sink)
    (tmp_path / "a.parquet").write_bytes(sink.getvalue())
    with hub.make_reader(tmp_path, shuffle_row_groups=False) as reader:
        assert [(row.s, row.v.tolist()) for row in reader] == [("a", [1]), ("b", [2, 3])]


@pytest.mark.parametrize("kind", [pa.list_view(pa.int32()), pa.large_list_view(pa.int32())])
def test_a_part_of_views_of_lists_is_that_part(root, kind):
    frame = pa.table({"x": pa.array([[1, 2], [3], None, [], [4, 5, 6]], kind)})
    table = hub.import_table(frame.slice(1), "lab/t:v1", root=root)
    assert [listed(item) for item in table] == [[3], None, [], [4, 5, 6]]


def paletted(colours):
    image = Image.new("P", (2, 2))
    image.putdata([0, 1, 2, 3])
    image.putpalette(colours)
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


LATER = {
    "another palette": (paletted([0, 0, 0, 9, 9, 9]), paletted([5, 5, 5, 9, 9, 9]), "another palette"),
    "other bits": (encoded(np.full((2, 2), 3000, "u2")), encoded(np.full((2, 2), 3, "u1")), "other bits"),
    "fewer bits": (encoded(np.full((2, 2), 3, "u1")), encoded(np.full((2, 2), 3, "u2")), "other bits"),
    "colours": (encoded(np.zeros((2, 2), "u1")), encoded(np.zeros((2, 2, 3), "u1")), "channels"),
}


@pytest.mark.parametrize("name", LATER)
def test_images_that_are_unlike_those_before_them_are_refused_in_whatever_row_group(tmp_path, root, name):
    first, second, why = LATER[name]
    pq.write_table(pa.table({"image": images(first, second)}), tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(hub.errors.SourceError, match=why):
        hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    assert not hub.exists("lab/t:v1", root=root)


def test_the_first_image_that_is_there_decides(tmp_path, root):
    picture = RNG.integers(0, 255, (2, 3, 3), "u1")
    pq.write_table(pa.table({"image": images(None, encoded(picture))}), tmp_path / "a.parquet", row_group_size=1)
    table = hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root)
    np.testing.assert_array_equal(table[1], picture)


@pytest.mark.parametrize("names", [["x" * 20] * 5000, ["\ud800"]])
def test_names_of_classes_that_no_attribute_holds_are_left_out_and_that_is_said(tmp_path, root, capsys, names):
    features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    frame = pa.table({"label": [0]}).replace_schema_metadata({b"huggingface": json.dumps(features).encode()})
    pq.write_table(frame, tmp_path / "a.parquet")
    assert dict(hub.import_table(tmp_path / "a.parquet", "lab/t:v1", root=root).attrs) == {}
    assert "names of classes are left out" in capsys.readouterr().err


def test_more_axes_than_lists_leave_the_lists(tmp_path):
    table = of_datasets([[[1, 2]]], [2, 2, 2, 2])
    assert plain_type(table.schema.field(0)) == table.schema.field(0).type
