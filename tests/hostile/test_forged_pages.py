"""Parquet whose pages say other than what they hold: refused in little time, and no row is lost."""

import struct

import pyarrow as pa
import pytest

import hubarray as hub
from tests.hostile.child import assert_refused

READS = {
    "make_reader": "next(iter(hub.make_reader(sys.argv[1], reader_pool_type='dummy')))",
    "make_batch_reader": "next(iter(hub.make_batch_reader(sys.argv[1], reader_pool_type='dummy')))",
    "import_table": "hub.import_table(sys.argv[1] + '/a.parquet', 't/a:v1', root=sys.argv[1] + '/root')",
}
_INT32, _BYTE_ARRAY, _PLAIN, _RLE_DICTIONARY, _RLE, _ZSTD = 1, 6, 0, 8, 3, 6
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _whole(number):
    return _varint(number << 1)


def _struct(**fields):
    """A struct of Thrift's compact protocol: its fields are named f1, f2, ..., each a kind and its bytes."""
    out, last = b"", 0
    for name, (kind, data) in fields.items():
        number = int(name[1:])
        out += bytes([(number - last) << 4 | kind]) + data
        last = number
    return out + b"\0"


def _i32(number):
    return 5, _whole(number)


def _i64(number):
    return 6, _whole(number)


def _binary(data):
    return 8, _varint(len(data)) + data


def _list(kind, items):
    return 9, bytes([0xF0 | kind]) + _varint(len(items)) + b"".join(items)


def _page(kind, body, size, of_kind):
    sub = {"f5" if kind == _DATA_PAGE else "f7": (12, of_kind)}
    return _struct(f1=_i32(kind), f2=_i32(size), f3=_i32(len(body)), **sub) + body


def _data_page(body, size, values, encoding=_PLAIN):
    of_kind = _struct(f1=_i32(values), f2=_i32(encoding), f3=_i32(_RLE), f4=_i32(_RLE))
    return _page(_DATA_PAGE, body, size, of_kind)


def _write(path, chunk, rows, *, kind=_INT32, codec=0, dictionary_bytes=None):
    as_text = {"f6": _i32(0)} if kind == _BYTE_ARRAY else {}
    schema = [
        _struct(f4=_binary(b"schema"), f5=_i32(1)),
        _struct(f1=_i32(kind), f3=_i32(0), f4=_binary(b"t"), **as_text),
    ]
    told = {"f11": _i64(4)} if dictionary_bytes is not None else {}
    column = _struct(
        f1=_i32(kind), f2=_list(5, [_whole(_RLE_DICTIONARY), _whole(_PLAIN)]), f3=_list(8, [_varint(1) + b"t"]),
        f4=_i32(codec), f5=_i64(rows), f6=_i64(len(chunk)), f7=_i64(len(chunk)), f9=_i64(4 + (dictionary_bytes or 0)),
        **told,
    )  # fmt: skip
    group = _struct(f1=_list(12, [_struct(f2=_i64(4), f3=(12, column))]), f2=_i64(len(chunk)), f3=_i64(rows))
    footer = _struct(f1=_i32(1), f2=_list(12, schema), f3=_i64(rows), f4=_list(12, [group]))
    path.write_bytes(b"PAR1" + chunk + footer + struct.pack("<I", len(footer)) + b"PAR1")


def _zeros_as_dictionary(path):
    """One entry is said to be there, and 300 MiB of entries of no letters are."""
    zeros = 300 << 20
    entries = pa.compress(bytes(zeros), "zstd", asbytes=True)
    told = _struct(f1=_i32(1), f2=_i32(_PLAIN))
    dictionary = _page(_DICTIONARY_PAGE, entries, zeros, told)
    numbers = b"\1" + _varint(4 << 1) + b"\0"
    page = _data_page(pa.compress(numbers, "zstd", asbytes=True), len(numbers), 4, _RLE_DICTIONARY)
    _write(path, dictionary + page, 4, kind=_BYTE_ARRAY, codec=_ZSTD, dictionary_bytes=len(dictionary))


def _a_million_pages(path):
    _write(path, _data_page(struct.pack("<i", 7), 4, 1) * 1_000_000, 1_000_000)


def _a_million_empty_pages(path):
    _write(path, _data_page(b"", 0, 0) * 1_000_000 + _data_page(struct.pack("<i", 7), 4, 1), 1)


@pytest.mark.parametrize("entry", READS)
@pytest.mark.parametrize("forge", [_a_million_pages, _a_million_empty_pages])
def test_pages_without_end_are_refused_at_once(forge, entry, tmp_path):
    forge(tmp_path / "a.parquet")
    assert_refused(READS[entry], tmp_path, match="more than is read")


@pytest.mark.parametrize("entry", READS)
def test_a_dictionary_of_more_entries_than_it_says_takes_no_longer_than_those(entry, tmp_path):
    _zeros_as_dictionary(tmp_path / "a.parquet")
    work = f"{READS[entry]}\nraise hub.errors.SourceError('read or refused, at once')"
    assert_refused(work, tmp_path)


@pytest.mark.parametrize(("rows", "values"), [(5, 2), (3, 0)])
def test_a_row_group_of_fewer_rows_than_its_footer_says_is_refused(rows, values, tmp_path):
    body = struct.pack(f"<{values}i", *range(values))
    _write(tmp_path / "a.parquet", _data_page(body, len(body), values), rows)
    with pytest.raises(hub.errors.SourceError, match=r"a\.parquet"):
        hub.import_table(tmp_path / "a.parquet", "t/a:v1", root=tmp_path / "root")
    with pytest.raises(hub.errors.SourceError, match=r"a\.parquet"):
        next(iter(hub.make_reader(str(tmp_path), reader_pool_type="dummy")))
    assert hub.list(root=tmp_path / "root") == []
