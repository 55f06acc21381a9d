"""Files of a few kilobytes that stand for gigabytes: refused before they are decoded, at every entry point."""

import json

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.limits import Budget, parse_json
from hubarray.parquet_limits import read_row_group
from tests.hostile.child import MAX_MIB, MAX_SECONDS, assert_refused, outcome_of

LONG = "a" * (1 << 20)


def _repeated(count, text=LONG):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, "i4")), pa.array([text]))


def _in_list(values):
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


BOMBS = {
    "a text": (lambda: {"t": _repeated(8000)}, {}),
    "bytes": (lambda: {"t": _repeated(8000, LONG.encode())}, {}),
    "columns of which each is small": (lambda: {f"c{i}": _repeated(400) for i in range(16)}, {}),
    "a text in a list": (lambda: {"t": _in_list(_repeated(3000))}, {}),
    "a text in a list in a list": (lambda: {"t": _in_list(_in_list(_repeated(3000)))}, {}),
    "texts that begin as those before": (
        lambda: {"t": pa.array([LONG] * 3000)},
        {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
    ),
    "texts that begin as those before, in pages of the second version": (
        lambda: {"t": pa.array([LONG] * 3000)},
        {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}, "data_page_version": "2.0"},
    ),
    "numbers": (lambda: dict.fromkeys(map(str, range(40)), pa.array(np.zeros(4_000_000, "i8"))), {}),
    "rows": (lambda: {"x": pa.array(np.zeros(60_000_000, "i1"))}, {}),
    "a text beside a column whose name goes on": (
        lambda: {"t": pa.array(np.zeros(3000, "i8")), "t.u": _repeated(3000)},
        {},
    ),
}
READ = "next(iter(hub.make_reader(sys.argv[1], reader_pool_type='dummy')))"
ENTRIES = {
    "make_reader": READ,
    "make_batch_reader": "next(iter(hub.make_batch_reader(sys.argv[1], reader_pool_type='dummy')))",
    "import_table": "hub.import_table(sys.argv[1] + '/a.parquet', 't/a:v1', root=sys.argv[2])",
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("bomb")
            columns, options = BOMBS[name]
            table = pa.table(columns())
            path = made[name] / "a.parquet"
            with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False, **options) as writer:
                writer.write_table(table, row_group_size=1 << 30)
            assert path.stat().st_size < 1 << 20
        return made[name]

    return folder


@pytest.mark.parametrize(
    ("bomb", "entry"),
    # A table of many small rows is imported by parts, and is what it seems to be.
    [(bomb, entry) for bomb in BOMBS for entry in ENTRIES if (bomb, entry) != ("rows", "import_table")],
)
def test_little_parquet_that_stands_for_much_is_refused_before_it_is_decoded(bombs, tmp_path, bomb, entry):
    # Tables have no fields of lists of text, so nothing is read.
    is_unread = bomb.startswith("a text in a list") and entry == "import_table"
    assert_refused(ENTRIES[entry], bombs(bomb), tmp_path, match="lists" if is_unread else "max_decoded_bytes")


def test_the_limit_is_raised_by_an_option_and_by_the_setting(tmp_path):
    pq.write_table(pa.table({"t": [b"x" * 1000] * 3000}), tmp_path / "a.parquet")
    for refused in ({"max_decoded_bytes": 1 << 20}, {}):
        hub.configure(max_decoded_bytes=1 << 20)
        with pytest.raises(hub.errors.SourceError, match="more than 1,048,576 bytes"):
            next(iter(hub.make_reader(str(tmp_path), **refused)))
    with hub.make_reader(str(tmp_path), max_decoded_bytes=1 << 30) as reader:
        assert sum(len(row.t) for row in reader) == 3_000_000
    with pytest.raises(hub.errors.SourceError, match="max_decoded_bytes"):
        hub.import_table(tmp_path / "a.parquet", "t/a:v1", root=tmp_path / "root")
    hub.configure(max_decoded_bytes=1 << 30)
    assert len(hub.import_table(tmp_path / "a.parquet", "t/a:v1", root=tmp_path / "root")) == 3000
    with pytest.raises(hub.errors.ConfigError, match="above 0"):
        hub.make_reader(str(tmp_path), max_decoded_bytes=0)


@given(
    st.lists(st.text(max_size=30), min_size=1, max_size=60), st.booleans(),
    st.sampled_from(["1.0", "2.0"]), st.sampled_from(["none", "snappy", "zstd", "lz4", "gzip"]), st.booleans(),
)  # fmt: skip
def test_a_row_group_comes_back_as_arrow_reads_it(texts, dictionary, version, compression, delta):
    table = pa.table({
        "t": texts, "n": [None if i % 3 == 0 else i for i in range(len(texts))],
        "l": [[text, None] * (i % 3) for i, text in enumerate(texts)], "b": [i % 2 == 0 for i in range(len(texts))],
        "s": [{"x": i, "y": [text]} for i, text in enumerate(texts)],
    })  # fmt: skip
    encoding = {"t": "DELTA_BYTE_ARRAY"} if delta else None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_dictionary=["l.list.element"] if delta else dictionary, data_page_version=version,
                   compression=compression, column_encoding=encoding)  # fmt: skip
    data = sink.getvalue()
    for remote in (False, True):
        result = read_row_group(
            pa.BufferReader(data), pq.read_metadata(pa.BufferReader(data)), 0, ["s", "t", "l"], max_bytes=1 << 20,
            where="it", is_remote=remote,
        )  # fmt: skip
        assert result.equals(table.select(["s", "t", "l"]))
    # However long texts may be at most, they are counted exactly where that would be too much.
    exact = sum(len(text.encode()) for text in texts)
    result = read_row_group(
        pa.BufferReader(data), pq.read_metadata(pa.BufferReader(data)), 0, ["t"],
        max_bytes=4 * exact + 300 * len(texts) + 4096, where="it",
    )  # fmt: skip
    assert result["t"].to_pylist() == texts


COMPRESSORS = ["zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4"]


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_chunk_of_zarr_decodes_to_no_more_than_its_metadata_declares(tmp_path, name):
    codec = numcodecs.get_codec({"id": name})
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    described = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (folder / ".zarray").write_text(json.dumps({**described, "compressor": codec.get_config(), "filters": None}))
    (folder / "0").write_bytes(codec.encode(bytes(1 << 29)))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root")


@pytest.mark.parametrize("version", [2, 3])
def test_all_frames_of_a_chunk_of_zarr_are_counted(tmp_path, version):
    folder, zstd = tmp_path / "a.zarr", numcodecs.Zstd()
    array = zarr.create_array(
        folder, shape=(4,), chunks=(4,), dtype="f8", zarr_format=version,
        compressors=zstd if version == 2 else zarr.codecs.ZstdCodec(),
    )  # fmt: skip
    array[:] = 1
    chunk = folder / "0" if version == 2 else folder / "c" / "0"
    chunk.write_bytes(zstd.encode(bytes(8)) + zstd.encode(bytes(1 << 30)))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root")


@pytest.mark.parametrize("elements", [4, 100_000_000])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("count", [5, 90_000_000, (1 << 32) - 1])
def test_texts_of_zarr_are_no_more_than_its_chunk_has_elements_and_bytes(tmp_path, version, count, elements):
    folder = tmp_path / "a.zarr"
    zarr.create_array(
        folder, shape=(elements,), chunks=(elements,), dtype="str", zarr_format=version, compressors=None
    )  # fmt: skip
    chunk = folder / "0" if version == 2 else folder / "c" / "0"
    chunk.parent.mkdir(exist_ok=True)
    chunk.write_bytes(count.to_bytes(4, "little") + bytes(16))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root")


@pytest.mark.parametrize("version", [2, 3])
def test_long_texts_of_zarr_are_read(root, tmp_path, version):
    texts = np.array(["x" * 100_000, "", "z"] * 20, object)
    array = zarr.create_array(tmp_path / "a.zarr", shape=(60,), chunks=(60,), dtype="str", zarr_format=version)
    array[:] = texts
    assert hub.import_(tmp_path / "a.zarr", "t/a:v1", root=root)[...].tolist() == texts.tolist()


HUGE = "|S1000000000"
FILTERS = {
    "astype": {"id": "astype", "encode_dtype": "<f8", "decode_dtype": HUGE},
    "fixedscaleoffset": {"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": HUGE, "astype": "<f8"},
    "categorize": {"id": "categorize", "labels": ["a"], "dtype": "<U100000000", "astype": "|u1"},
    "delta": {"id": "delta", "dtype": HUGE, "astype": "<f8"},
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_zarr_make_no_larger_elements_than_its_array_has(tmp_path, name):
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    described = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (folder / ".zarray").write_text(json.dumps({**described, "compressor": None, "filters": [FILTERS[name]]}))
    (folder / "0").write_bytes(bytes(32))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root", match="filter")


def test_filters_of_zarr_3_make_no_larger_elements_either(tmp_path):
    folder = tmp_path / "a.zarr"
    zarr.create_array(folder, shape=(4,), chunks=(4,), dtype="f8", compressors=None)[:] = 1
    described = json.loads((folder / "zarr.json").read_text())
    options = {"encode_dtype": HUGE, "decode_dtype": "float64"}
    described["codecs"].insert(0, {"name": "numcodecs.astype", "configuration": options})
    (folder / "zarr.json").write_text(json.dumps(described))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root")


@pytest.mark.parametrize("name", ["pickle", "json2", "msgpack2"])
def test_codecs_of_zarr_whose_objects_nothing_bounds_are_refused(tmp_path, name):
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    described = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (folder / ".zarray").write_text(json.dumps({**described, "compressor": {"id": name}, "filters": None}))
    (folder / "0").write_text(json.dumps([1, "<f8", [100_000_000]]))
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root", match=name)


@pytest.mark.parametrize("codec", [numcodecs.VLenUTF8(), numcodecs.Categorize(["a", "b"], "<U1")])
def test_texts_that_filters_of_zarr_2_hold_are_read(root, tmp_path, codec):
    dtype = "<U1" if codec.codec_id == "categorize" else object
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(4,), chunks=(2,), dtype="U1" if dtype == "<U1" else "str", zarr_format=2,
        filters=[codec],
    )  # fmt: skip
    array[:] = np.array(["a", "b", "b", "a"], dtype)
    assert hub.import_(tmp_path / "a.zarr", "t/a:v1", root=root)[...].tolist() == ["a", "b", "b", "a"]


def test_pickled_objects_of_zarr_are_never_loaded(tmp_path):
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    described = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "fill_value": "", "order": "C"}
    filters = [{"id": "pickle", "protocol": 2}]
    (folder / ".zarray").write_text(json.dumps({**described, "compressor": None, "filters": filters}))
    marker = tmp_path / "marker"
    (folder / "0").write_bytes(b"cposix\nsystem\n(V" + f"touch {marker}".encode() + b"\ntR.")
    with pytest.raises(hub.HubError):
        hub.import_(folder, "t/a:v1", root=tmp_path / "root")
    assert not marker.exists()


def test_json_of_a_zarr_is_counted_before_it_is_parsed(tmp_path):
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    (folder / ".zgroup").write_text('{"zarr_format":2}')
    (folder / ".zattrs").write_text('{"x":[' + "[]," * 8_000_000 + "1]}")
    assert_refused("hub.import_(sys.argv[1], 't/a:v1', root=sys.argv[2])", folder, tmp_path / "root")


@pytest.mark.parametrize("name", ["_hubarray_summary.json", "_hubarray_index.json"])
def test_json_beside_parquet_is_counted_before_it_is_parsed(tmp_path, name):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    head = '{"version":1,"schemas":[],"files":[],"indexes":{},"x":['
    (tmp_path / name).write_text(head + "[]," * 8_000_000 + "1]}")
    select = ", rowgroup_selector=hub.petastorm.SingleIndexSelector('x', [1])" if "index" in name else ""
    assert_refused(f"next(iter(hub.make_reader(sys.argv[1]{select})))", tmp_path)


@pytest.mark.parametrize("entry", ENTRIES)
def test_thousands_of_columns_do_not_look_at_each_other(tmp_path, entry):
    pq.write_table(pa.table({f"c{i}": np.arange(5) for i in range(2000)}), tmp_path / "a.parquet")
    outcome, mib, seconds = outcome_of(ENTRIES[entry], tmp_path, tmp_path / "root")
    assert (outcome, mib < MAX_MIB, seconds < MAX_SECONDS) == ("read", True, True), (mib, seconds)


@pytest.mark.parametrize("kind", ["columns", "a line", "cells"])
def test_a_csv_is_counted_while_it_is_read(tmp_path, kind):
    path = tmp_path / "a.csv"
    texts = {
        "columns": ",".join(f"c{i}" for i in range(300_000)) + "\n1\n",
        "a line": "a,b\n" + "1" * (64 << 20) + ",2\n",
        "cells": "a\n" + "1,\n" * 3 + ",".join(["x"] * 1_000_000) + "\n",
    }
    path.write_text(texts[kind])
    assert_refused("hub.import_table(sys.argv[1], 't/a:v1', root=sys.argv[2])", path, tmp_path / "root")


def test_cells_of_a_petastorm_dataset_are_counted_together(tmp_path):
    cell = hub.petastorm.CompressedNdarrayCodec()
    field = hub.petastorm.UnischemaField("x", np.uint8, (None,), cell, False)
    data = cell.encode(field, np.zeros(8 << 20, "u1"))
    table = pa.table({"x": pa.array([data] * 400, pa.binary())})
    schema = hub.petastorm.Unischema("S", [field])
    metadata = {b"hubarray.unischema.v1": json.dumps(schema.to_json()).encode()}
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=400)
    pq.write_metadata(table.schema.with_metadata(metadata), tmp_path / "_common_metadata")
    work = "next(iter(hub.make_reader(sys.argv[1], reader_pool_type='dummy', max_decoded_bytes=100 << 20)))"
    assert_refused(work, tmp_path, match="max_decoded_bytes")


def test_a_budget_says_what_is_too_large_and_how_to_raise_it():
    budget = Budget(10, "a file")
    budget.take(10)
    with pytest.raises(
        hub.errors.SourceError, match=r"a file: decodes to more than 10 bytes \(at least 11\).*max_decoded"
    ):
        budget.take(1)


@pytest.mark.parametrize("text", [b"[" * 100_000, b"[1," * 300, b"{", b"\xff"])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"nested|values|Expecting|decode"):
        parse_json(text, max_values=200)
