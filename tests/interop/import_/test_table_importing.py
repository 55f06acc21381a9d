"""Tables of what is elsewhere: Parquet, frames, a CSV beside its images, images in class folders."""

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from imagecodecs import jpeg_encode, png_encode

import hubarray as hub
from hubarray.tables.write.worker import TablePartition

RNG = np.random.default_rng(0)


def some(rows, first=0):
    return pa.table(
        {
            "id": pa.array(range(first, first + rows), pa.int64()),
            "when": pa.array([None, *range(1, rows)], pa.timestamp("s")),
            "name": [f"row {i}" for i in range(rows)],
            "vector": pa.array([[float(j) for j in range(i % 3)] for i in range(rows)], pa.list_(pa.float32())),
            "box": pa.array([[i, 1, 2, 3] for i in range(rows)], pa.list_(pa.int16(), 4)),
            "raw": [b"x" * i for i in range(rows)],
        }
    )


def assert_same(rows, table):
    assert len(rows) == len(table)
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        for name, value in expected.items():
            if name == "when":
                assert (row[name] is None) == (value is None)
            elif isinstance(value, list):
                assert row[name].tolist() == value
            else:
                assert row[name] == value


def test_a_parquet_file_is_a_partition_and_the_schema_is_shown(tmp_path, root, capsys):
    pq.write_table(some(10), tmp_path / "day.parquet", row_group_size=3)
    table = hub.import_table(tmp_path / "day.parquet", "lab/day:v1", root=root)
    assert_same(table[:], some(10))
    assert table.partitions == ["day"]
    assert "vector: Field('float32', (None,), nullable=True)" in capsys.readouterr().err
    index = hub.read_index("lab/day:v1", root=root)
    assert index["name"].tolist() == some(10)["name"].to_pylist()


def test_hive_folders_become_columns_and_an_import_is_resumed_by_partition(tmp_path, root, monkeypatch):
    for i, day in enumerate(["mon", "tue", "wed"]):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(some(4, 10 * i), tmp_path / f"day={day}" / "part-0.parquet")
    broken = tmp_path / "day=wed" / "part-0.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(hub.errors.SourceError, match=r"day=wed/part-0\.parquet"):
        hub.import_table(tmp_path, "lab/days:v1", root=root, resume=True)
    assert not hub.exists("lab/days:v1", root=root)
    broken.write_bytes(whole)
    (tmp_path / "day=mon" / "part-0.parquet").touch()
    begun = []
    enter = TablePartition.__enter__
    monkeypatch.setattr(TablePartition, "__enter__", lambda one: begun.append(one.key) or enter(one))
    table = hub.import_table(tmp_path, "lab/days:v1", root=root, resume=True)
    assert begun == ["day=wed/part-0"], "the others are there"
    assert [row["day"] for row in table] == ["mon"] * 4 + ["tue"] * 4 + ["wed"] * 4
    assert [row["id"] for row in table] == [*range(4), *range(10, 14), *range(20, 24)]


def test_files_with_other_columns_are_refused_by_name(tmp_path, root):
    pq.write_table(some(2), tmp_path / "a.parquet")
    pq.write_table(some(2).drop_columns("raw"), tmp_path / "b.parquet")
    with pytest.raises(hub.errors.SourceError, match=r"b\.parquet: has other columns than a"):
        hub.import_table(tmp_path, "lab/t:v1", root=root)


def test_frames_are_cut_by_the_column_that_is_the_key(root):
    frame = pd.DataFrame({"drive": ["b", "a", "b"], "n": [1, 2, 3]})
    table = hub.import_table(frame, "lab/frame:v1", key="drive", root=root)
    assert table.partitions == ["a", "b"]
    assert [row["n"] for row in table] == [2, 1, 3]
    assert_same(hub.import_table(some(5), "lab/arrow:v1", root=root)[:], some(5))


def images(folder):
    pixels = {}
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for i in range(3):
            pixels[f"{label}/{i}.png"] = RNG.integers(0, 255, (4 + i, 5, 3), "u1")
            (folder / label / f"{i}.png").write_bytes(png_encode(pixels[f"{label}/{i}.png"]))
    grey = RNG.integers(0, 255, (6, 5), "u1")
    (folder / "cat" / "grey.png").write_bytes(png_encode(grey))
    pixels["cat/grey.png"] = np.stack([grey] * 3, axis=-1)
    return pixels


def test_images_of_unequal_size_in_class_folders_keep_their_pixels(tmp_path, root):
    pixels = images(tmp_path / "pets")
    photo = jpeg_encode(RNG.integers(0, 255, (8, 8, 3), "u1"))
    (tmp_path / "pets" / "dog" / "photo.jpg").write_bytes(photo)
    table = hub.import_table(tmp_path / "pets", "lab/pets:v1", root=root)
    assert table.partitions == ["cat", "dog"]
    assert len(table) == 8
    for row in table:
        assert row["label"] == row["path"].partition("/")[0]
        if row["path"] in pixels:
            np.testing.assert_array_equal(row["image"], pixels[row["path"]])


def test_a_csv_beside_its_images(tmp_path, root):
    pixels = images(tmp_path / "pets")
    lines = ["file,score,age"] + [f"pets/{path},{i / 2},{i}" for i, path in enumerate(pixels)]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    table = hub.import_table(tmp_path / "labels.csv", "lab/labels:v1", root=root)
    for i, (row, path) in enumerate(zip(table, pixels, strict=True)):
        assert (row["file"], row["score"], row["age"]) == (f"pets/{path}", i / 2, i)
        np.testing.assert_array_equal(row["image"], pixels[path])


def test_links_out_of_a_folder_and_what_is_no_image_are_refused(tmp_path, root):
    pixels = images(tmp_path / "pets")
    (tmp_path / "secret.png").write_bytes(png_encode(pixels["cat/0.png"]))
    os.symlink(tmp_path / "secret.png", tmp_path / "pets" / "cat" / "link.png")
    with pytest.raises(hub.errors.SourceError, match="leads out of"):
        hub.import_table(tmp_path / "pets", "lab/pets:v1", root=root)
    (tmp_path / "pets" / "cat" / "link.png").unlink()
    (tmp_path / "pets" / "cat" / "0.png").write_bytes(b"%!PS-Adobe")
    with pytest.raises(hub.errors.SourceError, match=r"cat/0\.png"):
        hub.import_table(tmp_path / "pets", "lab/pets:v1", root=root)
    assert not hub.exists("lab/pets:v1", root=root)


@pytest.mark.parametrize("version", ["0.5.1", "0.7.6"])
def test_a_petastorm_dataset_becomes_a_table_of_its_unischemas_fields(version, root):
    place = Path(__file__).parents[2] / "golden" / "petastorm" / version
    table = hub.import_table(place, "me/petastorm:v1", root=root)
    assert len(table.partition_rows) == 2
    with hub.make_reader(place, shuffle_row_groups=False) as reader:
        rows = {int(row.id): row for row in reader}
    assert len(table) == len(rows)
    for i in range(len(table)):
        result = table[i]
        row = rows[int(result["id"])]
        for name in row._fields:
            expected, value = getattr(row, name), result[name]
            if expected is None or isinstance(expected, Decimal):
                assert value == (None if expected is None else str(expected))
            elif isinstance(expected, np.ndarray):
                assert np.array_equal(np.asarray(value), expected)
            else:
                assert value == expected
    assert {"id", "sensor_name", "id_odd"} - {"sensor_name"} <= set(table.index().columns)


def csv_of(folder, text, **options):
    (folder / "x.csv").write_text(text)
    return hub.import_table(folder / "x.csv", "lab/csv:v1", root=options.pop("root"), **options)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["00123", "7"], ["00123", "7"]),
        (["12345678901234567890", "1"], [12345678901234567890, 1]),
        (["123456789012345678901234567890", "1"], ["123456789012345678901234567890", "1"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["9" * 5000, "2"], ["9" * 5000, "2"]),
        (["9" * 400, "0.5"], ["9" * 400, "0.5"]),
        (["-0", "1.5"], [-0.0, 1.5]),
        (["9007199254740993", "0.5"], ["9007199254740993", "0.5"]),
        (["1", "", "-3"], [1, None, -3]),
        (["1.5", "", "nan"], [1.5, None, np.nan]),
        (["a", ""], ["a", ""]),
    ],
    ids=lambda cells: str(cells)[:40],
)
def test_cells_of_a_csv_are_numbers_only_where_they_stay_what_they_are(tmp_path, root, cells, values):
    table = csv_of(tmp_path, "id,v\n" + "".join(f"x,{cell}\n" for cell in cells), root=root)
    result = [row["v"] for row in table]
    assert [type(item) for item in result if isinstance(item, str)] == [
        str for value in values if isinstance(value, str)
    ]
    assert [repr(item if item is None or isinstance(item, str) else item.item()) for item in result] == list(
        map(repr, values)
    )


def test_a_csv_is_cut_by_a_column_of_numbers_and_may_have_semicolons(tmp_path, root):
    table = csv_of(tmp_path, "id;v\n2;a\n1;b\n2;c\n", root=root, key="id")
    assert table.partitions == [1, 2]
    assert [row["v"] for row in table] == ["b", "a", "c"]


def test_a_csv_may_lack_some_images(tmp_path, root):
    pixels = RNG.integers(0, 255, (4, 5, 3), "u1")
    (tmp_path / "a.png").write_bytes(png_encode(pixels))
    table = csv_of(tmp_path, "file,n\n,1\na.png,2\n", root=root)
    assert table[0]["image"] is None
    assert np.array_equal(table[1]["image"], pixels)


def test_a_column_called_partition_is_to_be_the_key_under_another_name(tmp_path, root):
    with pytest.raises(hub.errors.ConfigError, match="rename it, and give key= its new name"):
        csv_of(tmp_path, "partition,v\na,1\n", root=root)


def test_frames_of_polars_and_their_views_are_tables(root):
    import polars

    table = hub.import_table(polars.DataFrame({"s": ["x", None], "b": [b"1", b"2"]}), "lab/polars:v1", root=root)
    assert [(row["s"], row["b"]) for row in table[:]] == [("x", b"1"), (None, b"2")]
    fixed = pa.table({"f": pa.array([b"ab", b"cd"], pa.binary(2))})
    assert hub.import_table(fixed, "lab/fixed:v1", root=root)[1] == b"cd"


def test_a_given_schema_decides_where_nothing_could_be_guessed(tmp_path, root):
    empty = hub.Schema({"d": hub.Field("i8", nullable=True), "n": hub.Field("i4", index=True)})
    source = pa.table({"d": pa.array([None, None]), "n": [1, 2], "more": [3, 4]})
    assert hub.import_table(source, "lab/frame:v1", empty, root=root)[:] == [{"d": None, "n": 1}, {"d": None, "n": 2}]
    pq.write_table(source, tmp_path / "a.parquet")
    table = hub.import_table(tmp_path / "a.parquet", "lab/file:v1", empty, root=root)
    assert [row["n"] for row in table] == [1, 2]
    with pytest.raises(hub.errors.ConfigError, match="null has no field"):
        hub.import_table(source, "lab/guessed:v1", root=root)


def test_what_a_schema_does_not_name_is_left_out_and_said(root, capsys):
    schema = {"id": hub.Field("i4", index=True), "vector": hub.Field("f8", (None,))}
    table = hub.import_table(some(3), "lab/some:v1", schema, root=root)
    assert sorted(table[0]) == ["id", "vector"]
    assert "the schema has no 'when', 'name', 'box', 'raw'; left out" in capsys.readouterr().err
    with pytest.raises(hub.errors.ConfigError, match="ident"):
        hub.import_table(some(3), "lab/other:v1", {"ident": hub.Field("i4")}, root=root)


@pytest.mark.parametrize("given", [True, False])
def test_arrays_in_the_cells_of_a_frame_are_arrays(root, given):
    pictures = [RNG.integers(0, 255, (2, i + 1, 3), "u1") for i in range(3)]
    frame = pd.DataFrame({"drive": ["a", "b", "a"], "n": [1, 2, 3]})
    frame["picture"] = pictures
    schema = {"drive": hub.Field(str, index=True), "n": hub.Field("i8"), "picture": hub.Field("u1", (None, None, 3))}
    table = hub.import_table(frame, "lab/cells:v1", schema if given else None, key="drive", root=root)
    assert [row["n"] for row in table] == [1, 3, 2]
    for row, i in zip(table, (0, 2, 1), strict=True):
        np.testing.assert_array_equal(row["picture"], pictures[i])


@pytest.mark.parametrize("codec", ["png", "jpeg", None])
def test_images_are_stored_with_the_codec_of_the_schema(tmp_path, root, codec):
    pixels = images(tmp_path / "pets")
    schema = {"path": hub.Field(str, index=True), "image": hub.Field("u1", (None, None, 3), codec=codec)}
    for row in hub.import_table(tmp_path / "pets", "lab/pets:v1", schema, root=root):
        assert sorted(row) == ["image", "path"]
        if codec != "jpeg":
            np.testing.assert_array_equal(row["image"], pixels[str(row["path"])])
        assert row["image"].shape == pixels[str(row["path"])].shape


def test_numbers_of_a_csv_become_what_the_schema_says(tmp_path, root):
    (tmp_path / "t.csv").write_text("x,n,y\n0.5,1,a\n-2.25,,b\n")
    schema = {"x": hub.Field("f4"), "n": hub.Field("u2", nullable=True)}
    table = hub.import_table(tmp_path / "t.csv", "lab/csv:v1", schema, root=root)
    assert table[:] == [{"x": np.float32(0.5), "n": 1}, {"x": np.float32(-2.25), "n": None}]
    with pytest.raises(hub.errors.ConfigError, match="'n'"):
        hub.import_table(tmp_path / "t.csv", "lab/csv2:v1", {"n": hub.Field("u2")}, root=root)


def test_several_files_are_named_by_a_list_or_a_pattern(tmp_path, root):
    for i, day in enumerate(["mon", "tue"]):
        (tmp_path / f"day={day}").mkdir()
        for part in range(2):
            pq.write_table(some(2, 10 * i + part), tmp_path / f"day={day}" / f"{part}.parquet")
    listed = hub.import_table(sorted(tmp_path.rglob("*.parquet"))[1:], "lab/listed:v1", root=root)
    assert [(row["id"], row["day"]) for row in listed][::2] == [(1, "mon"), (10, "tue"), (11, "tue")]
    for source, name in (
        (str(tmp_path / "day=tue" / "*.parquet"), "one"),
        (str(tmp_path / "**" / "1.parquet"), "deep"),
    ):
        table = hub.import_table(source, f"lab/{name}:v1", root=root)
        assert {row["day"] for row in table} == ({"tue"} if name == "one" else {"mon", "tue"})
    with pytest.raises(hub.errors.SourceError, match="no such file"):
        hub.import_table(str(tmp_path / "day=wed" / "*.parquet"), "lab/none:v1", root=root)
    with pytest.raises(hub.errors.SourceError, match="an empty list"):
        hub.import_table([], "lab/none:v1", root=root)


def test_a_schema_that_was_not_guessed_is_not_called_so(tmp_path, root, capsys):
    hub.import_table(some(3), "lab/first:v1", root=root)
    hub.export("lab/first:v1", tmp_path / "first.parquet", root=root)
    capsys.readouterr()
    hub.import_table(tmp_path / "first.parquet", "lab/second:v1", root=root)
    assert "schema:" in capsys.readouterr().err


def test_an_exported_file_keeps_its_partitions_under_a_given_schema(tmp_path, root):
    frame = pd.DataFrame({"drive": ["b", "a", "b"], "n": [1, 2, 3]})
    hub.import_table(frame, "lab/first:v1", key="drive", root=root)
    hub.export("lab/first:v1", tmp_path / "first.parquet", root=root)
    table = hub.import_table(tmp_path / "first.parquet", "lab/second:v1", {"n": hub.Field("i4")}, root=root)
    assert table.partitions == ["a", "b"]
    assert list(table) == [2, 1, 3]


@pytest.mark.parametrize("cells", [[1, 2], [np.zeros((2, 2)), np.zeros((2, 2))]])
def test_a_frame_with_a_column_twice_is_refused(root, cells):
    frame = pd.concat([pd.Series(cells, name="n"), pd.Series(cells, name="n")], axis=1)
    with pytest.raises(hub.errors.ConfigError, match="two columns 'n'"):
        hub.import_table(frame, "lab/twice:v1", root=root)


def test_a_file_that_would_take_the_place_of_another_is_refused(tmp_path, root):
    for name in ("a.parquet", "a.PARQUET"):
        pq.write_table(some(2), tmp_path / name)
    for source in (tmp_path, [tmp_path / "a.parquet"] * 2):
        with pytest.raises(hub.errors.SourceError, match="leave one out"):
            hub.import_table(source, "lab/twice:v1", root=root)


def test_text_of_a_csv_that_looks_like_numbers_is_text_if_the_schema_says_so(tmp_path, root):
    (tmp_path / "t.csv").write_text("code,n\n1,2\n20,3\n")
    table = hub.import_table(tmp_path / "t.csv", "lab/csv:v1", {"code": hub.Field(str)}, root=root)
    assert list(table) == ["1", "20"]


def test_a_petastorm_dataset_is_read_by_the_fields_of_a_given_schema(root):
    place = Path(__file__).parents[2] / "golden" / "petastorm" / "0.7.6"
    schema = {"id": hub.Field("i8", index=True), "id2": hub.Field("i8")}
    with hub.make_reader(place, ["id", "id2"]) as reader:
        expected = {int(row.id): int(row.id2) for row in reader}
    table = hub.import_table(place, "me/some:v1", schema, root=root)
    assert {int(row["id"]): int(row["id2"]) for row in table} == expected
    assert set(table[0]) == {"id", "id2"}


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (lambda: pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6], name="a")), "a column and an index 'a'"),
        (lambda: pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "two columns 'a'"),
    ],
)
def test_a_frame_with_two_columns_of_a_name_is_refused_by_that_name(root, frame, why):
    with pytest.raises(hub.errors.ConfigError, match=why):
        hub.import_table(frame(), "t/x:v1", root=root)


@pytest.mark.parametrize("values", [pd.period_range("2020", periods=3, freq="M"), pd.interval_range(0, 3)])
def test_a_column_of_an_extension_of_pandas_is_refused_by_name(root, tmp_path, values):
    pd.DataFrame({"when": values, "a": [1, 2, 3]}).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(hub.errors.ConfigError, match="'when'"):
        hub.import_table(tmp_path / "p.parquet", "t/x:v1", root=root)


def test_tensors_as_pyarrow_makes_them_are_taken(root):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype="f4").reshape(3, 2, 2))
    table = hub.import_table(pa.table({"x": tensors, "i": [0, 1, 2]}), "t/x:v1", root=root)
    assert table[1]["x"].tolist() == [[4, 5], [6, 7]]


def test_a_null_that_a_dictionary_has_is_null(root):
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    table = hub.import_table(pa.table({"word": words, "i": [0, 1]}), "t/x:v1", root=root)
    assert [table[i]["word"] for i in range(2)] == ["a", None]


def test_a_file_of_another_kind_is_refused_by_what_reads_it(root, tmp_path):
    feather.write_feather(pa.table({"x": [1, 2]}), tmp_path / "x.feather")
    np.save(tmp_path / "x.npy", np.arange(3))
    for name, words in (("x.feather", "Import pyarrow.feather.read_table"), ("x.npy", "use hub.import_")):
        with pytest.raises(hub.errors.ConfigError, match=words):
            hub.import_table(tmp_path / name, "t/x:v1", root=root)
