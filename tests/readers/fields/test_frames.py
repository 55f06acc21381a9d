"""Columns with nulls as DataFrames, and back."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.fields.frames import column_of_series, frame_of, mask_of_answer

LARGE = 2**60 + 1


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8", "u2"])
def test_integers_with_nulls_are_pandas_own_and_come_back_exact(dtype):
    most = np.iinfo(dtype).max
    column = [np.dtype(dtype).type(most), None, np.dtype(dtype).type(1)]
    frame = frame_of({"x": column})
    assert isinstance(frame["x"].dtype, pd.api.extensions.ExtensionDtype)
    assert column_of_series(frame["x"]) == [most, None, 1]
    whole = column_of_series(frame["x"].dropna())
    assert whole.dtype == dtype
    assert whole.tolist() == [most, 1]


def test_a_comparison_with_a_null_lets_no_row_pass():
    frame = frame_of({"x": [np.int64(LARGE), None, np.int64(2)], "b": [np.bool_(True), None, np.bool_(False)]})
    assert mask_of_answer(frame.x > 1).tolist() == [True, False, True]
    assert mask_of_answer(frame.b).tolist() == [True, False, False]


def test_nulls_of_floats_and_times_are_nan_and_nat():
    when = np.datetime64("2020-01-01", "us")
    frame = frame_of({"x": [np.float32(1), None], "t": [when, None]})
    assert frame["x"].dtype == "f4"
    assert np.isnan(frame["x"][1])
    assert pd.isna(frame["t"][1])
    assert frame["t"][0] == pd.Timestamp(when)


@pytest.fixture
def file(tmp_path):
    table = pa.table({"id": range(6), "x": pa.array([1, 2, 3, LARGE, None, 6], pa.int64())})
    pq.write_table(table, tmp_path / "nulls.parquet", row_group_size=3)
    return tmp_path / "nulls.parquet"


def test_batches_transforms_and_predicates_keep_large_integers_beside_nulls(file):
    with hub.make_batch_reader(file, shuffle_row_groups=False) as reader:
        first, second = list(reader)
    assert first.x.tolist() == [1, 2, 3]
    assert second.x.tolist() == [LARGE, None, 6]
    some = hub.make_batch_reader(
        file, shuffle_row_groups=False, predicate=hub.petastorm.in_lambda(["x"], lambda x: x > 2), num_epochs=1,
        transform_spec=hub.TransformSpec(lambda frame: frame.assign(x=frame.x + 1)),
    )  # fmt: skip
    assert [int(item) for batch in some for item in batch.x] == [4, LARGE + 1, 7]
