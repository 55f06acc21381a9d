"""Scans of small rows: whole blocks that lie side by side are taken as one, and are what they are one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.snapshot import block_spans
from tests.tables.rows import write

ROWS = 500
SCHEMA = hub.Schema(
    {
        "p.a": hub.Field("i4"), "p.b": hub.Field("u1", (3,)), "p.c": hub.Field("f8", (2, 2)),
        "t.v": hub.Field("i2"), "t.s": hub.Field(str), "t.y": hub.Field(bytes),
        "u.v": hub.Field("U3"), "n.v": hub.Field("i4", nullable=True),
    },
    rows_per_block={"p": 16, "t": 8, "u": 8, "n": 8},
)  # fmt: skip


def columns():
    rng = np.random.default_rng(0)
    texts = ["", "a", "é", "\U0001f600", "plain text"]
    return {
        "p.a": np.arange(ROWS, dtype="i4"), "p.b": rng.integers(0, 255, (ROWS, 3), "u1"), "p.c": rng.random((ROWS, 2, 2)),
        "t.v": np.arange(ROWS, dtype="i2"), "t.s": [texts[i // 40 % 5] * (i % 4) for i in range(ROWS)],
        "t.y": [bytes([i % 256]) * (i % 3) for i in range(ROWS)], "u.v": np.array([f"é{i % 10}" for i in range(ROWS)], "U3"),
        "n.v": [None if i % 9 == 0 else i for i in range(ROWS)],
    }  # fmt: skip


@pytest.fixture(scope="module", params=["local", "s3"])
def scanned(request, make_root):
    root = make_root(request.param)
    made = columns()
    with hub.table_writer("t/small:v1", SCHEMA, root=root) as w:
        for key, some in (("a", slice(0, 203)), ("b", slice(203, ROWS))):
            with w.partition(key) as p:
                p.extend({name: column[some] for name, column in made.items()})
    return hub.load("t/small:v1", root=root).loader(), made


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_columns_of_any_rows_are_those_that_were_written(scanned, data):
    loader, made = scanned
    runs = data.draw(
        st.lists(
            st.tuples(st.integers(0, ROWS - 1), st.integers(1, 300), st.sampled_from([1, 1, 1, -1, 2])),
            min_size=1,
            max_size=4,
        )
    )
    at = [i for first, count, step in runs for i in range(first, first + count * step, step) if 0 <= i < ROWS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_spans, "_JOINED_BYTES", data.draw(st.sampled_from([1, 1 << 10, 1 << 20])))
        result = loader.get_columns(at, data.draw(st.sampled_from(["*", "p.*", "p.b", "t.*", ["t.s", "p.a"]])))
    for name, column in result.items():
        expected = made[name]
        for got, i in zip(column, at, strict=True):
            assert np.array_equal(got, expected[i]) if not isinstance(got, (str, bytes)) else got == expected[i], (
                name,
                i,
            )


def test_a_block_among_others_that_says_other_rows_is_refused(root, monkeypatch):
    from hubarray.errors import CorruptDataError
    from hubarray.tables.format.block_encoding import encode
    from hubarray.tables.format.plain_blocks import PlainBlocks

    group = SCHEMA.groups["p"]
    made = {name: columns()[name][:16] for name, _ in group.fields}
    whole = b"".join(map(bytes, encode(group, made)))
    assert PlainBlocks(group, whole * 2, len(whole), "here").column("p.a").tolist() == [*range(16), *range(16)]
    other = bytearray(whole)
    other[16] = 15
    with pytest.raises(CorruptDataError, match="here"):
        PlainBlocks(group, whole + bytes(other), len(whole), "here")


def test_a_block_with_text_among_others_that_says_what_is_not_there_is_refused():
    from hubarray.errors import CorruptDataError
    from hubarray.tables.format.block_encoding import encode
    from hubarray.tables.format.text_blocks import TextBlocks

    group = SCHEMA.groups["t"]
    made = {name: columns()[name][152:160] for name, _ in group.fields}
    encoded = made | {"t.s": [text.encode() for text in made["t.s"]]}
    whole = b"".join(map(bytes, encode(group, encoded)))
    ends = [len(whole), 2 * len(whole)]
    result = TextBlocks(group, whole * 2, ends, "here")
    assert result.column("t.s") == made["t.s"] * 2
    assert result.column("t.y") == made["t.y"] * 2
    assert result.column("t.v").tolist() == made["t.v"].tolist() * 2
    text_at = whole.index("\U0001f600".encode())
    for at, value in ((16, 7), (20, 1), (24, 255), (text_at, 0xFF)):
        other = bytearray(whole)
        other[at] = value
        with pytest.raises(CorruptDataError, match="here"):
            TextBlocks(group, whole + bytes(other), ends, "here").column("t.s")
    with pytest.raises(CorruptDataError, match="here"):
        TextBlocks(group, whole[:40], [20, 40], "here")


def test_a_range_of_positions_is_looked_at_before_it_is_spread_out():
    from hubarray.tables.read.positions import positions_of

    for some in (range(5), range(-3, 3), range(4, -1, -2), range(0)):
        assert positions_of(some, 5).tolist() == [i % 5 for i in some]
    for some in (range(10**30), range(-6, 2), range(5, 6)):
        with pytest.raises(IndexError, match="an index with 5 rows"):
            positions_of(some, 5)


def test_one_flipped_bit_in_a_scan_is_an_error_that_names_the_pack(root):
    table = write(
        "t/small:v1", {"a": [{name: column[i] for name, column in columns().items()} for i in range(200)]}, root, SCHEMA
    )
    from pathlib import Path

    folder = Path(root.url.removeprefix("file://")) / "t/small/packs"
    (pack,) = sorted(folder.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)[-1:]
    data = bytearray(pack.read_bytes())
    # In the plain group, whose blocks come first.
    data[700] ^= 1
    pack.write_bytes(data)
    with pytest.raises(hub.errors.CorruptDataError, match="t/small/packs"):
        table.loader().get_columns(range(200), "p.*")
