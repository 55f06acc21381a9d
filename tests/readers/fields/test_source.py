"""The contract of sources: every one of them runs it."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.fields.source import row_values
from hubarray.readers.open_source import open_source
from tests.tables import rows as model

GOLDEN = Path(__file__).parents[2] / "golden" / "petastorm" / "0.7.6"


def _array(root, folder):
    hub.array((37, 3), "t/a:v0", "f4", chunks=(5, 3), root=root)[...] = np.arange(111).reshape(37, 3)
    return "t/a:v0"


def _arrays(root, folder):
    _array(root, folder)
    hub.array(37, "t/b:v0", "i8", chunks=8, root=root)[...] = np.arange(37)
    return {"x": "t/a:v0", "y": hub.load("t/b:v0", root=root)}


def _table(root, folder):
    model.write("me/drives:v1", {key: model.drive(key, 14) for key in ("a", "b")}, root)
    return "me/drives:v1"


def _index(root, folder):
    index = hub.read_index(_table(root, folder), root=root)
    return index[index["frame"] % 3 != 0][::-1]


def _parquet(root, folder):
    table = pa.table({"id": range(40), "note": [None, "a"] * 20, "tags": [[i] * (i % 3) for i in range(40)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    pq.write_table(table.slice(3, 9), folder / "b.parquet")
    return folder


def _hive(root, folder):
    for day in ("1", "2"):
        (folder / f"day={day}").mkdir()
        pq.write_table(pa.table({"id": range(int(day) * 10)}), folder / f"day={day}" / "x.parquet", row_group_size=4)
    return [str(folder)][0]


def _petastorm(root, folder):
    return GOLDEN


def _chosen(root, folder):
    return hub.split(_parquet(root, folder), train=0.6)["train"]


def _chosen_array(root, folder):
    return hub.split(_arrays(root, folder), train=0.6, root=root)["train"]


MAKERS = [_array, _arrays, _table, _index, _parquet, _hive, _petastorm, _chosen, _chosen_array]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__.strip("_"))
def source(request, root, tmp_path):
    return open_source(request.param(root, tmp_path), root=root)


def cells(columns, names):
    return [[_plain(value) for value in row] for row in zip(*(row_values(columns[n]) for n in names), strict=True)]


def _plain(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def test_units_cover_the_rows_in_their_order(source):
    assert source.rows > 0
    assert source.row_bytes >= 1
    assert source.where
    if source.unit_bounds is None:
        assert source.chunk_rows >= 1
    else:
        assert source.unit_bounds[0] == 0
        assert source.unit_bounds[-1] == source.rows
        assert (np.diff(source.unit_bounds) > 0).all()


def test_rows_are_read_in_any_order_and_more_than_once(source):
    names = list(source.schema.fields)
    whole = cells(source.read(np.arange(source.rows), names), names)
    assert len(whole) == source.rows
    rng = np.random.default_rng(0)
    for rows in (rng.permutation(source.rows), rng.integers(0, source.rows, 50), np.array([source.rows - 1, 0])):
        assert cells(source.read(rows.astype(np.int64), names), names) == [whole[i] for i in rows.tolist()]


def test_columns_are_read_one_by_one_as_together_and_of_no_rows_too(source):
    names = list(source.schema.fields)
    rows = np.arange(source.rows)[::3]
    whole = cells(source.read(rows, names), names)
    for i, name in enumerate(names):
        assert cells(source.read(rows, [name]), [name]) == [[row[i]] for row in whole]
    assert source.read(rows, []) == {}
    nothing = source.read(np.zeros(0, np.int64), names)
    assert [len(nothing[name]) for name in names] == [0] * len(names)


def test_values_are_of_the_schemas_types_and_shapes(source):
    names = list(source.schema.fields)
    for name, column in source.read(np.arange(source.rows), names).items():
        field = source.schema.fields[name]
        for value in row_values(column):
            if value is None:
                assert field.nullable, name
                continue
            shape = np.shape(value) if field.shape else ()
            assert len(shape) == len(field.shape)
            assert all(want in (None, got) for want, got in zip(field.shape, shape, strict=True)), name


def test_it_pickles_and_reads_in_threads(source):
    names = list(source.schema.fields)
    rows = np.arange(source.rows)
    expected = cells(source.read(rows, names), names)
    again = pickle.loads(pickle.dumps(source))
    assert again.identity() == source.identity()
    assert cells(again.read(rows, names), names) == expected
    with ThreadPoolExecutor(4) as threads:
        result = list(threads.map(lambda _: cells(source.read(rows, names), names), range(8)))
    assert all(item == expected for item in result)


def test_its_identity_is_of_the_rows_and_stays(source, root, tmp_path):
    assert source.identity() == source.identity()
    assert len(source.identity()) < 1000


@pytest.mark.parametrize("make", [_array, _arrays, _parquet, _hive])
def test_a_change_of_what_it_reads_is_another_identity(make, root, tmp_path):
    before = open_source(make(root, tmp_path), root=root).identity()
    if make in (_array, _arrays):
        hub.load("t/a:v0", root=root)[0, 0] = -1
        after = open_source("t/a:v0" if make is _array else {"x": "t/a:v0", "y": "t/b:v0"}, root=root)
    else:
        file = next(tmp_path.rglob("*.parquet"))
        pq.write_table(pq.read_table(file).slice(1), file)
        after = open_source(str(tmp_path), root=root)
    assert after.identity() != before


def test_bytes_of_a_tables_row_are_those_of_its_decoded_values(root):
    schema = hub.Schema({
        "photo": hub.Field("u1", (None, None, 3), codec="jpeg"), "points": hub.Field("f4", (1000,), codec="zstd"),
    })  # fmt: skip
    rows = [{"photo": np.full((64, 64, 3), 9, "u1"), "points": np.zeros(1000, "f4")} for _ in range(8)]
    model.write("me/photos:v1", {0: rows}, root, schema)
    loader = hub.load("me/photos:v1", root=root).loader()
    source = open_source(loader)
    assert 4000 < source.row_bytes < 40_000
    assert open_source(loader, root=root).rows == 8
