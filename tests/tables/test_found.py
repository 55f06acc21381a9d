"""Attacks on tables that once worked, and honest uses that once failed."""

import io
import os
import resource
import signal
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imagecodecs import jpeg_encode, png_encode
from PIL import Image

import hubarray as hub
from hubarray.tables.format import index_piece
from hubarray.tables.format.index_piece import partitions_schema
from hubarray.tables.read.windows import EveryRow
from hubarray.tables.write import append
from tests.tables import rows as model

PLAIN = hub.Schema({"t": hub.Field("i8", index=True), "v": hub.Field("f4"), "u": hub.Field("f4")})


def plain(count):
    return [{"t": np.int64(i), "v": np.float32(i), "u": np.float32(-1)} for i in range(count)]


def test_a_piece_that_repeats_a_long_value_is_refused_before_it_is_made():
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, "i4")), pa.array(["x" * (256 << 10)]))
    out = io.BytesIO()
    pq.write_table(pa.table({"s": text}), out, compression="zstd", store_schema=False)
    assert len(out.getvalue()) < 10_000
    with pytest.raises(ValueError, match="more than"):
        index_piece.decode(out.getvalue(), pa.schema([pa.field("s", pa.string(), nullable=False)]), rows=100_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 12 << 20


def test_a_list_of_partitions_whose_rows_overflow_is_refused(root, forget, monkeypatch):
    rows = [2**62] * 4 + [50]
    firsts = np.cumsum([0, *rows[:-1]], dtype=np.int64).tolist()
    forged = pa.table([list("abcde"), firsts, rows], schema=partitions_schema(str))
    encode = index_piece.encode
    with monkeypatch.context() as patch:
        patch.setattr(
            index_piece, "encode", lambda table: encode(forged if "first_row" in table.column_names else table)
        )
        model.write("me/t:v1", {key: plain(10) for key in "abcde"}, root, PLAIN)
    forget()
    for use in (
        lambda: hub.read_index("me/t:v1", filters=[("partition", "==", "b")], root=root),
        lambda: hub.load("me/t:v1", root=root).partition_rows,
        lambda: hub.diff("me/t:v1", "me/t:v1", root=root),
    ):
        with pytest.raises(hub.errors.CorruptDataError, match="list of partitions"):
            use()


def test_a_part_of_another_schema_or_key_is_refused(root):
    swapped = hub.Schema({"t": hub.Field("i8", index=True), "u": hub.Field("f4"), "v": hub.Field("f4")})
    other = hub.table_writer("me/t:v1", swapped, root=root)
    with other.worker().partition("m") as p:
        p.extend(plain(5))
    with pytest.raises(hub.errors.ConfigError, match="'m' was written with another schema"):
        hub.table_writer("me/t:v1", PLAIN, root=root).add(p.part)
    with hub.table_writer("me/t:v1", PLAIN, root=root).worker().partition("m") as p:
        p.extend(plain(5))
    for part in (bytes(p.part).replace(b'"m"', b'"n"'), bytes(p.part).replace(b'"rows": 5', b'"rows": 6')):
        writer = hub.table_writer("me/t:v1", PLAIN, root=root)
        writer.add(part)
        with pytest.raises(hub.errors.CorruptDataError, match="not of this file, or was written with another schema"):
            writer.publish()
    assert not hub.exists("me/t:v1", root=root)


def test_a_part_from_the_future_and_what_is_no_part_are_refused(root):
    writer = hub.table_writer("me/t:v1", PLAIN, root=root)
    with writer.worker().partition("m") as p:
        p.extend(plain(5))
    began = p.part.began.isoformat().encode()
    later = (datetime.now(UTC) + timedelta(days=900)).isoformat().encode()
    with pytest.raises(hub.errors.ConflictError, match="the store's clock"):
        writer.add(bytes(p.part).replace(began, later))
    for nothing in (5, "part", None):
        with pytest.raises(hub.errors.ConfigError, match="TablePart or its bytes"):
            writer.add(nothing)


def test_tables_that_name_the_same_values_otherwise_differ(root):
    for name, order, row in (("me/d:v1", "ab", {"a": 1.0, "b": 2.0}), ("me/d:v2", "ba", {"a": 2.0, "b": 1.0})):
        model.write(name, {"p": [row] * 4}, root, hub.Schema({field: hub.Field("f4") for field in order}))
    result = hub.diff("me/d:v1", "me/d:v2", root=root)
    assert (result.changed, result.columns) == ({"p": 4}, {"a": 4, "b": 4})


def test_a_published_part_of_a_table_is_compared_and_referenced(root):
    model.write("me/t:v1", {key: plain(50) for key in "pqr"}, root, PLAIN)
    index = hub.read_index("me/t:v1", root=root)
    for name, some in (
        ("me/odd:v1", index[index["t"] % 2 == 1]),
        ("me/late:v1", index[index["t"] > 3]),
        ("me/some:v1", index[(index["t"] > 3) | (index["partition"] != "p")]),
        ("me/mixed:v1", index.sample(frac=1, random_state=0)),
    ):
        table = hub.write_index(some, name, root=root)
        assert not hub.diff(name, name, root=root)
        result = {key: [row for row, of in zip(table[:], some["partition"].sort_values(kind="stable"), strict=True)
                       if of == key] for key in "pqr"}  # fmt: skip
        again = model.write(f"{name}-again", result, root, PLAIN, reference=name)
        model.assert_rows(again[:], table[:])
        assert not hub.diff(name, f"{name}-again", root=root)


def test_images_that_could_not_be_read_again_are_refused_when_they_are_written(root):
    schema = hub.Schema(
        {"png": hub.Field("u1", (None, None, 3), codec="png"), "jpeg": hub.Field("u1", (None, None, 3), codec="jpeg")}
    )
    pixels = np.random.default_rng(0).integers(0, 256, (32, 40, 3), "u1")
    good = {"png": png_encode(pixels), "jpeg": jpeg_encode(pixels, level=90)}
    see_through = io.BytesIO()
    Image.fromarray(pixels).save(see_through, "png", transparency=(1, 2, 3))
    profile = io.BytesIO()
    Image.fromarray(pixels).save(profile, "jpeg", icc_profile=os.urandom(150_000))
    with hub.table_writer("me/i:v1", schema, root=root) as w, w.partition("a") as p:
        for name, value, words in (
            ("png", see_through.getvalue(), "tRNS"),
            ("png", good["png"][:-20], "cut short"),
            ("jpeg", good["jpeg"][: len(good["jpeg"]) // 2], "cut short"),
            ("jpeg", good["jpeg"][:300], "without a frame header|cut short"),
            ("png", np.zeros((0, 4, 3), "u1"), "pixels a side"),
            ("jpeg", np.zeros((1, 70_000, 3), "u1"), "pixels a side"),
        ):
            with pytest.raises(hub.errors.ConfigError, match=words):
                p.append({**good, name: value})
        p.append({"png": pixels, "jpeg": profile.getvalue()})
        p.append(good)
    rows = hub.load("me/i:v1", root=root)[:]
    assert [np.array_equal(row["png"], pixels) for row in rows] == [True, True]
    assert [row["jpeg"].shape for row in rows] == [pixels.shape] * 2


def test_reading_ahead_counts_what_rows_take_in_memory(root):
    schema = hub.Schema({"x": hub.Field("u1", (None,), codec="zstd")})
    zeros = np.zeros(4 << 20, "u1")
    model.write("me/z:v1", {"a": [{"x": zeros}] * 100}, root, schema)
    rows = hub.load("me/z:v1", root=root).loader().iter_rows()
    before = resident_bytes()
    for _ in range(10):
        next(rows)
    assert resident_bytes() - before < 200 << 20
    rows.close()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_a_child_that_is_forked_amid_an_iteration_goes_on_with_it(root):
    model.write("me/t:v1", {"a": plain(5000)}, root, PLAIN)
    rows = hub.load("me/t:v1", root=root).loader().iter_rows()
    first = next(rows)
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if [int(row["t"]) for row in rows] == list(range(1, 5000)) else 3)
    assert os.waitpid(child, 0)[1] == 0
    assert [first, *rows][4999]["t"] == 4999


def test_an_empty_growing_table_takes_keys_of_either_type(root):
    for name, key in (("me/g:v1", 7), ("me/g:v2", "seven")):
        model.write(name, {}, root, PLAIN, growing=True)
        with hub.table_writer(name, root=root) as w, w.partition(key) as p:
            p.extend(plain(2))
        assert hub.load(name, root=root).partitions == [key]


def test_drivers_with_keys_of_two_types_do_not_block_a_staging_version(root):
    writers = [hub.table_writer("me/t:v1", PLAIN, root=root, resume=True) for _ in range(2)]
    for writer, key in zip(writers, (1, "one"), strict=True):
        with writer.partition(key) as p:
            p.extend(plain(2))
    writers[0].abort()
    with pytest.raises(hub.errors.ConflictError, match="text and others whose keys are numbers"):
        writers[1].publish()
    with hub.table_writer("me/t:v1", PLAIN, root=root, resume=True) as w:
        assert w.keys == [1]


def test_an_index_is_read_without_columns_and_filtered_by_durations(root):
    schema = hub.Schema({"d": hub.Field("m8[us]", index=True), "v": hub.Field("f4")})
    model.write("me/d:v1", {"a": [{"d": np.timedelta64(i, "us"), "v": 0.5} for i in range(9)]}, root, schema)
    index = hub.read_index("me/d:v1", columns=[], root=root)
    assert index.shape == (9, 1)
    assert len(hub.row_loader(index, root=root).get_batch([8])) == 1
    late = hub.read_index("me/d:v1", filters=[("d", ">", pd.Timedelta(5, "us"))], root=root)
    assert len(late) == 3
    with pytest.raises(hub.errors.ConfigError, match="filters"):
        hub.read_index("me/d:v1", filters=[("d", ">", 2**70)], root=root)


def test_a_table_that_claims_many_rows_costs_no_memory_before_it_is_read(root):
    loader = model.write("me/t:v1", {"a": plain(3)}, root, PLAIN).loader()
    assert loader.get_row(0)["t"] == 0
    loader._numbers = [(loader._numbers[0][0], EveryRow(2**40))]
    assert len(loader) == 2**40
    assert loader.get_row(2)["t"] == 2


def test_a_location_of_a_row_that_its_block_has_not_is_refused(root, forget, monkeypatch):
    pieces_of = append._pieces_of

    def forged(slab, schema):
        slab.locations["rest"]["row"][-1] = 100
        return pieces_of(slab, schema)

    with monkeypatch.context() as patch:
        patch.setattr(append, "_pieces_of", forged)
        table = model.write("me/t:v1", {"a": plain(50)}, root, PLAIN)
    forget()
    for use in (lambda: table.loader().get_row(49), lambda: table.loader().get_columns([3, 49])):
        with pytest.raises(hub.errors.CorruptDataError, match="its location is of row 100"):
            use()


def test_a_shape_that_no_value_fits_is_refused():
    with pytest.raises(hub.errors.ConfigError, match="at most 1,073,741,824"):
        hub.Field("f8", (None, 2**31 - 1, 2**31 - 1))


@pytest.mark.parametrize(
    "use",
    [
        lambda loader: loader.get_batch(np.array([2**64 - 1], "u8")),
        lambda loader: loader.get_batch(None),
        lambda loader: loader.get_batch(5),
        lambda loader: loader.get_batch([[1, 2], [3]]),
        lambda loader: loader.get_row(0, columns=5),
        lambda loader: loader.get_rows(0, offsets=np.array([2**64 - 1], "u8")),
        lambda loader: loader.get_rows(0, offsets=[2**63 - 1], pad="edge"),
        lambda loader: loader.get_rows(0, offsets=range(2**40)),
    ],
)
def test_positions_and_offsets_that_are_none_are_refused(root, use):
    loader = model.write("me/t:v1", {"a": plain(5)}, root, PLAIN).loader()
    with pytest.raises((hub.errors.ConfigError, IndexError)):
        use(loader)


def test_an_index_that_somebody_changed_is_refused(root):
    model.write("me/t:v1", {"a": plain(5)}, root, PLAIN)
    index = hub.read_index("me/t:v1", root=root)
    service = index.columns[-1]
    arrow = pa.Table.from_pandas(index)
    twice = pa.table([*arrow.columns, arrow[service]], names=[*arrow.column_names, service])
    for changed in (
        index.assign(**{service: -1}),
        index.assign(**{service: 0.5}),
        index.assign(**{service: "x"}),
        index.assign(**{service: [[1]] * 5}),
        pd.concat([index, index[[service]]], axis=1),
        index[service],
        twice,
        arrow.set_column(arrow.column_names.index(service), service, pa.nulls(5)),
        arrow.set_column(arrow.column_names.index(service), service, pa.array([[1]] * 5)),
    ):
        try:
            loader = hub.row_loader(changed, root=root)
            assert loader.get_row(0) == dict.fromkeys(PLAIN)
        except hub.errors.ConfigError:
            continue
    with pytest.raises(hub.errors.ConfigError, match="two columns 'partition'"):
        hub.write_index(pd.concat([index, index[["partition"]]], axis=1), "me/p:v1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="move="):
        hub.write_index(index, "me/p:v1", move="x", root=root)
    for on in (None, 5, service):
        with pytest.raises(hub.errors.ConfigError, match="on="):
            hub.join(index, index, on=on)
    for given in ((None, "_b"), 5):
        with pytest.raises(hub.errors.ConfigError, match="suffixes="):
            hub.join(index, index, on="t", suffixes=given)
    with pytest.raises(hub.errors.ConfigError, match="on="):
        hub.join(index, index.astype({"t": "str"}), on="t", suffixes=("_a", "_b"))
    with pytest.raises(hub.errors.ConfigError, match="first index"):
        hub.join(None, index, on="t")


def test_names_of_the_indexs_own_columns_are_no_fields():
    with pytest.raises(hub.errors.ConfigError, match="the index's own"):
        hub.Schema({"hubarray:x": hub.Field("i8", index=True)})


def test_published_tables_below_each_other_keep_their_columns(root):
    for name, first in (("me/a:v1", 0), ("me/b:v1", 100)):
        model.write(name, {name: [dict(row, t=row["t"] + first) for row in plain(4)]}, root, PLAIN)
    both = pd.concat([hub.read_index(name, root=root) for name in ("me/a:v1", "me/b:v1")])
    for move in (False, True):
        name = f"me/both:{'moved' if move else 'shared'}"
        table = hub.write_index(both, name, move=move, root=root)
        assert list(table.schema) == list(PLAIN)
        assert [int(row["t"]) for row in table] == [0, 1, 2, 3, 100, 101, 102, 103]
        assert all(row["v"] == row["t"] % 100 for row in table)
    other = hub.Schema({"t": hub.Field("i8", index=True), "v": hub.Field("f4", codec="zstd"), "u": hub.Field("f4")})
    model.write("me/c:v1", {"c": plain(2)}, root, other)
    mixed = pd.concat([both, hub.read_index("me/c:v1", root=root)])
    with pytest.raises(hub.errors.ConfigError, match="store it in two ways"):
        hub.write_index(mixed, "me/mixed:v1", root=root)


def test_columns_of_a_merged_index_are_there_whatever_they_are_asked_with(root):
    fields = {"i": hub.Field("i8", index=True, group="rest"), "x": hub.Field("f4")}
    model.write("me/a:v1", {"p": [{"i": i, "x": i} for i in range(4)]}, root, hub.Schema(fields))
    more = {
        "i": fields["i"],
        "score": hub.Field("f8", index=True),
        "y": hub.Field("f4"),
        "boxes": hub.Field("f4", (None,), group="rest"),
    }
    rows = [{"i": i, "score": i / 10, "y": -i, "boxes": np.full(i, i, "f4")} for i in range(4)]
    model.write("me/b:v1", {"p": rows}, root, hub.Schema(more))
    a, b = (hub.read_index(name, root=root) for name in ("me/a:v1", "me/b:v1"))
    for merged in (hub.join(a, b, on="i"), a.merge(b.drop(columns="partition"), on="i"), hub.join_asof(a, b, on="i")):
        loader = hub.row_loader(merged, root=root)
        row = loader.get_row(2)
        assert (row["i"], row["x"], row["score"], row["y"], row["boxes"].tolist()) == (2, 2, 0.2, -2, [2, 2])
        assert loader.get_columns(range(4))["score"].tolist() == [0, 0.1, 0.2, 0.3]
        assert [row["y"] for row in loader.iter_rows()] == [0, -1, -2, -3]


def test_lists_without_elements_are_empty_boxes(root):
    schema = hub.Schema({"b": hub.Field("f4", (None, 4))})
    rows = [{"b": []}, {"b": np.zeros((0, 4), "f4")}, {"b": [[1, 2, 3, 4]]}]
    sources = [rows, pd.DataFrame({"b": [row["b"] for row in rows]})]
    for kind in (pa.list_(pa.list_(pa.float32())), pa.list_(pa.list_(pa.float32(), 4))):
        sources.append(pa.table({"b": pa.array([[], [], [[1, 2, 3, 4]]], kind)}))
    for i, source in enumerate(sources):
        with hub.table_writer(f"me/b:v{i}", schema, root=root) as w, w.partition("p") as p:
            p.extend(source)
        assert [box.shape for box in hub.load(f"me/b:v{i}", root=root)] == [(0, 4), (0, 4), (1, 4)]


def test_a_few_rows_of_a_nullable_field_cost_few_values(root, monkeypatch):
    schema = hub.Schema({"x": hub.Field("f4", nullable=True)})
    rows = [{"x": None if i % 5 == 0 else np.float32(i)} for i in range(9000)]
    loader = model.write("me/n:v1", {"p": rows}, root, schema).loader()
    at = np.random.default_rng(0).permutation(9000)
    for some in (at, at[:50]):
        result = loader.get_columns(some)["x"]
        assert all(model.same(value, rows[i]["x"]) for value, i in zip(result, some, strict=True))


def test_what_cannot_be_written_says_its_row_and_what_to_give(root):
    given = hub.Schema({"t": hub.Field("i4", nullable=True)})
    with hub.table_writer("me/w:v1", given, root=root) as w, w.partition("p") as p:
        with pytest.raises(hub.errors.ConfigError, match=r"partition 'p', row 3: column 't': has .*1099511627776"):
            p.extend(pd.DataFrame({"t": [1, 2, 3, 2**40]}))
        with pytest.raises(hub.errors.ConfigError, match="give a frame, or a mapping per row"):
            p.extend(None)
        with pytest.raises(hub.errors.ConfigError, match="masked"):
            p.append({"t": np.ma.array(1, mask=True)})
        p.extend(pa.table({"t": pa.nulls(2)}))
    assert list(hub.load("me/w:v1", root=root)) == [None, None]
    with pytest.raises(hub.errors.ConfigError, match="a mapping of names to fields"):
        hub.Schema([("a", hub.Field("i4"))])
    hub.array((3,), "me/array:v1", dtype="u1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="is an array"):
        hub.read_index("me/array:v1", root=root)


def test_a_growing_table_says_which_partitions_it_has(root):
    model.write("me/g:v1", {1: plain(2)}, root, PLAIN, growing=True)
    writer = hub.table_writer("me/g:v1", root=root)
    assert (1 in writer, 2 in writer) == (True, False)
    with writer.partition(1) as p:
        p.extend(plain(2))
    with pytest.raises(hub.errors.ConflictError, match="there already, with other rows"), writer.partition(1) as p:
        p.extend(plain(3))
    writer.abort()
