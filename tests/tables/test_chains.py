"""Whatever an index is filtered, sorted, concatenated, merged and stored to: the rows are those of a plain model."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from tests.rounds import rounds
from tests.tables import rows as model

COUNTS = {"a": 7, "b": 1, "c": 5}
LABELS = hub.Schema(
    {
        "log_id": hub.Field(str, index=True),
        "frame": hub.Field("i8", index=True),
        "label.box": hub.Field("f4", (None, 2)),
        "label.kind": hub.Field(str, index=True, nullable=True),
    }
)
ON = ["log_id", "frame"]


def label(key, frame):
    return {
        "log_id": key,
        "frame": np.int64(frame),
        "label.box": np.full((frame % 3, 2), frame, "f4"),
        "label.kind": None if frame % 4 == 3 else f"kind {frame}",
    }


DRIVES = {key: model.drive(key, count) for key, count in COUNTS.items()}
# Of some frames there is no label, and of some labels no frame.
LABELLED = {key: [label(key, frame) for frame in range(1, count + 2, 2)] for key, count in COUNTS.items()}
ROWS = [row for rows in DRIVES.values() for row in rows]


@pytest.fixture(scope="module")
def tables(make_root):
    root = make_root("local")
    model.write("lab/drives:v1", DRIVES, root)
    model.write("lab/labels:v1", LABELLED, root, LABELS)
    return root


def key_of(pair):
    row = pair[0] or pair[1]
    return row["log_id"], int(row["frame"])


def joined(pairs, how):
    """A plain join with the labels: inner and left in the order of the left rows, outer and right sorted, as pandas."""
    labels = {(key, int(row["frame"])): row for key, rows in LABELLED.items() for row in rows}
    both = [(drive, labels.get(key_of((drive, None)))) for drive, _ in pairs]
    if how == "left":
        return both
    if how == "inner":
        return [pair for pair in both if pair[1] is not None]
    there = {key_of(pair) for pair in both}
    return sorted([*both, *((None, row) for key, row in labels.items() if key not in there)], key=key_of)


def expected(pair, merged):

    names = [*model.DRIVES, *(name for name in LABELS if name not in ON)] if merged else list(model.DRIVES)
    row = {}
    for name in names:
        source = next((item for item in pair if item is not None and name in item), None)
        row[name] = None if source is None else source[name]
    return row


@given(st.data())
@settings(max_examples=rounds(60, 600))
def test_a_chain_of_changes_to_an_index_still_means_its_rows(tables, data):
    index, pairs, merged = hub.read_index("lab/drives:v1", root=tables), [(row, None) for row in ROWS], False
    for step in data.draw(
        st.lists(st.sampled_from(["filter", "sort", "again", "parquet", "reset", "merge"]), max_size=6)
    ):
        if step == "filter":
            kept = data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
            index, pairs = index[np.array(kept, bool)], [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
        elif step == "sort":
            order = data.draw(st.permutations(range(len(pairs))))
            index, pairs = index.iloc[order], [pairs[i] for i in order]
        elif step == "again" and pairs:
            some = data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=4))
            index, pairs = pd.concat([index, index.iloc[some]]), [*pairs, *(pairs[i] for i in some)]
        elif step == "parquet":
            out = io.BytesIO()
            index.to_parquet(out)
            index = pd.read_parquet(out)
        elif step == "reset":
            index = index.reset_index(drop=True)
        elif step == "merge" and not merged:
            how = data.draw(st.sampled_from(["inner", "left", "outer"]))
            index = hub.join(index, hub.read_index("lab/labels:v1", root=tables), on=ON, how=how)
            pairs, merged = joined(pairs, how), True
    loader = hub.row_loader(index, root=tables)
    wanted = [expected(pair, merged) for pair in pairs]
    assert len(loader) == len(wanted)
    at = data.draw(st.lists(st.integers(-len(pairs), len(pairs) - 1), max_size=8)) if pairs else []
    model.assert_rows(loader.get_batch(at), [wanted[i] for i in at])
    columns = loader.get_columns(range(len(wanted)))
    for name, column in columns.items():
        assert all(model.same(value, row[name]) for value, row in zip(column, wanted, strict=True)), name
    if at and merged:
        check_merged_window(loader, at[0], pairs[at[0]], data)
    elif at:
        check_window(loader, at[0], pairs[at[0]][0], data)
    if pairs and data.draw(st.booleans()):
        check_published(index, wanted, pairs, tables, data)


def check_window(loader, at, row, data):
    sequence, frame = DRIVES[row["log_id"]], int(row["frame"])
    offsets = data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=5))
    places = [frame + offset for offset in offsets]
    if all(0 <= place < len(sequence) for place in places):
        model.assert_rows(loader.get_rows(at, offsets=offsets), [sequence[place] for place in places])
    else:
        with pytest.raises(hub.errors.ConfigError, match="partition"):
            loader.get_rows(at, offsets=offsets)
        clipped = [sequence[min(max(place, 0), len(sequence) - 1)] for place in places]
        model.assert_rows(loader.get_rows(at, offsets=offsets, pad="edge"), clipped)


def check_merged_window(loader, at, pair, data):
    """Rows that the merge puts beside each other, or an error: never others."""
    offsets = data.draw(st.lists(st.integers(-2, 2), min_size=1, max_size=3))
    sequences = [DRIVES, LABELLED]
    places = []
    for item, rows in zip(pair, sequences, strict=True):
        if item is not None:
            sequence = rows[item["log_id"]]
            own = next(i for i, row in enumerate(sequence) if row["frame"] == item["frame"])
            places.append([own + offset for offset in offsets])
            if not all(0 <= place < len(sequence) for place in places[-1]):
                with pytest.raises(hub.errors.ConfigError, match="partition"):
                    loader.get_rows(at, offsets=offsets)
                return
    if None in pair and any(offsets):
        with pytest.raises(hub.errors.ConfigError, match="has no row there"):
            loader.get_rows(at, offsets=offsets)
        return
    if None in pair:
        model.assert_rows(loader.get_rows(at, offsets=offsets), [expected(pair, True)] * len(offsets))
        return
    key = pair[0]["log_id"]
    result = [[rows[key][i] for i in some] for rows, some in zip(sequences, places, strict=True)]
    if [row["frame"] for row in result[0]] != [row["frame"] for row in result[1]]:
        with pytest.raises(hub.errors.ConfigError, match="differ in 'frame'"):
            loader.get_rows(at, offsets=offsets)
        return
    model.assert_rows(
        loader.get_rows(at, offsets=offsets), [expected(both, True) for both in zip(*result, strict=True)]
    )


def check_published(index, wanted, pairs, root, data):
    """Published, the rows stand in the order of their partitions' keys, and of the index within each."""
    index = index.assign(partition=[key_of(pair)[0] for pair in pairs])
    if hub.exists("lab/published:v1", root=root):
        hub.delete("lab/published:v1", root=root)
    table = hub.write_index(index, "lab/published:v1", move=data.draw(st.booleans()), root=root)
    order = sorted(range(len(pairs)), key=lambda i: key_of(pairs[i])[0])
    model.assert_rows(list(table), [wanted[i] for i in order])
