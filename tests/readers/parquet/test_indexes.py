"""Row-group selectors, over indexes of ours and of Petastorm."""

import collections
import json
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "petastorm"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    rows = {"id": list(range(60)), "town": [f"t{i // 20}" for i in range(60)], "note": [None] * 40 + ["x"] * 20,
            "tags": [[i // 10, 100] for i in range(60)]}  # fmt: skip
    pq.write_table(pa.table(rows), place / "a.parquet", row_group_size=10)
    indexers = [
        hub.petastorm.SingleFieldIndexer("by town", "town"),
        hub.petastorm.SingleFieldIndexer("by tag", "tags"),
        hub.petastorm.FieldNotNullIndexer("noted", "note"),
    ]
    hub.petastorm.build_rowgroup_index(place, indexers)
    return place


def ids(place, selector, **options):
    with hub.make_reader(place, ["id"], rowgroup_selector=selector, shuffle_row_groups=False, **options) as reader:
        return [int(row.id) for row in reader]


def test_selectors_read_the_row_groups_that_an_index_names(folder):
    town = hub.petastorm.SingleIndexSelector("by town", ["t1"])
    assert ids(folder, town) == list(range(20, 40))
    tag = hub.petastorm.SingleIndexSelector("by tag", [3, 5])
    assert ids(folder, tag) == [*range(30, 40), *range(50, 60)]
    assert ids(folder, hub.petastorm.IntersectIndexSelector([town, tag])) == list(range(30, 40))
    assert ids(folder, hub.petastorm.UnionIndexSelector([town, tag])) == [*range(20, 40), *range(50, 60)]
    assert ids(folder, hub.petastorm.SingleIndexSelector("noted", [None])) == list(range(40, 60))
    assert ids(folder, tag, predicate=hub.petastorm.in_set([31], "id")) == [31]


def test_indexes_of_other_names_stay(folder):
    hub.petastorm.build_rowgroup_index(folder, [hub.petastorm.SingleFieldIndexer("by id", "id")])
    assert ids(folder, hub.petastorm.SingleIndexSelector("by id", [15])) == list(range(10, 20))
    assert ids(folder, hub.petastorm.SingleIndexSelector("by town", ["t0"])) == list(range(20))


def test_an_index_of_other_files_is_refused(folder):
    pq.write_table(pa.table({"id": [1], "town": ["t9"], "note": ["x"], "tags": [[1]]}), folder / "b.parquet")
    with pytest.raises(hub.errors.SourceError, match="build the index again"):
        ids(folder, hub.petastorm.SingleIndexSelector("by town", ["t1"]))


def test_what_is_not_indexed_is_refused(folder, tmp_path):
    with pytest.raises(hub.errors.ConfigError, match="no index 'by day'"):
        ids(folder, hub.petastorm.SingleIndexSelector("by day", [1]))
    with pytest.raises(hub.errors.SourceError, match="has no value 't9'"):
        ids(folder, hub.petastorm.SingleIndexSelector("by town", ["t9"]))
    with pytest.raises(hub.errors.ConfigError, match=r"such as hub\.petastorm\.SingleIndexSelector, not str"):
        ids(folder, "by town")
    with pytest.raises(hub.errors.ConfigError, match="no field 'day'"):
        hub.petastorm.build_rowgroup_index(folder, [hub.petastorm.SingleFieldIndexer("x", "day")])
    (folder / "_hubarray_index.json").unlink()
    with pytest.raises(hub.errors.ConfigError, match="build_rowgroup_index"):
        ids(folder, hub.petastorm.SingleIndexSelector("by town", ["t1"]))


@pytest.mark.parametrize("change", [{"version": 2}, {"files": 3}, {"indexes": {"by town": {"values": [["t1", [99]]]}}},
                                    {"indexes": {"by town": {"values": [[["a"], [0]]]}}}])  # fmt: skip
def test_a_damaged_index_is_refused(folder, change):
    where = folder / "_hubarray_index.json"
    where.write_text(json.dumps(json.loads(where.read_text()) | change))
    with pytest.raises(hub.errors.SourceError, match=r"[bB]uild the index again"):
        ids(folder, hub.petastorm.SingleIndexSelector("by town", ["t1"]))


@pytest.mark.parametrize("version", ["0.5.1", "0.7.6"])
def test_an_index_of_petastorms_that_counts_other_files_is_refused(version):
    # Two partitions of ten are kept here; the index numbers the row groups of all.
    with pytest.raises(hub.errors.SourceError, match="describes other files"):
        ids(GOLDEN / version, hub.petastorm.SingleIndexSelector("id", [0]))


@pytest.mark.parametrize("protocol", [2, 4])
def test_indexes_that_petastorm_pickled_are_read(folder, monkeypatch, protocol):
    modules = [types.ModuleType(name) for name in ("petastorm", "petastorm.etl", "petastorm.etl.rowgroup_indexers")]
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    indexer = type("SingleFieldIndexer", (), {"__module__": modules[2].__name__})
    modules[2].SingleFieldIndexer = indexer
    values = collections.defaultdict(set, {np.str_("t1"): {2, 3}, np.int64(200): {5}, np.float64(0.5): {0}})
    made = indexer()
    made.__dict__ = {"_column_name": "id", "_index_name": "old", "_index_data": values}
    (folder / "_hubarray_index.json").unlink()
    metadata = {
        b"dataset-toolkit.rowgroups_index.v1": pickle.dumps({"old": made}, protocol),
        b"dataset-toolkit.num_row_groups_per_file.v1": json.dumps({"a.parquet": 6}).encode(),
    }
    pq.write_metadata(pq.read_schema(folder / "a.parquet").with_metadata(metadata), folder / "_common_metadata")
    assert ids(folder, hub.petastorm.SingleIndexSelector("old", ["t1"])) == list(range(20, 40))
    assert ids(folder, hub.petastorm.SingleIndexSelector("old", [200, 0.5])) == [*range(10), *range(50, 60)]
