"""Pickles of handles that version 0.1 made load, or are refused by name."""

import importlib
import pickle
from pathlib import Path

import pytest

import hubarray as hub
from tests.golden.make_pickles import ROOT, stored

PICKLES = Path(__file__).parents[1] / "golden" / "pickles"


@pytest.fixture
def now(isolated):
    """The handles of now, of the same names, which were deleted and created again."""
    for _ in range(2):
        for name in ("t/a:v1", "t/d:v1", "t/t:v1"):
            if hub.exists(name, root=ROOT):
                hub.delete(name, root=ROOT)
        handles = stored()
    return handles


@pytest.mark.parametrize("name", sorted(path.stem for path in PICKLES.glob("*.pickle")))
def test_a_pickle_of_an_earlier_version_is_what_it_was_or_is_refused_by_name(now, name):
    try:
        result = pickle.loads((PICKLES / f"{name}.pickle").read_bytes())
    except hub.HubError as error:
        assert "t/" in str(error)
    else:
        assert type(result) is type(now[name])


# What a pickle of 0.1 names, by the modules of 0.1.
NAMES = {
    "arrays.diff": "Diff", "arrays.spec": "ArraySpec", "arrays.worker": "Part Worker", "blobs.stats": "Stats",
    "datasets.description": "view", "datasets.diff": "DatasetDiff", "datasets.worker": "DatasetWorker",
    "history.compact": "Compaction", "history.garbage": "Garbage", "history.repair": "Repair",
    "history.timeline": "Commit", "history.transfer": "Transferred", "history.usage": "Usage",
    "history.verify": "Report Problem", "interop.parquet_dataset.indexes": "SingleFieldIndexer", "names": "Name",
    "readers.field_codecs": "ScalarCodec NdarrayCodec CompressedNdarrayCodec CompressedImageCodec",
    "readers.ngram": "NGram", "readers.predicates": "in_set in_lambda", "readers.selectors": "SingleIndexSelector",
    "readers.transform": "TransformSpec", "readers.unischema": "Unischema UnischemaField",
    "tables.diff": "TableDiff", "tables.part": "TablePart", "tables.schema": "Schema Field",
    "tables.windows": "EveryRow", "tables.worker": "TableWorker",
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_what_a_pickle_of_an_earlier_version_names_is_found(module):
    result = importlib.import_module(f"hubarray.{module}")
    assert all(
        isinstance(getattr(result, name), type) or callable(getattr(result, name)) for name in NAMES[module].split()
    )


def test_handles_of_an_earlier_version_read(now):
    def old(name):
        return pickle.loads((PICKLES / f"{name}.pickle").read_bytes())

    assert old("array")[...].tolist() == [0, 1, 2, 3, 4, 5]
    assert old("dataset")["x"][1] == 1
    # Another table has its name now.
    with pytest.raises(hub.errors.NotFoundError, match="was deleted and created again"):
        old("table")[0]
    assert old("schema") == now["schema"]
    assert hub.load("t/a:v1", root=old("root"))[2] == 2
