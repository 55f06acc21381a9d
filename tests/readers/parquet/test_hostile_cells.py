"""What a stranger may write into a dataset: types, cells, pickles, names, sizes; an error of ours, or the right rows."""

import os
import resource
import struct
import subprocess
import sys
import time

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import HubError, SourceError

SCHEMA_KEY, INDEX_KEY = b"dataset-toolkit.unischema.v1", b"dataset-toolkit.rowgroups_index.v1"
DIVIDED = "<M8[ns/0]"


def text(word):
    return b"U" + bytes([len(word)]) + word


def pickled(dtype=b"cnumpy\nint64\n", rest=b")N\x89tRs"):
    """A Unischema of one field as Petastorm's pickles have it."""
    head = b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}" + text(b"_name") + text(b"S") + b"s" + text(b"_fields")
    field = b"ccollections\nOrderedDict\n)R" + text(b"id") + b"cpetastorm.unischema\nUnischemaField\n(" + text(b"id")
    return head + field + dtype + rest + b"sb."


def put(folder, data, key=SCHEMA_KEY):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet")
    pq.write_metadata(pa.schema([("id", pa.int64())]).with_metadata({key: data}), folder / "_common_metadata")
    return str(folder)


def ids(where, **options):
    with hub.make_reader(where, shuffle_row_groups=False, **options) as reader:
        return [int(row.id) for row in reader]


def npy(header, data=b""):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def cells(folder, values, dtype, shape, codec):
    fields = [hub.petastorm.UnischemaField("x", dtype, shape, codec)]
    with hub.parquet_writer(str(folder), hub.petastorm.Unischema("S", fields)) as writer:
        writer.write({"x": np.zeros([n or 1 for n in shape], dtype)})
    path = next(folder.glob("*.parquet"))
    pq.write_table(pa.table({"x": pa.array(values, pa.binary())}), path)
    for extra in folder.glob("_metadata*"):
        extra.unlink()
    return str(folder)


def test_the_pickle_of_the_tests_is_read(tmp_path):
    assert ids(put(tmp_path / "good", pickled())) == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [
        pickled(b"cnumpy\ndtype\n" + text(DIVIDED.encode()) + b"\x85R"),
        b"\x80\x02}" + b")" + b"2\x86" * 40 + b"Ns.",
        b"\x80\x02}r" + struct.pack("<I", 0x7FFFFFFF) + b".",
        b"\x80\x02(" + b")" + b"2\x86" * 40 + b"t}q\x00h\x00h\x00s.",
        b"\x80\x02ccollections\nOrderedDict\nN}" + text(b"__defaults__") + b"Ns\x86b.",
    ],
    ids=["divided unit", "shared tuples", "a far memo", "marked tuples", "an edit of the library"],
)
def test_a_pickle_that_would_end_hang_fill_or_change_the_process_is_refused(tmp_path, data):
    began = time.monotonic()
    with pytest.raises(SourceError, match="refused"):
        ids(put(tmp_path / "bad", data))
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20
    assert ids(put(tmp_path / "good", pickled())) == [1, 2, 3], "another dataset is read as before"


def test_an_index_that_would_hang_is_refused(tmp_path):
    where = put(tmp_path / "bad", pickled())
    told = {SCHEMA_KEY: pickled(), INDEX_KEY: b"\x80\x02}" + b")" + b"2\x86" * 40 + b"Ns.",
            b"dataset-toolkit.num_row_groups_per_file.v1": b'{"a.parquet": 1}'}  # fmt: skip
    pq.write_metadata(pa.schema([("id", pa.int64())]).with_metadata(told), tmp_path / "bad" / "_common_metadata")
    with pytest.raises(HubError):
        ids(where, rowgroup_selector=hub.petastorm.SingleIndexSelector("a", ["b"]))


@pytest.mark.parametrize(
    "told",
    [
        b'{"name":"S","fields":[{"name":"id","dtype":"<M8[ns/0]","shape":[]}]}',
        b'{"name":"S","fields":[{"name":"id","dtype":"int64","shape":[1152921504606846976,2,2],"codec":{"codec":"ndarray"}}]}',
        b'{"name":5,"fields":[{"name":"id","dtype":"int64","shape":[]}]}',
    ],
)
def test_a_schema_of_json_that_cannot_be_is_refused(tmp_path, told):
    with pytest.raises(SourceError):
        ids(put(tmp_path / "bad", told, b"hubarray.unischema.v1"))


def test_a_schema_whose_name_is_no_name_gives_rows_of_another(tmp_path):
    told = b'{"name":"1 of 2","fields":[{"name":"id","dtype":"int64","shape":[]}]}'
    assert ids(put(tmp_path / "odd", told, b"hubarray.unischema.v1")) == [1, 2, 3]


TWO = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}"


@pytest.mark.parametrize(
    "cell",
    [
        npy(b"{'descr': '<M8[ns/0]', 'fortran_order': False, 'shape': (0,)}"),
        npy(b"{'descr': [('a', '<M8[ns/0]')], 'fortran_order': False, 'shape': (0,)}"),
        npy(b"{'descr': {'names':['a'],'formats':['<f8'],'offsets':[9999999999999999999999]}, 'fortran_order': False,"
            b"'shape': (2,)}", bytes(16)),
        npy(TWO, struct.pack("<4q", 1, 2, 666, 777)),
        npy(TWO, struct.pack("<q", 1)),
    ],
    ids=["divided unit", "divided unit of a field", "far offset", "bytes after the data", "cut short"],
)  # fmt: skip
def test_a_cell_of_npy_is_exactly_what_it_says(tmp_path, cell):
    good = npy(TWO, struct.pack("<2q", 3, 4))
    for at, values in enumerate(([cell], [cell, good], [good, cell])):
        where = cells(tmp_path / str(at), values, np.int64, (2,), hub.petastorm.NdarrayCodec())
        with pytest.raises(SourceError, match="field 'x'"):
            list(hub.make_reader(where))
        with hub.make_reader(where, on_error="skip") as reader:
            assert [row.x.tolist() for row in reader] == [[3, 4]] * (len(values) - 1)


def test_a_file_of_npy_with_a_divided_unit_is_refused(tmp_path, root):
    (tmp_path / "x.npy").write_bytes(npy(b"{'descr': '<M8[ns/0]', 'fortran_order': False, 'shape': (3,)}\n", bytes(24)))
    with pytest.raises(SourceError):
        hub.import_(tmp_path / "x.npy", "a/b:v0", root=root)


def test_a_jpeg_that_says_a_size_that_it_has_not_is_refused_before_room_is_made_for_it(tmp_path):
    small = bytearray(imagecodecs.jpeg8_encode(np.zeros((8, 8, 3), "u1")))
    at = small.index(b"\xff\xc0")
    small[at + 5 : at + 9] = struct.pack(">HH", 18_000, 18_000)
    where = cells(tmp_path / "x", [bytes(small)], np.uint8, (None, None, 3), hub.petastorm.CompressedImageCodec("jpeg"))
    with pytest.raises(SourceError, match="declares a wrong size"):
        list(hub.make_reader(where))


@pytest.mark.parametrize("quality", [1, 50, 100])
@pytest.mark.parametrize("image", [np.zeros((300, 500, 3), "u1"), np.zeros((9, 9), "u1")], ids=["large", "small"])
def test_the_smallest_of_honest_jpegs_are_read(quality, image):
    from hubarray.arrays.codecs.image_headers import image_header

    data = imagecodecs.jpeg8_encode(image, level=quality, optimize=True, subsampling="420")
    assert image_header("jpeg", data)[0] == image.shape


@pytest.mark.parametrize(
    ("column", "dtype"),
    [([1.75, 2.0], np.int32), ([float("nan"), 1.0], np.int32), ([3e20, 1.0], np.uint8), ([-1.0, 0.0], np.uint8),
     ([3_000_000_000, 1], "S5"), ([300, 1], np.uint8)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("codec", [None, hub.petastorm.ScalarCodec()], ids=["plain", "scalar"])
def test_a_column_of_another_type_than_the_schema_says_is_refused_unless_it_fits(tmp_path, column, dtype, codec):
    where = tmp_path / "x"
    with hub.parquet_writer(
        str(where), hub.petastorm.Unischema("S", [hub.petastorm.UnischemaField("x", np.dtype(dtype).type, (), codec)])
    ) as w:
        w.write({"x": np.zeros((), dtype)[()]})
    pq.write_table(pa.table({"x": column}), next(where.glob("*.parquet")))
    for extra in where.glob("_metadata*"):
        extra.unlink()
    with pytest.raises(HubError):
        list(hub.make_reader(str(where)))


def test_links_in_circles_double_no_row(tmp_path):
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "d" / "a.parquet")
    for place, target in (("x", "."), ("y", "."), ("d/again", "."), ("d/up", ".."), ("broken", "nowhere")):
        (tmp_path / place).symlink_to(target)
    assert ids(str(tmp_path)) == [1, 2, 3]


def test_a_folder_under_two_names_is_read_under_both(tmp_path):
    (tmp_path / "x=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x=1" / "a.parquet")
    (tmp_path / "x=2").symlink_to("x=1")
    with hub.make_reader(str(tmp_path)) as reader:
        assert sorted((int(row.id), int(row.x)) for row in reader) == [(1, 1), (1, 2)]


def test_a_dataset_that_lies_behind_links_is_read(tmp_path):
    (tmp_path / "far").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "far" / "a.parquet")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "part").symlink_to(tmp_path / "far")
    (tmp_path / "here" / "b.parquet").symlink_to(tmp_path / "far" / "a.parquet")
    assert sorted(ids(str(tmp_path / "here"))) == [1, 1, 2, 2]


def test_a_name_that_is_no_text_is_named(tmp_path):
    folder = os.fsencode(tmp_path) + b"/p=\xff\xfe"
    os.mkdir(folder)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="not text"):
        ids(str(tmp_path))


def test_a_null_among_the_keys_of_folders_leaves_numbers_numbers(tmp_path):
    for i, folder in enumerate(("p=1", "p=2", "p=__HIVE_DEFAULT_PARTITION__")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": [i]}), tmp_path / folder / "a.parquet")
    with hub.make_reader(str(tmp_path), shuffle_row_groups=False) as reader:
        assert [(int(row.id), row.p) for row in reader] == [(0, 1), (1, 2), (2, None)]
        assert reader.schema.p.nullable
    assert ids(str(tmp_path), filters=[("p", "==", 1)]) == [0]


def test_folders_of_unequal_depth_have_nulls(tmp_path):
    for i, folder in enumerate(("p=1/q=2", "p=1")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [i]}), tmp_path / folder / "a.parquet")
    with hub.make_reader(str(tmp_path)) as reader:
        assert sorted((int(row.id), row.q) for row in reader) == [(0, 2), (1, None)]


def test_keys_of_folders_come_back_or_are_refused(tmp_path):
    def write(dtype, *values, name="p"):
        fields = [hub.petastorm.UnischemaField("i", np.int64), hub.petastorm.UnischemaField(name, dtype)]
        where = str(tmp_path / f"{np.dtype(dtype).name}{len(os.listdir(tmp_path))}")
        with hub.parquet_writer(where, hub.petastorm.Unischema("S", fields), partition_by=[name]) as writer:
            for i, value in enumerate(values):
                writer.write({"i": i, name: value})
        with hub.make_reader(where) as reader:
            return [getattr(row, name) for row in sorted(reader, key=lambda row: row.i)]

    assert write(np.bool_, True, False) == [True, False]
    assert write(np.str_, "a/b=c %", "", "é") == ["a/b=c %", "", "é"]
    assert write(np.int64, -5, 1 << 40) == [-5, 1 << 40]
    assert write(np.float32, 0.1, 1e30) == [np.float32(0.1), np.float32(1e30)]
    for unit in ("D", "s", "us", "ns"):
        days = np.array(["2020-01-01", "1969-12-31"], f"M8[{unit}]")
        assert write(days.dtype, *days) == list(days)
    for dtype, value in ((np.bytes_, b"ab"), (np.timedelta64, np.timedelta64(1, "us"))):
        with pytest.raises(hub.errors.ConfigError, match="partition_by"):
            write(dtype, value)
    for value in ("__HIVE_DEFAULT_PARTITION__", "\ud800"):
        with pytest.raises(hub.errors.ConfigError, match="field 'p'"):
            write(np.str_, value)


def test_text_that_cannot_be_encoded_is_refused_with_its_field(tmp_path):
    with pytest.raises(hub.errors.ConfigError, match="field 's'"), hub.parquet_writer(
        str(tmp_path / "x"), hub.petastorm.Unischema("S", [hub.petastorm.UnischemaField("s", np.str_)])
    ) as writer:  # fmt: skip
        writer.write({"s": "\ud800"})


@pytest.mark.parametrize("place", ["/tmp/a\0b", "/tmp/\ud800"])
def test_a_cache_at_no_place_is_refused(tmp_path, place):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(hub.errors.ConfigError, match="cache_location"):
        ids(str(tmp_path), cache_type="local-disk", cache_location=place)
    with pytest.raises(hub.errors.ConfigError, match="cache_type='local-disk'"):
        ids(str(tmp_path), cache_location=str(tmp_path))


def filled(tmp_path, rows=40):
    pq.write_table(pa.table({"id": range(rows)}), tmp_path / "a.parquet", row_group_size=5)
    options = {"cache_type": "local-disk", "cache_location": str(tmp_path / "cache"), "cache_size_limit": 50 << 20}
    assert ids(str(tmp_path / "a.parquet"), **options) == list(range(rows))
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 200]
    return options, kept


def test_a_damaged_file_of_the_cache_is_replaced(tmp_path):
    options, kept = filled(tmp_path)
    for path in kept:
        os.truncate(path, path.stat().st_size // 2)
    for hits in (0, 8):
        with hub.make_reader(str(tmp_path / "a.parquet"), **options) as reader:
            assert sorted(int(row.id) for row in reader) == list(range(40))
            assert reader.diagnostics["cache_hits"] == hits


def test_files_of_the_cache_that_changed_places_are_not_believed(tmp_path):
    options, kept = filled(tmp_path)
    contents = [path.read_bytes() for path in kept]
    for path, other in zip(kept, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(other)
    assert ids(str(tmp_path / "a.parquet"), **options) == list(range(40))


BOMB = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import hubarray as hub
try:
    next(hub.make_reader(sys.argv[1], reader_pool_type="dummy"))
except hub.errors.SourceError as error:
    most = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("refused", "max_decoded_bytes" in str(error), most < 1 << 20)
"""


def test_a_long_text_that_is_repeated_for_nothing_is_counted_before_it_is_spread_out(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(9000, "i4")), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table({"s": column}), tmp_path / "a.parquet", compression="zstd", store_schema=False)
    told = subprocess.run([sys.executable, "-c", BOMB, str(tmp_path)], capture_output=True, text=True, check=False)
    assert told.stdout.split() == ["refused", "True", "True"], told.stderr


def test_text_that_takes_much_and_no_more_than_is_read_comes_back(tmp_path):
    column = pa.array(["x" * 100_000] * 300 + ["y" * 200_000])
    pq.write_table(pa.table({"s": column, "id": range(301)}), tmp_path / "a.parquet")
    with hub.make_reader(str(tmp_path), ["s"], shuffle_row_groups=False) as reader:
        assert [len(row.s) for row in reader] == [100_000] * 300 + [200_000]


def test_workers_of_a_forked_child_are_its_own(tmp_path):
    pq.write_table(pa.table({"id": range(60)}), tmp_path / "a.parquet", row_group_size=5)
    with hub.make_reader(str(tmp_path), reader_pool_type="process", workers_count=2, seed=0) as reader:
        first = int(next(reader).id)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = int(sorted([first, *(int(row.id) for row in reader)]) != list(range(60)))
            finally:
                os._exit(code)
        began = time.monotonic()
        while time.monotonic() - began < 60:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child waits for workers of its parent")
        assert os.waitstatus_to_exitcode(status) == 0
        assert sorted([first, *(int(row.id) for row in reader)]) == list(range(60))


def test_names_of_fields_may_look_like_units(tmp_path, root):
    np.save(tmp_path / "s.npy", np.ones(3, dtype=[("m[kg/s]", "f4"), ("M8[g/mol]", "i2")]))
    assert hub.import_(tmp_path / "s.npy", "a/b:v0", root=root).dtype.names == ("m[kg/s]", "M8[g/mol]")


@pytest.mark.parametrize(
    "package",
    [b"petastorm", b"dataset_toolkit", b"av.ml.dataset_toolkit", b"av.experimental.deepdrive.dataset_toolkit"],
)
def test_schemas_of_every_package_that_petastorm_was_are_read(tmp_path, package):
    data = pickled().replace(b"cpetastorm.", b"c" + package + b".")
    assert ids(put(tmp_path / "old", data)) == [1, 2, 3]
