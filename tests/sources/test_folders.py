"""What in a folder is data: the same alone, in a folder, in a glob, for readers and for both imports."""

import os
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import hubarray as hub
from hubarray.sources.folders import is_hidden, is_part, natural

LEFTOVERS = [
    "_temporary/0/task_3/part-1.parquet", ".hive-staging_9/part-1.parquet", "_spark_metadata/0.parquet",
    "day=1/_temporary/0/part-1.parquet", ".part-2.parquet", "_part-3.parquet", "_delta_log/other/1.parquet",
]  # fmt: skip


def write_parquet(path, *values):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": list(values)}), path)


def write_image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, "u1")).save(path)


def read(path):
    with hub.make_reader(str(path), shuffle_row_groups=False) as reader:
        return sorted(int(row.a) for row in reader)


def imported(path, root):
    table = hub.import_table(path, f"t/x:v{random.randrange(10**9)}", root=root)
    return sorted(table.index()["a"].tolist())


@pytest.mark.parametrize("leftover", LEFTOVERS)
def test_what_an_unfinished_job_left_is_no_row_of_parquet(root, tmp_path, leftover):
    write_parquet(tmp_path / "d" / "day=1" / "part-0.parquet", 1)
    write_parquet(tmp_path / "d" / leftover, 50)
    assert read(tmp_path / "d") == imported(tmp_path / "d", root) == [1]
    assert imported(str(tmp_path / "d" / "**" / "*.parquet"), root) == [1]
    assert imported(tmp_path / "d" / leftover, root) == [50], "whoever names it means it"


def test_every_suffix_of_parquet_is_read(root, tmp_path):
    for i, suffix in enumerate((".parquet", ".parq", ".pq", ".PARQUET")):
        write_parquet(tmp_path / "d" / f"{i}{suffix}", i)
    assert read(tmp_path / "d") == imported(tmp_path / "d", root) == [0, 1, 2, 3]
    assert imported(tmp_path / "d" / "1.parq", root) == [1]
    assert imported(str(tmp_path / "d" / "*.p*q"), root) == [1, 2]
    assert imported([tmp_path / "d" / "0.parquet", tmp_path / "d" / "2.pq"], root) == [0, 2]


def test_two_files_that_would_be_one_partition_are_refused(root, tmp_path):
    write_parquet(tmp_path / "d" / "a.parquet", 1)
    write_parquet(tmp_path / "d" / "a.parq", 2)
    with pytest.raises(hub.errors.SourceError, match="has the name of another"):
        hub.import_table(tmp_path / "d", "t/x:v0", root=root)


TABLES = {
    "Delta Lake": "_delta_log/00000000000000000000.json",
    "Delta Lake, an old log": "_delta_log/00000000000000000010.checkpoint.parquet",
    "Delta Lake, below": "part/_delta_log/00000000000000000000.json",
    "Apache Hudi": ".hoodie/hoodie.properties",
    "Apache Iceberg": "metadata/v1.metadata.json",
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_folder_of_a_table_of_another_format_is_refused_and_its_files_are_not(root, tmp_path, kind):
    write_parquet(tmp_path / "d" / "part-0.parquet", 1)
    mark = tmp_path / "d" / TABLES[kind]
    mark.parent.mkdir(parents=True)
    mark.write_text("{}")
    for take in (read, lambda path: imported(path, root)):
        with pytest.raises(hub.errors.SourceError, match=rf"a table of {kind.partition(',')[0]}.*name the files"):
            take(tmp_path / "d")
        assert take(tmp_path / "d" / "part-0.parquet") == [1]


@pytest.mark.parametrize("hidden", [".ipynb_checkpoints/a-checkpoint.png", "__MACOSX/a.png", "cat/._a.png"])
def test_hidden_images_are_neither_classes_nor_rows(root, tmp_path, hidden):
    write_image(tmp_path / "cat" / "a.png")
    write_image(tmp_path / hidden)
    assert hub.import_table(tmp_path, "t/table:v0", root=root).index()["path"].tolist() == ["cat/a.png"]
    array = hub.import_(tmp_path, "t/array:v0", root=root)
    assert (array.attrs["classes"], len(array)) == (["cat"], 1)
    assert len(hub.import_(str(tmp_path / "*" / "*.png"), "t/glob:v0", root=root)) == 1
    assert len(hub.import_(tmp_path / hidden, "t/named:v0", root=root)) == 1, "whoever names it means it"


def test_a_folder_that_lies_in_a_hidden_one_is_none_itself(root, tmp_path):
    folder = tmp_path / ".cache[1]" / "images"
    write_image(folder / "_DSC0001.png")
    assert len(hub.import_(folder, "t/array:v0", root=root)) == 1
    assert len(hub.import_table(folder, "t/table:v0", root=root)) == 1
    write_parquet(tmp_path / ".cache[1]" / "d" / "part-0.parquet", 1)
    assert read(tmp_path / ".cache[1]" / "d") == imported(tmp_path / ".cache[1]" / "d", root) == [1]


def test_images_are_in_the_order_of_the_numbers_in_their_names(root, tmp_path):
    for i in range(12):
        write_image(tmp_path / "stack" / f"slice{i}.png", i)
    names = [f"slice{i}.png" for i in range(12)]
    for version, source in {"folder": tmp_path / "stack", "glob": str(tmp_path / "stack" / "*.png")}.items():
        array = hub.import_(source, f"t/x:{version}", root=root)
        assert array[:, 0, 0, 0].tolist() == list(range(12))
        assert hub.load(f"t/x.files:{version}", root=root)[:].tolist() == names
    table = hub.import_table(tmp_path / "stack", "t/table:v0", root=root)
    assert table.index()["path"].tolist() == names


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b/", "z-"]), st.integers(0, 10**40), st.sampled_from(["", ".t"]))))
def test_numbers_are_compared_as_numbers(names):
    paths = [f"{before}{number}{after}" for before, number, after in names]
    assert sorted(paths, key=natural) == [f"{before}{number}{after}" for before, number, after in sorted(names)]


@given(st.text(), st.text())
def test_any_two_names_have_an_order_and_only_equal_ones_are_equal(one, two):
    assert (natural(one) == natural(two)) == (one == two)
    assert (natural(one) < natural(two)) + (natural(two) < natural(one)) == (one != two)


@given(st.lists(st.sampled_from(["a", "_a", "_a=1", ".a", "__MACOSX", "x.png", ""]), min_size=1))
def test_what_is_hidden_is_no_part(parts):
    path = "/".join(parts)
    assert not (is_part(path) and is_hidden(path))


def test_links_out_of_a_folder_are_refused_whatever_they_are_called(root, tmp_path):
    write_image(tmp_path / "outside" / "a.png")
    write_image(tmp_path / "d" / "a.png")
    os.symlink(tmp_path / "outside", tmp_path / "d" / "more")
    with pytest.raises(hub.errors.SourceError, match="follow_links"):
        hub.import_table(tmp_path / "d", "t/x:v0", root=root)
