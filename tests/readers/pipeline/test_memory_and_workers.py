"""Rules 7 and 8 of the order, group sizes that fit a buffer and runs dealt to workers, each broken on purpose as well."""

import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.errors import ConfigError
from hubarray.readers.order import planning

MIB = 1 << 20


def broken(module, old, new):
    """A module of which one line is another."""
    text = Path(module.__file__).read_text()
    assert text.count(old) >= 1, f"the file has no longer what is to be broken: {module.__file__}: {old}"
    made = types.ModuleType(module.__name__)
    made.__file__ = module.__file__
    exec(compile(text.replace(old, new), module.__file__, "exec"), made.__dict__)
    return made


def look_at_sizes(sizes, rows, row_bytes, chunk_rows, intervals, buffer):
    """Rule 7, of one case."""
    try:
        result = sizes(rows, row_bytes, chunk_rows, intervals=intervals, world_size=1, buffer_bytes=buffer)
    except ConfigError as error:
        if "smaller chunks" in str(error):
            assert chunk_rows * row_bytes * 2 * planning.GROUPS_HELD > planning.MAX_HELD_BYTES - planning.GROUPS_HELD
        elif "suffices" in str(error):
            told = int(str(error).rsplit("buffer_bytes=", 1)[1].split(" ")[0].replace(",", ""))
            assert told > buffer
            sizes(rows, row_bytes, chunk_rows, intervals=1, world_size=1, buffer_bytes=told)
        return
    units = -(-rows // result.unit_rows)
    assert result.unit_rows % min(chunk_rows, rows) == 0, "whole chunks"
    assert result.group_rows * row_bytes <= buffer / planning.GROUPS_HELD, "a third of the buffer"
    assert result.group_rows >= 2 * result.unit_rows, "two units at least"
    assert units <= planning.MAX_UNITS
    held = (intervals + 2) * result.group_rows
    assert held * row_bytes <= planning.MAX_HELD_BYTES
    assert result.open_units == held // result.unit_rows
    for world in (1, 2, 4):
        if intervals % world == 0:
            again = sizes(rows, row_bytes, chunk_rows, intervals=intervals, world_size=world, buffer_bytes=buffer)
            assert again[:2] == result[:2], "alike on any number of ranks, or they would see other orders"


@settings(max_examples=200)
@given(
    st.integers(1, 10**7), st.floats(1, 10 * MIB), st.integers(1, 5000), st.sampled_from([1, 2, 4, 8, 48]),
    st.integers(MIB, 4096 * MIB),
)  # fmt: skip
def test_a_group_has_two_units_and_fits_a_third_of_the_buffer_or_the_message_says_which_does(
    rows, row_bytes, chunk_rows, intervals, buffer
):
    look_at_sizes(planning.sizes, rows, row_bytes, chunk_rows, intervals, buffer)


CASES = [
    (10_000, 200_000.0, 1, 1, 192 * MIB), (100_000, 1000.0, 64, 8, 64 * MIB), (10**6, 150_000.0, 16, 48, 512 * MIB),
    (2000, 3e6, 32, 4, 256 * MIB), (100_000, 5e5, 4, 4, 4096 * MIB),
]  # fmt: skip


def test_the_sizes_of_a_few_cases_keep_the_rule():
    for case in CASES:
        look_at_sizes(planning.sizes, *case)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("group_bytes = max_buffer_bytes / groups", "group_bytes = max_buffer_bytes"),
        ("if fitting < 2 * unit_rows:", "if False:"),
        ("buffer_bytes={needed:,} suffices", "buffer_bytes={needed // 4:,} suffices"),
        ("held = intervals // world_size + 2", "held = 3"),
        ("group_rows = min(fitting, max(shared, 2 * unit_rows))", "group_rows = min(fitting, shared // world_size)"),
        ("unit_rows = chunk_rows * chunks_a_unit", "unit_rows = chunks_a_unit"),
    ],
)
def test_a_broken_rule_of_memory_is_seen(old, new):
    sizes = broken(planning, old, new).sizes

    def look():
        for case in CASES:
            look_at_sizes(sizes, *case)

    with pytest.raises((AssertionError, ConfigError)):
        look()


def torch_stream():
    from hubarray.interop.torch import stream

    return stream


@pytest.fixture(scope="module")
def stream_of(make_root):
    """Streams over an array whose rows are their numbers."""
    root = make_root("memory")
    array = hub.array(1000, "t/numbers:v0", "i8", chunks=8, root=root)
    array[...] = np.arange(1000)

    def made(**options):
        return array.to_pytorch(iterable=True, batch_size=12, seed=3, buffer_bytes=3 * 1024, **options)

    return made


def items_of(stream, workers):
    """What a loader gives whose workers hand over a run each in turn."""
    loop = stream.current_loop()
    share = loop.share(loop.order())
    handed = [stream.runs(worker, workers) for worker in range(workers)]
    in_turn = (next(handed[number % workers]) for number in range(len(share.runs)))
    arriving = torch_stream()._Arriving(share, in_turn, stream.items.unpacked)
    return [item.tolist() for _, item in stream.joined(share, arriving)]


@pytest.mark.parametrize("intervals", [1, 2, 6])
def test_what_workers_hand_over_is_what_one_process_reads_however_many_they_are(stream_of, intervals):
    stream = stream_of(intervals=intervals)
    alone = [item.tolist() for item in stream]
    assert sorted(row for item in alone for row in item) == list(range(1000))
    for workers in (1, 2, 3, 5):
        assert items_of(stream, workers) == alone


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run.count if i % workers == worker else 0", "run.count if i % workers != worker else 0"),
        ("range(worker, len(share.runs), workers)", "range(worker, len(share.runs) - workers, workers)"),
        ("range(worker, len(share.runs), workers)", "range(len(share.runs) - 1 - worker, -1, -workers)"),
    ],
)  # fmt: skip
def test_a_broken_deal_to_workers_is_seen(stream_of, old, new):
    stream = stream_of(intervals=2)
    alone = [item.tolist() for item in stream]
    stream.__class__ = broken(torch_stream(), old, new).Stream
    try:
        result = items_of(stream, 3)
    except (AssertionError, RuntimeError, StopIteration, IndexError, KeyError, ValueError):
        return
    assert result != alone
