"""Files of fsspec's stores: when they were written, which each store tells otherwise."""

from datetime import UTC, datetime

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.parquet import files
from hubarray.readers.parquet.fsspec_mtimes import DatedHandler

WHEN = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def folder():
    memory = fsspec.filesystem("memory")
    yield memory
    memory.rm("/dated", recursive=True)


def put(memory, first):
    with memory.open("/dated/a.parquet", "wb") as file:
        table = pa.table({"id": np.arange(100, dtype="i8") + first})
        pq.write_table(table, file, compression="none", use_dictionary=False, row_group_size=10)


def ids(**options):
    with hub.make_reader("memory://dated", shuffle_row_groups=False, **options) as reader:
        return [int(row.id) for row in reader]


@pytest.mark.parametrize("settled", [False, True])
def test_a_file_that_was_written_anew_with_the_same_size_is_another_one(folder, tmp_path, monkeypatch, settled):
    if settled:
        monkeypatch.setattr(files, "_SETTLED_NS", 0)
    kept = {"cache_type": "local-disk", "cache_location": str(tmp_path / "kept")}
    put(folder, 0)
    assert ids(**kept) == list(range(100))
    assert ids(filters=[("id", "<", 50)]) == list(range(50))
    with hub.make_reader("memory://dated", seed=1) as reader:
        next(reader)
        state = reader.state_dict()
    put(folder, 1000)
    assert ids(**kept) == list(range(1000, 1100))
    assert ids(filters=[("id", ">=", 1050)]) == list(range(1050, 1100))
    with pytest.raises(hub.errors.NoDataAvailableError):
        ids(filters=[("id", "<", 50)])
    with hub.make_reader("memory://dated", seed=1) as reader, pytest.raises(hub.errors.ConfigError, match="state"):
        reader.load_state_dict(state)


@pytest.mark.parametrize(
    "told",
    [
        {"mtime": WHEN.timestamp()},
        {"LastModified": WHEN},
        {"last_modified": WHEN.replace(tzinfo=None)},
        {"updated": "2024-05-06T07:08:09Z"},
        {"Last-Modified": "Mon, 06 May 2024 07:08:09 GMT"},
        {"mtime": "no time", "modified": WHEN},
    ],
)
def test_every_name_of_a_time_is_understood(told):
    info = DatedHandler._create_file_info("x", {"size": 1, "type": "file", **told})
    assert info.mtime == WHEN


@pytest.mark.parametrize("told", [{}, {"mtime": "no time"}, {"mtime": 1e40}, {"LastModified": None}])
def test_what_has_no_time_is_kept_nowhere(told):
    info = DatedHandler._create_file_info("x", {"size": 1, "type": "file", **told})
    assert files._file(files.located("memory://x"), info, "x").is_fresh
