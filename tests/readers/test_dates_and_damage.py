"""Readers of dates, predicates of batches, filters beside nulls, and damaged rows."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.order import planning
from tests.tables import rows as model

DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(40)]


def read(source, **options):
    with hub.make_reader(source, shuffle_row_groups=False, **options) as reader:
        return list(reader)


@pytest.mark.parametrize(
    "day", [DAYS[3], np.datetime64("2020-01-04"), pd.Timestamp("2020-01-04"), datetime.datetime(2020, 1, 4),
            datetime.datetime(2020, 1, 4, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))]
)  # fmt: skip
def test_a_set_has_a_day_whoever_names_it(tmp_path, root, day):
    pq.write_table(pa.table({"d": DAYS, "i": range(40)}), tmp_path / "d.parquet")
    assert [row.i for row in read(tmp_path / "d.parquet", predicate=hub.petastorm.in_set([day], "d"))] == [3]
    schema = hub.Schema({"i": hub.Field("i8"), "at": hub.Field("M8[us]", index=True), "day": hub.Field("M8[D]")})
    rows = [{"i": i, "at": np.datetime64(item, "us"), "day": np.datetime64(item)} for i, item in enumerate(DAYS)]
    table = model.write("t/days:v1", {"a": rows}, root, schema)
    for field in ("at", "day"):
        assert [int(row.i) for row in read(table, predicate=hub.petastorm.in_set([day], field))] == [3]
        with hub.make_batch_reader(table, predicate=hub.petastorm.in_set([day], field)) as batches:
            assert [int(i) for batch in batches for i in batch.i] == [3]


def test_letters_are_no_set():
    with pytest.raises(hub.errors.ConfigError, match="give a list of values"):
        hub.petastorm.in_set("sun", "weather")


def test_filters_on_dates_do_not_mind_nulls(tmp_path):
    pq.write_table(pa.table({"d": [*DAYS, None], "i": range(41)}), tmp_path / "d.parquet")
    for value in (DAYS[30], np.datetime64(DAYS[30]), pd.Timestamp(DAYS[30])):
        result = read(tmp_path / "d.parquet", filters=[("d", ">=", value)])
        assert [row.i for row in result] == list(range(30, 40))
        result = read(tmp_path / "d.parquet", filters=[("d", "in", [value])])
        assert [row.i for row in result] == [30]


def test_a_predicate_of_batches_gets_frames_whatever_it_looks_at(tmp_path, root):
    schema = hub.Schema({"i": hub.Field("i8", index=True), "x": hub.Field("f4")})
    table = model.write("t/x:v1", {"a": [{"i": i, "x": np.float32(i)} for i in range(20)]}, root, schema)
    pq.write_to_dataset(pa.table({"i": range(20), "key": [i % 2 for i in range(20)]}), tmp_path, ["key"])
    seen = []

    def isin(series):
        seen.append(type(series).__name__)
        return series.isin([1, 2])

    for source, field in ((table, "i"), (table, "x"), (str(tmp_path), "key"), (str(tmp_path), "i")):
        with hub.make_batch_reader(source, predicate=hub.petastorm.in_lambda([field], isin)) as reader:
            result = sorted(int(i) for batch in reader for i in batch.i)
        assert result == (list(range(1, 20, 2)) if field == "key" else [1, 2])
    assert set(seen) == {"Series"}


@pytest.mark.parametrize("make", [hub.make_reader, hub.make_batch_reader])
def test_damaged_rows_of_tables_and_arrays_are_passed_over_and_counted(root, make):
    schema = hub.Schema({"i": hub.Field("i8", index=True), "x": hub.Field("u1", (None,))})
    rows = [{"i": i, "x": np.full(5000, i, "u1")} for i in range(20)]
    table = model.write("t/x:v1", {"a": rows}, root, schema)
    array = hub.array((20, 5000), "t/a:v1", "u1", chunks=(1, 5000), codec="none", root=root)
    array[...] = np.arange(100, 120)[:, None]
    for home in ("t/x", "t/a"):
        pack = max(root.store.list(f"{home}/packs/"), key=lambda one: one.size_bytes)
        data = bytearray(root.store.get(pack.key))
        data[52_500] ^= 255
        root.store.put(pack.key, bytes(data))
    for source, field in ((table, "x"), (array, "value")):
        with pytest.raises(hub.errors.CorruptDataError):
            list(make(source))
        with make(source, on_error="skip", shuffle_row_groups=False) as reader:
            items = list(reader)
            values = [one for item in items for one in getattr(item, field)] if reader.batched_output else [
                getattr(item, field) for item in items]  # fmt: skip
            assert reader.diagnostics["rows_skipped"] == 1
        assert [int(value[0]) % 100 for value in values] == [i for i in range(20) if i != 10]


def test_a_table_of_many_rows_that_are_not_shuffled_takes_little_memory():
    for rows in (10, 10**6, 5 * 10**8, 10**12):
        result = planning.sizes(rows, 100.0, 1, shuffle=False)
        assert -(-rows // result.unit_rows) <= planning.MAX_UNITS
        assert result.group_rows >= result.unit_rows
    assert planning.sizes(10**6, 100.0, 1, shuffle=False).unit_rows == 1
