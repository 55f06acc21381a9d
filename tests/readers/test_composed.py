"""Everything together, row for row against a plain model: source, predicate, filters, shuffle, parts, transform, cache,
windows, batches, shards and epochs, as drawn.
"""

import itertools
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from tests.rounds import rounds

FIELDS = [
    hub.petastorm.UnischemaField("id", np.int64), hub.petastorm.UnischemaField("v", np.float64),
    hub.petastorm.UnischemaField("x", np.float32, (2,), hub.petastorm.NdarrayCodec()), hub.petastorm.UnischemaField("part", np.str_),
    hub.petastorm.UnischemaField("r", np.int16, (None,), hub.petastorm.NdarrayCodec()),
]  # fmt: skip
TABLE = hub.Schema(
    {
        "id": hub.Field("int64", index=True), "v": hub.Field("float64"), "x": hub.Field("float32", (2,)),
        "part": hub.Field(str, index=True), "r": hub.Field("int16", (None,)),
    }
)  # fmt: skip


def row_of(i, part):
    return {"id": np.int64(i), "v": i / 2, "x": np.full(2, i, "f4"), "part": part, "r": np.arange(i % 4, dtype="i2")}


def written(kind, folder, rows, group):
    """A source of the rows, its root, and the stretches that windows stay in, by row groups and across them."""
    parts = sorted({row["part"] for row in rows})
    by_part = [[i for i, row in enumerate(rows) if row["part"] == part] for part in parts]
    groups = [some[i : i + group] for some in by_part for i in range(0, len(some), group)]
    if kind == "petastorm":
        with hub.parquet_writer(folder, hub.petastorm.Unischema("Rows", FIELDS), partition_by=["part"],
                                rows_per_row_group=group) as writer:  # fmt: skip
            writer.write_rows(rows)
        return str(folder), None, groups, by_part
    if kind == "parquet":
        for part, some in zip(parts, by_part, strict=True):
            (folder / f"part={part}").mkdir(parents=True)
            columns = {name: [rows[i][name] for i in some] for name in ("id", "v")}
            lists = {"x": pa.array([rows[i]["x"].tolist() for i in some], pa.list_(pa.float32())),
                     "r": pa.array([rows[i]["r"].tolist() for i in some], pa.list_(pa.int16()))}  # fmt: skip
            pq.write_table(pa.table(columns | lists), folder / f"part={part}" / "a.parquet", row_group_size=group)
        return str(folder), None, groups, by_part
    if kind == "table":
        with hub.table_writer("t/rows:v0", TABLE, root=folder) as writer:
            for part, some in zip(parts, by_part, strict=True):
                with writer.partition(part) as partition:
                    partition.extend(rows[i] for i in some)
        return "t/rows:v0", folder, by_part, by_part
    for name in ("id", "v", "x"):
        values = np.stack([np.asarray(row[name]) for row in rows])
        array = hub.array(values.shape, f"t/{name}:v0", values.dtype, chunks=(group, *values.shape[1:]), root=folder)
        array[...] = values
    whole = [list(range(len(rows)))]
    return {name: f"t/{name}:v0" for name in ("id", "v", "x")}, folder, whole, whole


def windows_of(stretches, rows, keep, length, delta, overlap):
    result = []
    for some in stretches:
        passing, last = [i for i in some if keep(rows[i])], None
        for k in range(len(passing) - length + 1):
            ids = [int(rows[i]["id"]) for i in passing[k : k + length]]
            if any(b - a > delta for a, b in itertools.pairwise(ids)):
                continue
            if overlap or last is None or ids[0] > last:
                result.append(tuple(ids))
                last = ids[-1]
    return result


def predicate_of(which, rows, has_parts):
    middle = int(rows[len(rows) // 2]["id"])
    if which == "rows":
        return lambda row: row["id"] % 3 != 0, {"predicate": hub.petastorm.in_lambda(["id"], lambda i: i % 3 != 0)}
    if which == "set":
        some = {int(row["id"]) for row in rows[::2]}
        return lambda row: int(row["id"]) in some, {"predicate": hub.petastorm.in_set(some, "id")}
    if which == "part" and has_parts:
        return lambda row: row["part"] == "p0", {"predicate": hub.petastorm.in_set(["p0"], "part")}
    if which == "filters":
        return lambda row: row["id"] >= middle, {"filters": [("id", ">=", middle)]}
    if which == "both":
        odd = hub.petastorm.in_negate(hub.petastorm.in_lambda(["id"], lambda i: i % 2 == 1))
        return lambda row: row["id"] >= middle and row["id"] % 2 == 0, {
            "filters": [("id", ">=", middle)],
            "predicate": odd,
        }
    return lambda row: True, {}


@settings(max_examples=rounds(40, 600), deadline=None)
@given(st.data())
def test_whatever_is_put_together_gives_the_rows_that_a_loop_over_lists_gives(data):
    kind = data.draw(st.sampled_from(["petastorm", "parquet", "table", "arrays"]))
    steps = data.draw(st.lists(st.integers(1, 3), min_size=3, max_size=50))
    parts = sorted(data.draw(st.lists(st.sampled_from(["p0", "p1", "p2"]), min_size=len(steps), max_size=len(steps))))
    rows = [row_of(int(i), part) for i, part in zip(np.cumsum(steps), parts, strict=True)]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        group = data.draw(st.integers(1, 12))
        source, root, stretches, across = written(kind, Path(folder, "data"), rows, group)
        # Hints are written behind a commit: none into a folder that is being removed.
        hub.flush()
        for _ in range(3):
            once(data, kind, rows, Path(folder), (source, root, stretches, across))


def once(data, kind, rows, folder, made):
    source, root, stretches, across = made
    keep, options = predicate_of(data.draw(st.sampled_from(["none", "rows", "set", "part", "filters", "both"])), rows,
                                 kind != "arrays")  # fmt: skip
    batched, added = data.draw(st.booleans()), data.draw(st.sampled_from([0.0, 1000.0]))
    names = ["id", "v", "x"] + (["r", "part"] if kind != "arrays" else [])
    fields, window = names, None
    if not batched and data.draw(st.booleans()):
        window = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()))
        crosses = data.draw(st.booleans())
        fields = hub.NGram({i: ["id", "x", "v"] if i == 0 else ["id", "v"] for i in range(window[0])}, window[1], "id",
                           timestamp_overlap=window[2], across_row_groups=crosses)  # fmt: skip
        expected = windows_of(across if crosses else stretches, rows, keep, *window)
    else:
        expected = [(int(row["id"]),) for row in rows if keep(row)]
    if added:
        function = (
            (lambda frame: frame.assign(v=frame.v + added)) if batched else (lambda row: row | {"v": row["v"] + added})
        )
        options["transform_spec"] = hub.TransformSpec(function)
    if data.draw(st.booleans()):
        of_parquet = kind in ("petastorm", "parquet")
        options |= {"cache_type": "local-disk"} | ({"cache_location": folder / "cache"} if of_parquet else {})
    world = data.draw(st.sampled_from([1, 1, 2, 3]))
    options |= {
        "seed": data.draw(st.integers(0, 3)), "shuffle_rows": data.draw(st.booleans()),
        "shuffle_row_groups": data.draw(st.booleans()), "shuffle_row_drop_partitions": data.draw(st.sampled_from([1, 1, 3])),
        "num_epochs": data.draw(st.integers(1, 2)), "workers_count": data.draw(st.sampled_from([1, 3])),
        "reader_pool_type": data.draw(st.sampled_from(["thread", "dummy"])),
    }  # fmt: skip
    make, result = hub.make_batch_reader if batched else hub.make_reader, []
    for rank in range(world):
        try:
            reader = make(source, fields, root=root, cur_shard=rank, shard_count=world, **options)
        except hub.errors.NoDataAvailableError:
            assert sum(map(keep, rows)) < world or len(rows) < world
            return
        with reader:
            for item in reader:
                result += checked(item, batched, window, names, added)
    assert Counter(result) == Counter(expected * options["num_epochs"])


def checked(item, batched, window, names, added):
    """The ids of an item, whose other values have to be those of its rows."""
    if window is not None:
        assert (item[0].x == item[0].id).all()
        assert all(one.v == one.id / 2 + added for one in item.values())
        return [tuple(int(item[i].id) for i in range(window[0]))]
    rows = zip(*(getattr(item, name) for name in names), strict=True) if batched else [tuple(item)]
    ids = []
    for row in rows:
        values = dict(zip(names if batched else item._fields, row, strict=True))
        i = int(values["id"])
        assert values["v"] == i / 2 + added
        assert (np.asarray(values["x"]) == i).all()
        if "r" in values:
            assert np.array_equal(values["r"], np.arange(i % 4))
        ids.append((i,))
    return ids
