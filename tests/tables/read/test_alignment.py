"""Windows over merged tables: the pairs of rows are those that the merge made, or an error."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.format.locations import SLAB_ROWS
from tests.rounds import rounds
from tests.tables.rows import write


def table(name, root, frames, **others):
    """Rows whose field ``v<name>`` is their number, with index fields."""
    schema = {"frame": hub.Field("i8", index=True), f"v{name}": hub.Field("i8")}
    schema |= {field: hub.Field("i8", index=True) for field in others}
    rows = [
        {"frame": frame, f"v{name}": i, **{field: values[i] for field, values in others.items()}}
        for i, frame in enumerate(frames)
    ]
    write(f"lab/{name}:v1", {"p": rows}, root, hub.Schema(schema))
    return hub.read_index(f"lab/{name}:v1", root=root)


def pairs(loader, at, offsets, names):
    return [tuple(int(row[name]) for name in names) for row in loader.get_rows(at, names, offsets=offsets)]


def position(index, frame):
    return int(np.flatnonzero((index["frame"] == frame).to_numpy())[0])


@pytest.mark.parametrize(
    "changed", [lambda f: 2 * f, lambda f: f + 1, lambda f: (f * 7) % 10, lambda f: f.astype("f8") * 2]
)
def test_keys_that_were_changed_before_a_merge_say_nothing_of_neighbours(root, changed):
    first, second = table("a", root, range(10)), table("b", root, range(10))
    second["frame"] = changed(second["frame"]).astype("i8")
    merged = hub.join(first, second, on="frame")
    loader = hub.row_loader(merged, root)
    own = {int(frame): i for i, frame in enumerate(second["frame"])}
    assert [row["vb"] for row in loader.get_batch(range(len(merged)))] == [own[f] for f in merged["frame"]]
    with pytest.raises(hub.errors.ConfigError, match="on index fields as they are stored"):
        loader.get_rows(0, ["va", "vb"], offsets=[0, 1])
    first = int(merged["frame"].iloc[0])
    assert pairs(loader, 0, [0, 1], ["va"]) == [(first,), (first + 1,)]


@pytest.mark.parametrize("kept", ["as it is", "of another type", "a category", "of Arrow", "filtered"])
def test_keys_that_are_what_is_stored_are_known_whatever_their_type(root, kept):
    first, second = table("a", root, range(10)), table("b", root, range(10))
    if kept == "of another type":
        first, second = first.astype({"frame": "f8"}), second.astype({"frame": "f8"})
    elif kept == "a category":
        first, second = first.astype({"frame": "category"}), second.astype({"frame": "category"})
    elif kept == "of Arrow":
        first, second = first.astype({"frame": "int64[pyarrow]"}), second.astype({"frame": "int64[pyarrow]"})
    elif kept == "filtered":
        second = second.iloc[::-3]
    merged = hub.join(first, second, on=["partition", "frame"])
    assert pairs(hub.row_loader(merged, root), position(merged, 6), [-1, 0, 1], ["va", "vb"]) == [
        (5, 5),
        (6, 6),
        (7, 7),
    ]


def test_nulls_and_nan_among_keys_are_what_is_stored(root):
    for name in "ab":
        schema = hub.Schema({"t": hub.Field("f8", index=True, nullable=True), f"v{name}": hub.Field("i8")})
        rows = [{"t": t, f"v{name}": i} for i, t in enumerate([0.0, None, 2.0, float("nan"), 4.0])]
        write(f"lab/{name}:v1", {"p": rows}, root, schema)
    first, second = (hub.read_index(f"lab/{name}:v1", root=root) for name in "ab")
    merged = hub.join(first, second, on="t")
    loader = hub.row_loader(merged, root)
    last = int(np.flatnonzero((merged["t"] == 4).to_numpy(dtype=bool, na_value=False))[0])
    with pytest.raises(hub.errors.ConfigError, match="are equal in t"):
        loader.get_rows(last, ["va", "vb"], offsets=[-3, 0])
    assert pairs(loader, last, [-2, 0], ["va", "vb"]) == [(2, 2), (4, 4)]


def test_tables_that_no_merge_brought_together_are_not_paired_by_a_key_of_their_own_merges(root):
    order = [0, 1, 2, 3, 7, 5, 8, 4, 6, 9]
    first, second = table("a", root, range(10), x=range(10)), table("b", root, range(10))
    three, four = table("c", root, range(10), y=order), table("d", root, range(10))
    ab, cd = hub.join(first, second, on="frame"), hub.join(three, four, on="frame")
    by_pandas = pd.merge(ab, cd, left_on="x", right_on="y", suffixes=("", "_r"))
    renamed = hub.join(ab, cd.rename(columns={"y": "x"}), on="x", suffixes=("", "_r"))
    side_by_side = pd.concat([ab, cd.drop(columns=["frame", "partition"])], axis=1)
    for joined in (by_pandas, renamed, side_by_side):
        loader, at = hub.row_loader(joined, root), position(joined, 5)
        with pytest.raises(hub.errors.ConfigError, match="not known whether"):
            loader.get_rows(at, ["va", "vc"], offsets=[-1, 0, 1])
        assert pairs(loader, at, [-1, 0, 1], ["va", "vb"]) == [(4, 4), (5, 5), (6, 6)]
    published = hub.write_index(renamed, "lab/all:v1", root=root)
    assert pairs(published.loader(), 5, [-1, 0, 1], ["va", "vc"]) == [(4, 7), (5, 5), (6, 8)]


def test_what_was_merged_in_parts_and_joined_is_one_merge(root):
    first, second = table("a", root, range(10)), table("b", root, range(10))
    parts = [
        hub.join(first[first["frame"] < 5], second, on="frame"),
        hub.join(first[first["frame"] >= 5], second, on="frame"),
    ]
    joined = pd.concat(parts, ignore_index=True)
    assert pairs(hub.row_loader(joined, root), 5, [-1, 0, 1], ["va", "vb"]) == [(4, 4), (5, 5), (6, 6)]


def test_two_copies_of_a_merge_are_not_paired_across(root):
    first, second = table("a", root, range(10), x=[0, 2, 1, 3, 4, 5, 6, 7, 8, 9]), table("b", root, range(10))
    merged = hub.join(first, second, on="frame")
    twice = pd.merge(merged, merged.assign(x=range(10)), on="x")
    loader = hub.row_loader(twice, root)
    with pytest.raises(hub.errors.ConfigError, match="not known whether"):
        loader.get_rows(0, ["va_x", "vb_y"], offsets=[0, 1])
    assert pairs(loader, 0, [0, 1], ["va_y", "vb_y"]) == [(0, 0), (1, 1)]


def test_a_key_that_comes_again_in_another_slab_of_the_partition_is_seen(root):
    frames = np.concatenate([np.arange(8), np.arange(1000, 1000 + SLAB_ROWS - 8), [5, 2_000_000]])
    schema = hub.Schema({"frame": hub.Field("i8", index=True), "vb": hub.Field("i8")})
    with hub.table_writer("lab/b:v1", schema, root=root) as w, w.partition("p") as p:
        p.extend({"frame": frames, "vb": np.arange(len(frames))})
    second = hub.read_index("lab/b:v1", root=root).drop_duplicates("frame", keep="last")
    loader = hub.row_loader(hub.join(table("a", root, range(8)), second, on="frame"), root)
    assert [row["vb"] for row in loader.get_batch([4, 5])] == [4, SLAB_ROWS]
    with pytest.raises(hub.errors.ConfigError, match="are equal in frame"):
        loader.get_rows(4, ["va", "vb"], offsets=[-1, 0, 1])


def test_tables_that_only_a_third_has_in_common_are_not_neighbours(root):
    first = table("a", root, range(10), y=range(10))
    second = table("b", root, [0, 1, 2, 3, 4, 105, 6, 7, 8, 9], y=range(10))
    three = table("c", root, range(10), y=range(10))
    nearest = hub.join_asof(first, second.drop(columns="y"), on="frame", tolerance=0, suffixes=("", "_b"))
    by_hand = pd.merge(first, second.drop(columns=["y", "partition"]), on="frame")
    for both in (nearest, by_hand):
        whole = hub.join(both, three.drop(columns=["frame", "partition"]), on="y", suffixes=("", "_c"))
        loader, at = hub.row_loader(whole, root), position(whole, 4)
        for names in (["va", "vb"], ["va", "vb", "vc"]):
            with pytest.raises(hub.errors.ConfigError, match="not known whether"):
                loader.get_rows(at, names, offsets=[0, 1, 2])
        assert pairs(loader, at, [0, 1, 2], ["va", "vc"]) == [(4, 4), (5, 5), (6, 6)]


def test_tables_that_were_merged_one_after_the_other_are_neighbours(root):
    frames = [table(name, root, range(10), y=range(10)) for name in "abcd"]
    keys = [["frame", "y"], ["frame", "y"], ["y", "frame"]]
    whole = frames[0]
    for other, key, name in zip(frames[1:], keys, "bcd", strict=True):
        whole = hub.join(whole, other, on=key, suffixes=("", f"_{name}"))
    pair = hub.join(hub.join(*frames[:2], on=["frame", "y"]), hub.join(*frames[2:], on=["frame", "y"]),
                     on=["frame", "y"])  # fmt: skip
    for merged in (whole, pair):
        result = pairs(hub.row_loader(merged, root), 5, [-1, 0, 1], ["va", "vb", "vc", "vd"])
        assert result == [(4,) * 4, (5,) * 4, (6,) * 4]


@pytest.mark.parametrize(
    ("dtype", "stored", "given"),
    [
        ("i8", [1, 2, 3], ["1", "02", "3"]),
        ("f4", np.array([0.5, 0.1, 2], "f4"), np.array([0.5, 0.1, 2], "f8")),
        ("f8", [0.5, 0.1, 0.1 + 1e-12], np.array([0.5, 0.1, 0.1 + 1e-12], "f4")),
        ("?", [True, False, True], [1, 0, 2]),
        ("M8[ms]", np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[ms]"),
         ["2020-01-01 00:00:00", "2020-01-02", "2020-01-03"]),
    ],
)  # fmt: skip
def test_keys_of_another_type_are_what_is_stored_only_if_they_tell_as_much_apart(root, dtype, stored, given):
    for name in "ab":
        schema = hub.Schema({"k": hub.Field(dtype, index=True), f"v{name}": hub.Field("i8")})
        with hub.table_writer(f"lab/{name}:v1", schema, root=root) as w, w.partition("p") as p:
            p.extend({"k": np.asarray(stored, dtype), f"v{name}": np.arange(3)})
    first, second = (hub.read_index(f"lab/{name}:v1", root=root) for name in "ab")
    first, second = first.assign(k=given), second.assign(k=given)
    merged = hub.join(first, second, on="k")
    with pytest.raises(hub.errors.ConfigError, match="not known whether"):
        hub.row_loader(merged, root).get_rows(0, ["va", "vb"], offsets=[0, 1])


@pytest.mark.parametrize("values", [[1, "a", 2.5], [(1, "a"), (2,), ("b",)], [1 << 63, (1 << 63) + 1, (1 << 63) + 2],
                                    [1 + 2j, 3j, 4], [frozenset("a"), frozenset("b"), frozenset("c")]])  # fmt: skip
@pytest.mark.parametrize("column", ["frame", "own"])
def test_whatever_pandas_can_merge_on_is_merged_on(root, values, column):
    first, second = table("a", root, range(3)), table("b", root, range(3))
    values = pd.Series(values, dtype=None if isinstance(values[0], complex) else object)
    first, second = first.assign(**{column: values}), second.assign(**{column: values})
    merged = hub.join(first, second, on=column, suffixes=("_a", "_b"))
    assert [(row["va"], row["vb"]) for row in hub.row_loader(merged, root).get_batch(range(3))] == [
        (i, i) for i in range(3)
    ]


def test_a_window_that_is_wholly_past_an_edge_of_one_table_is_refused_or_null_in_all(root):
    first, second = table("a", root, [0, 1, 2]), table("b", root, [2, 0, 1])
    merged = hub.join(first, second, on="frame")
    loader, at = hub.row_loader(merged, root), position(merged, 2)
    with pytest.raises(hub.errors.ConfigError, match="differ in 'frame'"):
        loader.get_rows(at, ["va", "vb"], offsets=[-2, -1], pad="null")
    last = hub.row_loader(hub.join(first, table("c", root, [0, 1, 2]), on="frame"), root)
    assert [row["va"] for row in last.get_rows(2, ["va", "vc"], offsets=[1, 2], pad="null")] == [None, None]


@pytest.mark.parametrize("merge", ["computed keys", "asof"])
def test_rows_that_a_merge_left_alone_are_not_taken_for_rows_that_were_never_merged(root, merge):
    first, second = table("a", root, range(6)), table("b", root, [0, 2, 4])
    if merge == "computed keys":
        whole = hub.join(
            first.assign(frame=first["frame"] + 100), second.assign(frame=second["frame"] + 100), on="frame", how="left"
        )
    else:
        whole = hub.join_asof(first, second, on="frame", tolerance=0)
    alone = whole[whole["frame"] % 2 == 1]
    loader = hub.row_loader(alone, root)
    assert loader.get_row(0, ["va", "vb"])["vb"] is None
    with pytest.raises(hub.errors.ConfigError, match=r"has no row there|not known whether"):
        loader.get_rows(0, ["va", "vb"], offsets=[-1, 0, 1])
    assert pairs(loader, 0, [-1, 0, 1], ["va"]) == [(0,), (1,), (2,)]


def test_zeros_of_both_signs_are_one_key(root):
    for name, keys in (("a", [0.0, 1.0, 2.0]), ("b", [0.0, 1.0, 2.0, -0.0])):
        schema = hub.Schema({"k": hub.Field("f8", index=True), f"v{name}": hub.Field("i8")})
        write(f"lab/{name}:v1", {"p": [{"k": k, f"v{name}": i} for i, k in enumerate(keys)]}, root, schema)
    first, second = (hub.read_index(f"lab/{name}:v1", root=root) for name in "ab")
    loader = hub.row_loader(hub.join(first, second.iloc[:3], on="k"), root)
    with pytest.raises(hub.errors.ConfigError, match="are equal in k"):
        loader.get_rows(1, ["va", "vb"], offsets=[-1, 0])


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_partitions_that_differ_are_merged_on_like_any_key(root, how):
    frames = {}
    for name, keys in (("a", [1, 2]), ("b", [2, 3])):
        schema = hub.Schema({"k": hub.Field("i8", index=True), f"v{name}": hub.Field("i8")})
        write(f"lab/{name}:v1", {key: [{"k": i, f"v{name}": i} for i in range(2)] for key in keys}, root, schema)
        frames[name] = hub.read_index(f"lab/{name}:v1", root=root)
    merged = hub.join(frames["a"], frames["b"], on=["partition", "k"], how=how)
    expected = {"inner": [2], "left": [1, 2], "right": [2, 3], "outer": [1, 2, 3]}[how]
    assert sorted({int(item) for item in merged["partition"]}) == expected
    hub.row_loader(merged, root).get_batch(range(len(merged)))


@given(st.data())
@settings(max_examples=rounds(40, 400))
def test_a_window_has_the_pairs_that_the_merge_made_or_is_refused(few_tables, data):
    """A plain model: the rows that a merge of everything puts beside each other."""
    root, frames = few_tables
    change = {name: data.draw(st.sampled_from([None, 2, 3]), label=f"{name} times") for name in frames}
    changed = {
        name: frame if change[name] is None else frame.assign(frame=frame["frame"] * change[name])
        for name, frame in frames.items()
    }
    order = data.draw(st.permutations(sorted(frames)))
    keys = [data.draw(st.sampled_from(["frame", "x"])) for _ in order[1:]]
    whole = changed[order[0]]
    for name, key in zip(order[1:], keys, strict=True):
        others = [item for item in ("frame", "x", "partition") if item != key]
        whole = hub.join(whole, changed[name].drop(columns=others), on=key, suffixes=("", f"_{name}"))
    assume(len(whole))
    some = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    kept = whole[np.array(some, bool)]
    assume(len(kept))
    at, offset = data.draw(st.integers(0, len(kept) - 1)), data.draw(st.integers(-2, 2))
    names = [f"v{name}" for name in order]
    loader = hub.row_loader(kept, root)
    try:
        result = pairs(loader, at, [0, offset], names)
    except hub.errors.ConfigError:
        return
    made = [tuple(int(row[name]) for name in names) for row in hub.row_loader(whole, root).get_batch(range(len(whole)))]
    assert result[0] in made
    beside = [item for item in made if any(a == b for a, b in zip(item, result[1], strict=True))]
    assert beside in ([], [result[1]]), "the merge puts others beside these rows"


@pytest.fixture(scope="module")
def few_tables(make_root):
    root = make_root("local")
    made = {
        name: table(name, root, frames, x=xs)
        for name, frames, xs in (
            ("a", [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
            ("b", [0, 2, 1, 3, 4, 6], [5, 4, 3, 2, 1, 0]),
            ("c", [0, 2, 4, 6, 8, 10], [0, 1, 1, 2, 3, 4]),
        )
    }
    return root, made
