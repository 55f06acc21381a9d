"""The contract of sources, which every one of them keeps: rows from anywhere, in bounded blocks, and a fingerprint."""

import glob
import json
import os
from pathlib import Path

import numpy as np
import pytest
import xarray

from hubarray.interop.sources import open_source
from tests.interop.import_.test_import import KINDS, VALUES, iterator, numpy_array, write_media

ROW_BYTES = VALUES[0].nbytes


def data_array(folder):
    return xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"unit": "mm"}), {}


def audio(folder):
    write_media(folder / "x.wav", "audio")
    return folder / "x.wav", {}


SOURCES = [*KINDS, data_array, audio]


@pytest.fixture(params=SOURCES, ids=lambda kind: kind.__name__)
def opened(request, tmp_path):
    """Opens a source anew each time, as a second process would."""
    source, options = request.param(tmp_path)
    once = request.param is iterator

    def open_it():
        return open_source(source if not once else iter(VALUES), **options)

    open_it.values = _all(open_it())
    open_it.again = not once
    open_it.path = None if once or not isinstance(source, (str, type(tmp_path))) else source
    return open_it


def _all(source):
    return np.concatenate(list(source.blocks(0, 7)))


def test_it_says_what_its_rows_are(opened):
    source = opened()
    assert source.where
    assert isinstance(source.where, str)
    assert source.rows in (None, len(opened.values))
    assert tuple(source.row_shape) == opened.values.shape[1:]
    assert source.dtype == opened.values.dtype
    assert json.loads(json.dumps(source.attrs)) == source.attrs
    assert source.dims is None or len(source.dims) == 1 + len(source.row_shape)


def test_its_values_are_those_that_were_written(opened):
    if opened.values.shape == VALUES.shape:
        assert np.array_equal(opened.values, VALUES)
    else:
        assert opened.values.any()


@pytest.mark.parametrize("start", [0, 1, 6, 13, 49])
@pytest.mark.parametrize("block_rows", [1, 5, 1000])
def test_rows_come_from_any_row_on_in_blocks_that_are_no_larger_than_asked(opened, start, block_rows):
    if not opened.again:
        # An iterator goes on where it is, and begins at its first.
        start = 0
    blocks = list(opened().blocks(start, block_rows))
    assert all(0 < len(block) <= block_rows for block in blocks)
    assert np.array_equal(np.concatenate(blocks), opened.values[start:])


@pytest.mark.parametrize("max_bytes", [1, ROW_BYTES // 3, 10 * ROW_BYTES])
def test_the_parts_of_a_row_make_the_row(opened, max_bytes):
    source, row_number = opened(), 3 if opened.again else 0
    row = np.zeros_like(opened.values[row_number])
    covered = np.zeros(row.shape, int)
    for where, values in source.parts(row_number, max_bytes):
        row[where] = values
        covered[where] += 1
    assert (covered == 1).all()
    assert np.array_equal(row, opened.values[row_number])


def test_its_fingerprint_is_json_that_stays_while_it_stays(opened):
    first, second = opened().fingerprint, opened().fingerprint
    assert first == second
    assert first is None or json.loads(json.dumps(first)) == first


def test_its_fingerprint_changes_with_its_file_and_there_is_none_without(opened):
    before = opened().fingerprint
    if opened.path is None:
        assert before is None
    else:
        _touch(str(opened.path))
        assert opened().fingerprint != before


def _touch(path):
    result = [Path(item) for item in glob.glob(path)]
    files = [item for top in result for item in ([top] if top.is_file() else top.rglob("*")) if item.is_file()]
    for file in files:
        status = file.stat()
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))


def test_a_source_in_memory_is_not_copied_to_be_opened():
    source = open_source(numpy_array(None)[0])
    (block,) = source.blocks(0, len(VALUES))
    assert np.shares_memory(block, VALUES)
