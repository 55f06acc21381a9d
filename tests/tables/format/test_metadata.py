"""Descriptions of tables: every piece has a number of its own, and what a bucket says is checked."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import CorruptDataError
from hubarray.history.records.json_fields import Fields
from hubarray.tables.format.locations import SLAB_ROWS
from hubarray.tables.format.metadata import TableMetadata
from hubarray.tables.format.schema import Field, Schema

SCHEMA = Schema({"a.x": Field("u1"), "b.y": Field(str), "t": Field("i8", index=True)})
SIZES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3 * SLAB_ROWS)), max_size=5)


def table_of(sizes):
    table = TableMetadata.empty(SCHEMA, str)
    for chunk_files, rows in sizes:
        counts = dict.fromkeys(SCHEMA.groups, 1)
        table = table.with_append(chunk_files=chunk_files, rows=rows, partitions=1, blocks=counts, stored_bytes=counts)
    return table


def again(described):
    return TableMetadata.from_json(Fields(json.loads(json.dumps(described)), "the record", ""))


@given(SIZES)
def test_every_number_is_one_pieces_and_none_is_left_out(sizes):
    table = table_of(sizes)
    used = []
    for append in table.appends:
        used += range(append.first, append.first + append.chunk_files)
        for slab in range(append.slabs):
            used.append(table.index_number(append, slab))
            used += [table.locations_number(append, slab, group) for group in SCHEMA.groups]
            used += [table.digests_number(append, slab, group) for group in SCHEMA.groups]
        used.append(table.partitions_number(append))
        assert sum(append.slab_rows(slab) for slab in range(append.slabs)) == append.rows
    assert used == list(range(table.end))


@given(SIZES)
def test_a_later_append_leaves_the_numbers_of_the_earlier_ones(sizes):
    for count in range(len(sizes)):
        assert table_of(sizes[:count]).appends == table_of(sizes).appends[:count]


@given(SIZES.filter(bool), st.data())
def test_a_row_is_in_the_append_that_has_it(sizes, data):
    table = table_of(sizes)
    row = data.draw(st.integers(0, table.rows - 1))
    append = table.append_of(row)
    assert append.first_row <= row < append.first_row + append.rows


@given(SIZES)
def test_a_description_is_the_same_when_it_is_read_again(sizes):
    table = table_of(sizes)
    assert again(table.to_json()) == table


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["key"], "float"),
        (["appends"], {}),
        (["appends", 1, "first"], 3),
        (["appends", 0, "first"], 1),
        (["appends", 0, "rows"], -1),
        (["appends", 0, "rows"], 1 << 50),
        (["appends", 0, "partitions"], 1 << 41),
        (["appends", 0, "chunk_files"], 1 << 32),
        (["appends", 0, "more"], 1),
        (["groups"], {}),
        (["groups", "a"], 7),
        (["groups", "a", "blocks"], 1 << 40),
        (["groups", "a", "bytes"], -1),
        (["groups", "c"], {"blocks": 0, "bytes": 0}),
        (["schema"], []),
        (["more"], 1),
    ],
    ids=str,
)
def test_what_cannot_be_is_corrupt_data_and_named(path, value):
    described = copy.deepcopy(table_of([(2, 100), (1, SLAB_ROWS + 1)]).to_json())
    target = described
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    with pytest.raises(CorruptDataError, match="the record"):
        again(described)


def test_more_appends_than_there_may_be_are_refused():
    described = table_of([]).to_json()
    described["appends"] = [{"first": i, "chunk_files": 0, "rows": 0, "partitions": 0} for i in range(1001)]
    with pytest.raises(CorruptDataError, match="1001"):
        again(described)
