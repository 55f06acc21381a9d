"""Reading row groups of Parquet whose decoded size is counted before it is decoded.

A footer may lie, and a page may stand for far more than it holds: a dictionary repeats a long text by a few bits,
and delta encodings repeat the text before. So nothing of a footer is believed: the headers of all pages, which are
what Arrow allocates by, are counted before Arrow sees them.

Formats: https://github.com/apache/parquet-format (``parquet.thrift``, ``Encodings.md``) and Thrift's compact protocol,
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hubarray.arrow_types import is_file, plain_column, plain_schema, without_views
from hubarray.errors import SourceError
from hubarray.limits import Budget
from hubarray.threads import Threads

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# A short text as an object of Python, beside its letters.
_TEXT_BYTES = 32
# A value of a list within a list, or of a struct, becomes an object too; a list an array of NumPy.
_NESTED_BYTES, _LIST_BYTES = 48, 112
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_PLAIN_DICTIONARY, _DELTA_BYTE_ARRAY, _RLE_DICTIONARY = 2, 7, 8
# What pyarrow calls the codecs of Parquet.
_CODECS = {"lz4": "lz4_raw"}
_MAX_THRIFT_DEPTH = 16
_MAX_THRIFT_ITEMS = 256
_MAX_ENTRIES_LOOKED_AT = 4096
# As nanoseconds of 64 bits hold.
_MAX_MICROSECONDS = (1 << 63) // 1000
_FETCHED_AT_ONCE = 16
_JOINED_GAP_BYTES, _MAX_JOINED_BYTES = 1 << 20, 32 << 20


def read_row_group(
    opened: pa.NativeFile,
    metadata: pq.FileMetaData,
    group: int,
    columns: Sequence[str],
    *,
    max_bytes: int,
    where: str,
    is_remote: bool = False,
) -> pa.Table:
    """Return some columns of a row group.

    Parameters
    ----------
    opened : pyarrow.NativeFile
    metadata : pyarrow.parquet.FileMetaData
    group : int
    columns : sequence of str
        Names of columns, whole with all that is nested in them.
    max_bytes : int
        What they may decode to, all together.
    where : str
        Names the row group in errors.
    is_remote : bool
        Whether requests are worth joining and sending side by side.

    Raises
    ------
    SourceError
        They decode to more.
    pyarrow.ArrowException, OSError
    """
    budget = Budget(max_bytes, where)
    budget.take(4 * max(0, metadata.row_group(group).num_rows))
    leaves = _leaves(metadata, columns)
    every = [leaf for column_leaves in leaves.values() for leaf in column_leaves]
    ranges = _ranges(opened.size(), metadata, group, every)
    fetched = _Fetched(opened, ranges, where, is_remote=is_remote)
    # Arrow looked at these column chunks, so that Python can: at some damage that would end the process.
    counts = [_Counter(budget, leaf, metadata.row_group(group).column(leaf.index).compression) for leaf in every]
    suspects = {
        counter.leaf.index
        for counter, (begin, end) in zip(counts, ranges, strict=True)
        if not counter.count(memoryview(fetched.slice(begin, end - begin)).cast("B"))
    }
    texts = [leaf.path for leaf in every if leaf.index in suspects]
    careful = pq.ParquetFile(
        fetched, metadata=metadata, read_dictionary=texts, coerce_int96_timestamp_unit="us", pre_buffer=False
    )
    read_columns: dict[str, pa.ChunkedArray] = {}
    for name, column_leaves in leaves.items():
        if any(leaf.index in suspects for leaf in column_leaves):
            read_columns[name] = _read(careful, group, column_leaves).column(0)
            budget.take(sum(expanded_bytes(chunk) for chunk in read_columns[name].chunks))
    declared = _declared_schema(metadata)
    for name, column_leaves in leaves.items():
        if name in read_columns:
            read_columns[name] = read_columns[name].cast(without_views(declared.field(name).type))
        else:
            table = _read(careful, group, column_leaves)
            if any(leaf.is_int96 for leaf in column_leaves):
                table = _exact_times(table, fetched, metadata, group, column_leaves, where)
            read_columns[name] = table.column(0)
        # Times may be finer than was declared.
        read_columns[name] = plain_column(
            read_columns[name], declared.field(name).with_type(read_columns[name].type), where
        )
    rows = metadata.row_group(group).num_rows
    for column in read_columns.values():
        if len(column) != rows:
            raise SourceError(f"{where}: has {len(column)} rows of a column, and its footer said {rows}")
    return pa.table(list(read_columns.values()), names=list(read_columns)).select(list(leaves))


def _read(file: pq.ParquetFile, group: int, leaves: Sequence[_Leaf]) -> pa.Table:
    """Leaves by their numbers: a path would mean the columns below it, too, and names may have dots."""
    return file.reader.read_row_group(group, column_indices=[leaf.index for leaf in leaves], use_threads=False)


def arrow_schema(metadata: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a file as :func:`read_row_group` gives them, without metadata.

    INT96, which Spark writes times as, is microseconds: nanoseconds of 64 bits end in the year 2262.
    """
    return plain_schema(_declared_schema(metadata))


def _declared_schema(metadata: pq.FileMetaData) -> pa.Schema:
    return pq.ParquetFile(_Probe(0), metadata=metadata, coerce_int96_timestamp_unit="us").schema_arrow


def files_of(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns whose values are files; see :mod:`hubarray.arrow_types`."""
    return [field.name for field in _declared_schema(metadata) if is_file(field.type)]


def _exact_times(
    table: pa.Table, file: _Probe, metadata: pq.FileMetaData, group: int, leaves: Sequence[_Leaf], where: str
) -> pa.Table:
    """A column of INT96, which was read as microseconds; as nanoseconds where there are any.

    Raises
    ------
    SourceError
        It has nanoseconds, and times that 64 bits of them do not hold.
    """
    finer = _read(pq.ParquetFile(file, metadata=metadata, pre_buffer=False), group, leaves)
    fits = True
    same = True
    for column, other in zip(table.columns, finer.columns, strict=True):
        for micros, nanos in zip(_numbers(column), _numbers(other), strict=True):
            # Far times have wrapped around, as this product does.
            same = same and np.array_equal(micros * np.int64(1000), nanos)
            fits = fits and bool((np.abs(micros) < _MAX_MICROSECONDS).all())
    if same:
        return table
    if not fits:
        raise SourceError(f"{where}: has times of nanoseconds beside times outside of 1677 to 2262")
    return finer


def _numbers(column: pa.ChunkedArray | pa.Array) -> Iterator[np.ndarray]:
    """The numbers of all times in a column of any nesting."""
    if isinstance(column, pa.ChunkedArray):
        for chunk in column.chunks:
            yield from _numbers(chunk)
    elif pa.types.is_timestamp(column.type):
        yield column.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False)
    elif pa.types.is_struct(column.type):
        for inner in column.flatten():
            yield from _numbers(inner)
    elif pa.types.is_nested(column.type):
        yield from _numbers(column.values)


def expanded_bytes(array: pa.Array) -> int:
    """Bytes of the texts of an array of any nesting, as often as its dictionaries repeat them.

    Examples
    --------
    >>> expanded_bytes(pa.array(["four", "four"]).dictionary_encode())
    72
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        counts = np.bincount(array.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(lengths))
        return int(((lengths + _TEXT_BYTES) * counts).sum())
    if pa.types.is_struct(kind):
        return sum(expanded_bytes(array.field(i)) for i in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return expanded_bytes(array.values)
    return 0


@dataclass(frozen=True)
class _Leaf:
    """A column of values, as Parquet stores it.

    Attributes
    ----------
    path : str
    value_bytes : int
        What a value takes, beside the letters of a text.
    is_text : bool
        Whether values are of any length.
    levels : tuple of int
        Most repetitions and definitions, which precede values in a page.
    index : int
        Among all leaves of the file.
    is_int96 : bool
    """

    path: str
    value_bytes: int
    is_text: bool
    levels: tuple[int, int]
    index: int
    is_int96: bool


def _leaves(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, list[_Leaf]]:
    """The leaves of each column, by its name, in the order that is given."""
    leaves: dict[str, list[_Leaf]] = {name: [] for name in columns}
    tops = _tops(metadata)
    for i, top in enumerate(tops):
        if top not in leaves:
            continue
        column = metadata.schema.column(i)
        is_text = column.physical_type == "BYTE_ARRAY"
        width = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0
        size = _TEXT_BYTES if is_text else max(_WIDTHS.get(column.physical_type, 0), width + _TEXT_BYTES * bool(width))
        depth = column.max_repetition_level
        size += _NESTED_BYTES if depth > 1 else 4 * depth
        levels = column.max_repetition_level, column.max_definition_level
        leaves[top].append(_Leaf(column.path, size, is_text, levels, i, column.physical_type == "INT96"))
    return {name: column_leaves for name, column_leaves in leaves.items() if column_leaves}


def _tops(metadata: pq.FileMetaData) -> list[str]:
    """The name of the column that each leaf is of. A name may have dots in it, so paths are not split."""
    schema = metadata.schema.to_arrow_schema()
    counts = [_leaf_count(field.type) for field in schema]
    names = [field.name for field, count in zip(schema, counts, strict=True) for _ in range(count)]
    if len(names) != len(metadata.schema):
        raise SourceError("its columns cannot be told apart")
    return names


def _leaf_count(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if pa.types.is_nested(kind):
        return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    return 1


class _Probe:
    """A file that only notes which bytes it was asked for, as Arrow tells nobody what a column chunk's are.

    It gives zeros, at which Arrow ends as soon as it looks at them.
    """

    closed = False

    def __init__(self, size: int) -> None:
        self._size = size
        self._zeros = mmap.mmap(-1, 1)
        self.at = 0
        self.ranges: list[tuple[int, int]] = []

    def size(self) -> int:
        return self._size

    def seek(self, position: int, whence: int = 0) -> int:
        self.at = position if whence == 0 else self._size + position
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, count: int = -1) -> Any:
        if not 0 <= self.at <= self.at + count <= self._size:
            raise SourceError("its footer names bytes that the file does not have")
        self.ranges.append((self.at, self.at + count))
        if count > len(self._zeros):
            # Memory of the system, which takes none until it is looked at.
            self._zeros = mmap.mmap(-1, count)
        return pa.py_buffer(self._zeros).slice(0, count)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def _ranges(size: int, metadata: pq.FileMetaData, group: int, leaves: Sequence[_Leaf]) -> list[tuple[int, int]]:
    """The bytes of each leaf's column chunk, which Arrow asks for one after the other before it decodes any."""
    in_order = sorted(leaves, key=lambda leaf: leaf.index)
    probe = _Probe(size)
    try:
        _read(pq.ParquetFile(probe, metadata=metadata, pre_buffer=False), group, in_order)
    except (pa.ArrowException, OSError):
        if len(probe.ranges) < len(leaves):
            raise
    if len(probe.ranges) != len(leaves):
        raise SourceError("its footer does not declare where its columns are")
    ranges = {leaf.index: chunk_range for leaf, chunk_range in zip(in_order, probe.ranges, strict=True)}
    return [ranges[leaf.index] for leaf in leaves]


class _Fetched(_Probe):
    """The bytes of some column chunks, as a file for Arrow."""

    def __init__(
        self, opened: pa.NativeFile, ranges: Sequence[tuple[int, int]], where: str, *, is_remote: bool
    ) -> None:
        super().__init__(opened.size())
        self._where = where
        joined: list[list[int]] = []
        gap, most = (_JOINED_GAP_BYTES, _MAX_JOINED_BYTES) if is_remote else (0, 0)
        for begin, end in sorted(chunk_range for chunk_range in ranges if chunk_range[1] > chunk_range[0]):
            if joined and begin - joined[-1][1] <= gap and end - joined[-1][0] <= most:
                joined[-1][1] = max(end, joined[-1][1])
            else:
                joined.append([begin, end])

        def read(span: list[int]) -> pa.Buffer:
            return pa.py_buffer(opened.read_at(span[1] - span[0], span[0]))

        if is_remote and len(joined) > 1:
            with Threads(min(_FETCHED_AT_ONCE, len(joined)), "hubarray-row-group") as threads:
                buffers = list(threads.map(read, joined))
        else:
            buffers = [read(span) for span in joined]
        self._begins = [span[0] for span in joined]
        self._buffers = buffers

    def slice(self, begin: int, count: int) -> pa.Buffer:
        """Some of the bytes."""
        i = bisect.bisect_right(self._begins, begin) - 1
        buffer = self._buffers[i] if i >= 0 else pa.py_buffer(b"")
        at = begin - self._begins[i] if i >= 0 else 0
        if count and not 0 <= at <= at + count <= buffer.size:
            raise SourceError(f"{self._where}: its footer has changed since it was read")
        return buffer.slice(at, count) if count else pa.py_buffer(b"")

    def read(self, count: int = -1) -> Any:
        """The next bytes."""
        data = self.slice(self.at, count)
        self.at += count
        return data


class _Counter:
    """The bytes that a column chunk decodes to, by the headers of its pages."""

    def __init__(self, budget: Budget, leaf: _Leaf, compression: str) -> None:
        self.leaf = leaf
        self._budget, self._compression = budget, compression.lower()

    def count(self, data: memoryview) -> bool:
        """Count its bytes; False where only its dictionary tells how long its texts are.

        Raises
        ------
        SourceError
            It is too much.
        """
        entry_bytes = repeated_bytes = 0
        for page in _pages(data):
            self._budget.take_page()
            holds_texts = self.leaf.is_text and not page.is_dictionary_encoded
            # Arrow decompresses one page at a time.
            too_large = page.uncompressed_bytes > self._budget.left_bytes
            if page.kind == _DICTIONARY_PAGE or holds_texts or too_large:
                self._budget.take(page.uncompressed_bytes)
            if page.kind == _DICTIONARY_PAGE:
                entry_bytes = self._longest_entry(data, page) if self.leaf.is_text else 0
                continue
            self._budget.take(self.leaf.value_bytes * page.values)
            if not self.leaf.is_text:
                continue
            if page.is_dictionary_encoded:
                repeated_bytes += entry_bytes * page.values
            elif page.encoding == _DELTA_BYTE_ARRAY and page.longest_bytes > self._budget.left_bytes:
                self._budget.take(self._prefix_bytes(data, page))
        if repeated_bytes > self._budget.left_bytes:
            return False
        self._budget.take(repeated_bytes)
        return True

    def _longest_entry(self, data: memoryview, page: _Page) -> int:
        """The letters of the longest text of a dictionary, or of all where there are many."""
        if page.values > _MAX_ENTRIES_LOOKED_AT:
            return page.uncompressed_bytes
        body = self._body(data, page)
        longest = at = 0
        for _ in range(page.values):
            if at >= len(body):
                break
            length = int.from_bytes(body[at : at + 4], "little")
            longest, at = max(longest, length), at + 4 + length
        return longest

    def _body(self, data: memoryview, page: _Page) -> memoryview:
        """The bytes of a page behind the levels of its second version, decompressed."""
        body = data[page.first + page.levels_bytes : page.end]
        if self._compression == "uncompressed" or not page.is_compressed:
            return body
        size = page.uncompressed_bytes - page.levels_bytes
        codec = _CODECS.get(self._compression, self._compression)
        return memoryview(pa.decompress(body, size, codec, asbytes=True))

    def _prefix_bytes(self, data: memoryview, page: _Page) -> int:
        """The letters that the texts of a page share with the text before each."""
        body = self._body(data, page)
        if page.kind == _DATA_PAGE:
            for most in self.leaf.levels:
                body = body[4 + int.from_bytes(body[:4], "little") :] if most else body
        return _sum_of_delta_packed(body, page.values)


class _Page(NamedTuple):
    """The header of a page, and where its bytes are in the column chunk."""

    kind: int
    uncompressed_bytes: int
    values: int
    encoding: int
    levels_bytes: int
    is_compressed: bool
    first: int
    end: int

    @property
    def longest_bytes(self) -> int:
        """Bytes of values that each repeat all that is in the page."""
        return self.uncompressed_bytes * self.values

    @property
    def is_dictionary_encoded(self) -> bool:
        """Whether its values are numbers of entries of the dictionary."""
        return self.encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY)


def _pages(data: memoryview) -> Iterator[_Page]:
    """The headers of a column chunk's pages, as far as they can be read: Arrow goes no further."""
    at = 0
    while at < len(data):
        try:
            header, at = _thrift_struct(data, at, 0)
            page = _page(header, at)
        except (IndexError, ValueError):
            return
        yield page
        at = page.end


def _page(header: dict[int, Any], at: int) -> _Page:
    kind = _whole(header.get(1))
    of_kind = header.get({_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}.get(kind, 0), {})
    if not isinstance(of_kind, dict):
        raise ValueError("is not a header of a page")
    second = kind == _DATA_PAGE_V2
    return _Page(
        kind=kind,
        uncompressed_bytes=_whole(header.get(2)),
        values=_whole(of_kind.get(1, 0)),
        encoding=_whole(of_kind.get(4 if second else 2, 0)),
        levels_bytes=_whole(of_kind.get(5, 0)) + _whole(of_kind.get(6, 0)) if second else 0,
        is_compressed=of_kind.get(7, True) is not False,
        first=at,
        end=at + _whole(header.get(3)),
    )


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("is not a count")
    return value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("is not a number")


def _thrift_struct(data: memoryview, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol by the numbers of its fields, and where it ends."""
    if depth > _MAX_THRIFT_DEPTH:
        raise ValueError("is nested too deep")
    values: dict[int, Any] = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            size, at = _varint(data, at)
            number = (size >> 1) ^ -(size & 1)
        if kind == 5 and (byte := data[at]) < 0x80:
            # What nearly all fields are, of which there may be millions.
            values[number], at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            values[number], at = (kind == 1, at) if kind in (1, 2) else _thrift_value(data, at, kind, depth)
    return values, at + 1


def _thrift_value(data: memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        value, at = _varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        count, at = _varint(data, at)
        if count > len(data) - at:
            raise ValueError("is cut short")
        return None, at + count
    if kind == 12:
        return _thrift_struct(data, at, depth + 1)
    if kind in (9, 10):
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
        kinds: tuple[int, ...] = (head & 0x0F,)
    elif kind == 11:
        count, at = _varint(data, at)
        kinds, at = ((data[at] >> 4, data[at] & 0x0F), at + 1) if count else ((), at)
    else:
        raise ValueError("is of no known type")
    if count > _MAX_THRIFT_ITEMS:
        raise ValueError("has a list, which no header of a page needs")
    for _ in range(count):
        for field_kind in kinds:
            _, at = _thrift_value(data, at, field_kind, depth + 1)
    return None, at


def _sum_of_delta_packed(data: memoryview, count: int) -> int:
    """The sum of the numbers that DELTA_BINARY_PACKED has, of which there are to be so many at most."""
    block, at = _varint(data, 0)
    minis, at = _varint(data, at)
    length, at = _varint(data, at)
    first, at = _varint(data, at)
    if not 0 < minis <= block or length > count or block > 1 << 20:
        raise SourceError("a page of text declares impossible lengths")
    values = np.zeros(max(1, length), np.int64)
    values[0] = (first >> 1) ^ -(first & 1)
    done, each = 1, block // minis
    while done < length:
        low, at = _varint(data, at)
        low = (low >> 1) ^ -(low & 1)
        widths = bytes(data[at : at + minis])
        at += minis
        for width in widths:
            if done >= length:
                break
            stored = np.frombuffer(data[at : at + each * width // 8], np.uint8)
            if width > 32 or len(stored) * 8 != each * width:
                raise SourceError("a page of text declares impossible lengths")
            bits = np.unpackbits(stored, bitorder="little").reshape(each, width) if width else np.zeros((each, 1), "u1")
            deltas = bits.astype(np.int64) @ (1 << np.arange(bits.shape[1], dtype=np.int64))
            fitting = min(each, length - done)
            values[done : done + fitting] = deltas[:fitting] + low
            done += fitting
            at += len(stored)
    return int(np.cumsum(values).clip(0).sum())
