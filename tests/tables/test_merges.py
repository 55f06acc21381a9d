"""Merges of merges, of every kind, and of what is near: the rows of naive loops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from tests.rounds import rounds
from tests.tables.rows import write

HOW = ["inner", "left", "right", "outer"]
# Of each table the keys and times of its rows; keys come again, are null, and are in some tables only.
ROWS = {
    "a": [(0, 5), (1, 1), (1, 9), (None, 3), (2, 3), (4, 7), (None, 2)],
    "b": [(1, 2), (1, 3), (None, 4), (2, 8), (3, 3), (0, 6)],
    "c": [(2, 9), (2, 1), (None, 5), (5, 4), (1, 6), (0, 0)],
}


@pytest.fixture(scope="module")
def tables(make_root):
    root = make_root("local")
    for name, rows in ROWS.items():
        schema = hub.Schema(
            {
                "key": hub.Field("i8", index=True, nullable=True),
                f"{name}.time": hub.Field("i8", index=True),
                f"{name}.id": hub.Field("i8"),
                f"{name}.value": hub.Field("f4", (None,)),
            }
        )
        with hub.table_writer(f"lab/{name}:v1", schema, root=root) as writer:
            for part in range(2):
                with writer.partition(part) as partition:
                    for i, (key, time) in list(enumerate(rows))[part::2]:
                        value = np.full(i % 3, i, "f4")
                        partition.append({"key": key, f"{name}.time": time, f"{name}.id": i, f"{name}.value": value})
    return root


def some_of(data, name, root, *, least=0):
    """An index with some rows of a table, in any order and again, and which these are."""
    index = hub.read_index(f"lab/{name}:v1", root=root).drop(columns="partition")
    stored = [i for part in range(2) for i in range(len(ROWS[name]))[part::2]]
    at = data.draw(st.lists(st.integers(0, len(stored) - 1), min_size=least, max_size=7), label=name)
    return index.iloc[at], [stored[i] for i in at]


def key_of(row):
    return next(ROWS[name][i][0] for name, i in row.items())


def naive_merge(left, right, how):
    """All pairs of rows of equal keys; rows are mappings of a table's name to the number of its row."""
    pairs = [(x, y) for x in left for y in right if key_of(x) == key_of(y)]
    result = [{**x, **y} for x, y in pairs]
    if how in ("left", "outer"):
        result += [x for x in left if not any(x is item for item, _ in pairs)]
    if how in ("right", "outer"):
        result += [y for y in right if not any(y is item for _, item in pairs)]
    return result


def identity(row):
    return tuple(row.get(name, -1) for name in "abc")


def loaded(index, names, root):
    """Which rows of the tables a loader gives, each checked to be one row of its table, whole."""
    loader = hub.row_loader(index, root=root)
    result = []
    for row in loader.get_batch(range(len(loader))):
        numbers = {}
        for name in names:
            number = row[f"{name}.id"]
            if number is None:
                assert row[f"{name}.value"] is None
                assert row[f"{name}.time"] is None
                continue
            numbers[name] = i = int(number)
            assert row[f"{name}.value"].tolist() == [i] * (i % 3)
            assert row[f"{name}.time"] == ROWS[name][i][1]
        assert row["key"] == key_of(numbers)
        result.append(numbers)
    return result


@given(st.data())
@settings(max_examples=rounds(60, 600))
def test_a_merge_of_merges_has_the_pairs_of_naive_loops(tables, data):
    made, rows = zip(*(some_of(data, name, tables) for name in "abc"), strict=True)
    a, b, c = ([{name: i} for i in some] for name, some in zip("abc", rows, strict=True))
    first, second = data.draw(st.sampled_from(HOW)), data.draw(st.sampled_from(HOW))
    if data.draw(st.booleans(), label="left to right"):
        index = hub.join(hub.join(made[0], made[1], on="key", how=first), made[2], on="key", how=second)
        expected = naive_merge(naive_merge(a, b, first), c, second)
    else:
        index = hub.join(made[0], hub.join(made[1], made[2], on="key", how=first), on="key", how=second)
        expected = naive_merge(a, naive_merge(b, c, first), second)
    assert sorted(map(identity, loaded(index, "abc", tables))) == sorted(map(identity, expected))


def naive_asof(left, right, direction, tolerance):
    """Of each row the nearest of the other table, of the same key; of equally near ones as pandas."""
    result = []
    for i in left:
        key, time = ROWS["a"][i]
        near = []
        for at, j in enumerate(right):
            other, when = ROWS["b"][j]
            away = time - when
            fits = {"backward": away >= 0, "forward": away <= 0, "nearest": True}[direction]
            if other == key and fits and (tolerance is None or abs(away) <= tolerance):
                # The last of those before, the first of those after; of one on either side the earlier.
                near.append((abs(away), away < 0, -at if away >= 0 else at, j))
        result.append({"a": i, **({"b": min(near)[-1]} if near else {})})
    return result


@given(st.data())
@settings(max_examples=rounds(60, 600))
def test_an_asof_merge_has_the_nearest_row_of_a_naive_loop(tables, data):
    left, some = some_of(data, "a", tables)
    right, others = some_of(data, "b", tables)
    kept = [[ROWS[name][i][0] is not None for i in rows] for name, rows in (("a", some), ("b", others))]
    left, right = (item[np.array(keep, bool)] for item, keep in zip((left, right), kept, strict=True))
    some, others = ([i for i, keep in zip(rows, which, strict=True) if keep]
                    for rows, which in zip((some, others), kept, strict=True))  # fmt: skip
    direction = data.draw(st.sampled_from(["backward", "forward", "nearest"]))
    tolerance = data.draw(st.sampled_from([None, 0, 1, 3]))
    a = left.assign(time=left["a.time"])
    b = right.assign(time=right["b.time"])
    index = hub.join_asof(a, b, on="time", by="key", direction=direction, tolerance=tolerance)
    assert loaded(index, "ab", tables) == naive_asof(some, others, direction, tolerance)


def test_large_whole_numbers_stay_apart_through_merges_that_lack_rows(root):
    def table(name, fields, rows):
        schema = hub.Schema({field: hub.Field(kind, index=True) for field, kind in fields.items()})
        with hub.table_writer(f"lab/{name}:v1", schema, root=root) as writer, writer.partition("p") as part:
            part.extend(rows)
        return hub.read_index(f"lab/{name}:v1", root=root)

    big = 2**62
    frames = table("frames", {"frame": "i8"}, [{"frame": i} for i in range(3)])
    objects = table("objects", {"frame": "i8", "track": "i8", "seen": "?"},
                    [{"frame": i, "track": big + 1 + i, "seen": bool(i)} for i in range(2)])  # fmt: skip
    tracks = table("tracks", {"track": "i8", "name": str}, [{"track": big + 1 + i, "name": "ab"[i]} for i in range(2)])
    for how in ("left", "outer"):
        both = hub.join(frames, objects, on="frame", how=how)
        assert [str(both[name].dtype) for name in ("track", "seen")] == ["Int64", "boolean"]
        result = hub.row_loader(hub.join(both, tracks, on="track"), root=root).get_batch(range(2))
        assert [(row["frame"], row["name"], row["track"]) for row in result] == [(0, "a", big + 1), (1, "b", big + 2)]
    near = hub.join_asof(frames, objects, on="frame", tolerance=0)
    assert len(near[near["track"] == big + 2]) == 1
    mixed = frames.assign(frame=frames["frame"].astype("float64"))
    with pytest.raises(hub.errors.ConfigError, match="as floats whole numbers"):
        hub.join(mixed, objects, on="frame")


def pair(root):
    schema = hub.Schema({"f": hub.Field("i8", index=True), "t": hub.Field("f8", index=True), "v": hub.Field("i4")})
    for name, rows, begin in (("a", range(5), 0), ("b", range(3, 8), 200)):
        write(f"lab/{name}:v1", {"p": [{"f": i, "t": float(begin + i), "v": begin + i} for i in rows]}, root, schema)
    return (hub.read_index(f"lab/{name}:v1", root=root) for name in "ab")


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_a_suffix_for_one_side_alone_keeps_the_two_apart(root, how):
    first, second = pair(root)
    merged = hub.join(first, second, on="f", how=how, suffixes=("", "_b"))
    loader = hub.row_loader(merged, root)
    assert loader.columns == ["f", "t", "v", "t_b", "v_b"]
    for name in ("t", "t_b"):
        result = [row[name] for row in loader.iter_rows()]
        assert result == [None if pd.isna(value) else value for value in merged[name]]
    assert merged["partition"].tolist() == ["p"] * len(merged)
    published = hub.write_index(merged, "lab/both:v1", root=root)
    assert published.index()["t_b"].isna().tolist() == merged["t_b"].isna().tolist()


def test_what_pandas_merged_with_a_suffix_for_one_side_alone_is_never_mixed(root):
    first, second = pair(root)
    for frame in (first, first.drop(columns="partition")):
        merged = pd.merge(frame, second, on="f", how="outer", suffixes=("", "_b"))
        loader = hub.row_loader(merged, root)
        assert [row["f"] for row in loader.iter_rows("f")] == merged["f"].tolist()
        with pytest.raises(hub.errors.ConfigError, match=r"hub.join\(..., suffixes="):
            loader.get_row(0, "t")


@pytest.mark.parametrize("dropped", [(), ("b",), ("a", "b")])
def test_a_key_whose_name_begins_with_another_keys_is_no_twin_of_it(root, dropped):
    key = hub.Field("i8", index=True)
    for name in "ab":
        schema = hub.Schema({"log": key, "log_time": key, f"v{name}": hub.Field("f4")})
        write(f"k/{name}:v1", {"p": [{"log": 1, "log_time": 2, f"v{name}": 3.0}]}, root, schema)
    frames = {name: hub.read_index(f"k/{name}:v1", root=root) for name in "ab"}
    frames = {name: item.drop(columns="partition") if name in dropped else item for name, item in frames.items()}
    on = [*([] if dropped else ["partition"]), "log", "log_time"]
    row = hub.row_loader(pd.merge(frames["a"], frames["b"], on=on), root).get_row(0)
    assert {name: float(value) for name, value in row.items()} == {"log": 1, "log_time": 2, "va": 3, "vb": 3}


@pytest.mark.parametrize("units", [("ns", "us"), ("us", "ns"), ("ms", "ms")])
def test_clocks_of_different_units_merge_by_the_nearest(root, units):
    for name, unit in zip("ab", units, strict=True):
        schema = hub.Schema({"t": hub.Field(f"M8[{unit}]", index=True), f"v{name}": hub.Field("i8")})
        with hub.table_writer(f"c/{name}:v1", schema, root=root) as w, w.partition("p") as p:
            p.extend({"t": np.arange(4).astype("M8[s]").astype(f"M8[{unit}]"), f"v{name}": np.arange(4)})
    first, second = (hub.read_index(f"c/{name}:v1", root=root) for name in "ab")
    loader = hub.row_loader(hub.join_asof(first, second.iloc[::2], on="t", suffixes=("", "_b")), root)
    assert [(row["va"], row["vb"]) for row in loader.get_batch(range(4))] == [(0, 0), (1, 0), (2, 2), (3, 2)]
