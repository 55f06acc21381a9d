"""Scans: every row once and in order, in steps of any size, with a bounded number of bytes read ahead."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.tables.read.scan import SCAN_BYTES, scan


def reader(asked):
    def read(begin, end):
        asked.append((begin, end))
        return {"numbers": np.arange(begin, end), "texts": [str(i) for i in range(begin, end)]}

    return read


@given(
    rows=st.integers(0, 300),
    row_bytes=st.sampled_from([1.0, SCAN_BYTES / 1000, SCAN_BYTES / 10, SCAN_BYTES / 3, 2.0 * SCAN_BYTES]),
    step=st.one_of(st.none(), st.integers(1, 400)),
)
def test_rows_come_once_in_order_and_are_read_once(rows, row_bytes, step):
    asked = []
    result = list(scan(reader(asked), rows, row_bytes=row_bytes, step_rows=step))
    assert [int(i) for part in result for i in part["numbers"]] == list(range(rows))
    assert [text for part in result for text in part["texts"]] == [str(i) for i in range(rows)]
    assert sorted(i for begin, end in asked for i in range(begin, end)) == list(range(rows))
    if step is not None:
        assert {len(part["numbers"]) for part in result[:-1]} <= {step}


@pytest.mark.parametrize(
    ("row_bytes", "step"), [(1 << 10, None), (1 << 10, 100), (1 << 20, 1), (1 << 20, 7), (1 << 25, 1)]
)
def test_what_is_begun_and_not_handed_out_is_bounded(row_bytes, step):
    asked, given_out = [], 0
    for part in scan(reader(asked), 100_000, row_bytes=row_bytes, step_rows=step):
        begun = max(end for _, end in asked)
        part_rows = max(end - begin for begin, end in asked)
        assert begun - given_out <= max(SCAN_BYTES / row_bytes, part_rows) + part_rows
        given_out += len(part["numbers"])
        if given_out > 50 * part_rows:
            break


def test_an_error_of_reading_comes_where_its_rows_would():
    def read(begin, end):
        if begin >= 10:
            raise OSError("damaged")
        return {"numbers": np.arange(begin, end)}

    result = scan(read, 100, row_bytes=SCAN_BYTES, step_rows=1)
    assert [int(next(result)["numbers"][0]) for _ in range(10)] == list(range(10))
    with pytest.raises(OSError, match="damaged"):
        next(result)


def test_a_forked_child_reads_again_what_its_parent_had_begun():
    result = scan(reader([]), 40, row_bytes=SCAN_BYTES, step_rows=1)
    assert int(next(result)["numbers"][0]) == 0
    child = os.fork()
    if child == 0:
        rest = [int(part["numbers"][0]) for part in result]
        os._exit(0 if rest == list(range(1, 40)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [int(part["numbers"][0]) for part in result] == list(range(1, 40))
