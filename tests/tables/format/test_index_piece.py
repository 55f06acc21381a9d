"""Index pieces: the rows of a slab's index come back as they were, and what is no such file is refused."""

import contextlib
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import ConfigError
from hubarray.tables.format.field_values import checked
from hubarray.tables.format.index_piece import arrow_schema, column_of, decode, encode
from hubarray.tables.format.schema import PARTITION, Field, Schema
from tests.tables import strategies

NAT = np.datetime64("NaT")
DTYPES = ["u1", "i8", "f4", "f8", "?", "M8[us]", "m8[ns]", str, bytes]


def table_of(schema, keys, rows):
    expected = arrow_schema(schema, type(keys[0]))
    columns = [column_of(schema[name], [checked(schema[name], row[name]) for row in rows]) for name in schema.index]
    partition = pa.array(keys).dictionary_encode().cast(expected.field(0).type)
    return pa.table([partition, *columns], schema=expected)


@st.composite
def indexed(draw):
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4))
    fields = {f"f{i}": Field(dtype, index=True, nullable=draw(st.booleans())) for i, dtype in enumerate(dtypes)}
    schema, count = Schema(fields), draw(st.integers(1, 8))
    rows = [{name: _drawn(draw, schema[name]) for name in schema} for _ in range(count)]
    keys = draw(st.lists(st.text("abc", min_size=1), min_size=count, max_size=count) | st.just([1, 2, 1] * 3))
    return schema, keys[:count], rows


def _drawn(draw, field):
    value = draw(strategies.values(field))
    is_time = value is not None and field.dtype is not None and field.dtype.kind in "mM"
    return value if not is_time or not np.isnat(value) else (None if field.nullable else np.zeros((), field.dtype)[()])


@given(indexed())
def test_every_value_comes_back_and_nulls_too(made):
    schema, keys, rows = made
    expected = arrow_schema(schema, type(keys[0]))
    result = decode(encode(table_of(schema, keys, rows)), expected, rows=len(rows))
    assert result.schema.equals(expected)
    assert result[PARTITION].to_pylist() == keys
    for name in schema:
        column = result[name].combine_chunks()
        for i, row in enumerate(rows):
            value = column[i].as_py() if schema[name].dtype is None else _of_numpy(column[i], schema[name].dtype)
            assert value is None if row[name] is None else strategies.same(row[name], value)


def _of_numpy(scalar, dtype):
    return None if not scalar.is_valid else pa.array([scalar]).to_numpy(zero_copy_only=False).astype(dtype)[0]


def test_the_same_rows_are_the_same_bytes():
    schema = Schema({"x": Field("i8", index=True), "y": Field(str, index=True, nullable=True)})
    rows = [{"x": i, "y": None if i % 3 else str(i)} for i in range(5000)]
    keys = [f"p{i // 100}" for i in range(5000)]
    assert encode(table_of(schema, keys, rows)) == encode(table_of(schema, keys, rows))


def test_some_columns_are_read_alone():
    schema = Schema({"x": Field("i8", index=True), "y": Field(str, index=True)})
    table = table_of(schema, ["a"], [{"x": 7, "y": "z"}])
    result = decode(encode(table), arrow_schema(schema, str), rows=1, columns=["y"])
    assert result.to_pydict() == {"y": ["z"]}


def _parquet(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an index"),
        (b"PAR1 and no more PAR1", "not an index"),
        (_parquet(pa.table({"x": [1]})), "other columns"),
        (_parquet(pa.table({PARTITION: ["a", "b"], "x": [1, 2]})), "rows"),
        (_parquet(pa.table({PARTITION: ["a"], "x": ["text"]})), "'x' as string, but int32 is expected"),
        (_parquet(pa.table({PARTITION: ["a"], "x": [1 << 40]})), "'x' as int64"),
        (_parquet(pa.table({PARTITION: ["a"], "x": [2.0]})), "'x' as double"),
        (_parquet(pa.table({PARTITION: ["a"], "x": [True]})), "'x' as bool"),
        (_parquet(pa.table({PARTITION: [1], "x": pa.array([1], "i4")})), "'partition' as int64"),
    ],
)
def test_what_is_no_such_file_is_refused(data, why):
    with pytest.raises(ValueError, match=why):
        decode(data, arrow_schema(Schema({"x": Field("i4", index=True)}), str), rows=1)


@given(st.data())
def test_whatever_is_made_of_the_bytes_is_rows_or_a_value_error(data):
    schema = Schema({"x": Field("i8", index=True), "y": Field(str, index=True)})
    piece = bytearray(encode(table_of(schema, ["a", "b"], [{"x": 7, "y": "z"}, {"x": 8, "y": "zz"}])))
    for _ in range(data.draw(st.integers(1, 3))):
        piece[data.draw(st.integers(0, len(piece) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert len(decode(piece, arrow_schema(schema, str), rows=2)) == 2


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[s]", "M8[25us]", "m8[Y]"])
def test_times_that_arrow_does_not_have_are_refused(dtype):
    with pytest.raises(ConfigError, match="times"):
        arrow_schema(Schema({"x": Field(dtype, index=True)}), str)


def test_not_a_time_is_null_where_null_may_be():
    assert checked(Field("M8[us]", index=True, nullable=True), NAT.astype("M8[us]")) is None
    assert np.isnat(checked(Field("M8[us]"), NAT.astype("M8[us]")))
    assert np.isnat(checked(Field("M8[us]", index=True), NAT.astype("M8[us]")))
    assert np.isnat(checked(Field("M8[us]", nullable=True), NAT.astype("M8[us]")))


def test_floats_keep_every_bit():
    schema = Schema({"x": Field("f4", index=True)})
    values = np.array([np.nan, -0.0, np.inf], "f4")
    result = decode(
        encode(table_of(schema, [1, 1, 2], [{"x": value} for value in values])), arrow_schema(schema, int), rows=3
    )
    assert result["x"].to_numpy().tobytes() == values.tobytes()
