"""Petastorm's pickles: only what a schema or an index is made of runs, and what it makes is counted."""

import contextlib
import pickle
import pickletools
import struct
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import SourceError
from hubarray.readers.parquet.pickled import _COSTS, pickled_indexes, pickled_schema
from tests.hostile.child import MAX_SECONDS, assert_refused


def _nested_frozensets(slot):
    store, load = b"q" + bytes([slot]) + b"0", b"h" + bytes([slot])
    return b"(X\x01\0\0\0x\x91" + store + (b"(" + load + b"(" + load + b"\x91\x91" + store) * 40


def _colliding(entry):
    numbers = (pickle.encode_long(i * (2**61 - 1)) for i in range(1, 100_001))
    return b"\x80\x02}(" + b"".join(b"\x8a" + bytes([len(number)]) + number + entry for number in numbers) + b"u."


def _text(value):
    return b"X" + struct.pack("<I", len(value)) + value


_INDEX = b"cpetastorm.etl.rowgroup_indexers\nSingleFieldIndexer\n)\x81}" + _text(b"_index_data")
_LONG_TUPLE = b"\x80\x02(" + b"N" * 1_000_000 + b"tq\x000cpetastorm.unischema\nUnischema\nq\x01"
RECORD = b"cpetastorm.unischema\nUnischema\n)\x81"
HOSTILE = {
    "a bytearray that is not there": b"\x80\x05\x96" + struct.pack("<Q", 2 << 30) + b"abc.",
    "frozensets that are compared": b"\x80\x04" + _nested_frozensets(0) + _nested_frozensets(1) + b"}h\x00Nsh\x01Ns.",
    "integers of one hash": _colliding(b"N"),
    "a set": b"\x80\x04\x8f.",
    "numbers without end": b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\xff" * (1 << 20) + b".",
    "digits without end": b"L" + b"9" * 4000 + b"L\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"Pfile\n.",
    "a buffer out of band": b"\x80\x05\x97.",
    "a tuple as a key": b"\x80\x02}))s.",
    "a state that is copied again and again": (
        b"\x80\x02}q\x01(" + b"".join(b"X\x04\0\0\0" + b"%04d" % i + b"N" for i in range(9999)) + b"u0"
        + (RECORD + b"h\x01b0") * 100_000 + b"N."
    ),
    "a list that is copied again and again": (
        b"\x80\x02]q\x01(" + b"N" * 100_000 + b"e0"
        + (b"ccopyreg\n__newobj__\n(cpetastorm.unischema\nUnischema\nh\x01tR0") * 100_000 + b"N."
    ),
    "classes without end": b"\x80\x02" + b"".join(
        b"cpyspark.sql.types\nA%dType\n0" % i for i in range(600_000)
    ) + b"N.",
    "marks without end": b"\x80\x02" + b"(" * (15 << 20) + b".",
    "arguments that every object keeps": _LONG_TUPLE + b"h\x01h\x00\x81" * 700 + b".",
    "arguments of objects that are thrown away": _LONG_TUPLE + b"h\x01h\x00\x810" * 200_000 + b"N.",
    "arguments of calls": _LONG_TUPLE + b"h\x01h\x00R0" * 700 + b"N.",
    "a tuple as a state": _LONG_TUPLE + b")\x81" + b"h\x00b" * 300_000 + b".",
    "bytes that are a number": (
        b"\x80\x02cnumpy.core.multiarray\nscalar\nq\x050cnumpy\ndtype\n" + _text(b"S2000000000") + b"\x85Rq\x060"
        + (b"h\x05h\x06J" + struct.pack("<i", 2_000_000_000) + b"\x86R0") * 2000 + b"N."
    ),
    "opcodes without end": b"\x80\x02" + b"N0" * (7 << 20) + b"N.",
    "a memo without end": b"\x80\x04N" + b"\x94" * (15 << 20) + b".",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_pickle_that_would_end_hang_or_fill_the_process_is_refused_at_once(tmp_path, name):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    schema = pa.schema([("id", pa.int64())])
    for key in (b"dataset-toolkit.unischema.v1", b"dataset-toolkit.rowgroups_index.v1"):
        pq.write_metadata(schema.with_metadata({key: HOSTILE[name]}), tmp_path / "_common_metadata")
        select = ", rowgroup_selector=hub.petastorm.SingleIndexSelector('x', [1])" if b"index" in key else ""
        if b"index" in key:
            counts = b'{"a.parquet": 1}'
            both = {key: HOSTILE[name], b"dataset-toolkit.num_row_groups_per_file.v1": counts}
            pq.write_metadata(schema.with_metadata(both), tmp_path / "_common_metadata")
        assert_refused(f"next(iter(hub.make_reader(sys.argv[1]{select})))", tmp_path)


def test_a_list_that_many_values_share_is_looked_at_once():
    rows = b"(" + b"K\x00" * 500_000 + b"e"
    named = b"".join(_text(b"n%d" % i) + b"h\x02" for i in range(50_000))
    data = b"\x80\x02" + _INDEX + b"}K\x01]" + rows + b"ssbq\x020}(" + named + b"u."
    began = time.process_time()
    with contextlib.suppress(SourceError):
        assert len(pickled_indexes(data, "it")) == 50_000
    assert time.process_time() - began < MAX_SECONDS


@pytest.mark.parametrize("opcode", [item for item in pickletools.opcodes if item.code.encode("latin1") not in _COSTS],
                         ids=lambda one: one.name)  # fmt: skip
def test_an_opcode_that_no_schema_needs_does_not_run(opcode):
    data = b"\x80\x04]" + opcode.code.encode("latin1") + bytes(16) + b"."
    with pytest.raises(SourceError, match="an opcode that no schema and no index needs"):
        pickled_schema(data, "it")
    if opcode.name not in ("EMPTY_SET", "ADDITEMS"):
        with pytest.raises(SourceError, match="an opcode that no schema and no index needs"):
            pickled_indexes(data, "it")


_PIECES = [item.code.encode("latin1") for item in pickletools.opcodes]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(_PIECES), st.binary(max_size=4),
            st.sampled_from([RECORD, b"cnumpy\nint64\n", b"ccopy_reg\n_reconstructor\n", b"X\x01\0\0\0x", b"K\x01"]),
        ),
        max_size=60,
    )
)  # fmt: skip
def test_any_stream_of_opcodes_is_read_or_refused(pieces):
    for read in (pickled_schema, pickled_indexes):
        with contextlib.suppress(SourceError):
            read(b"\x80\x04" + b"".join(pieces) + b".", "it")


def test_sets_of_an_index_are_read_whatever_the_protocol():
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        values = pickle.dumps({5: {1, 2}, "x": {3}}, protocol)
        # As an indexer of Petastorm is pickled: a record with this dictionary as its state.
        record = b"cpetastorm.etl.rowgroup_indexers\nSingleFieldIndexer\n)\x81}X\x0b\0\0\0_index_data"
        data = b"\x80\x05}X\x05\0\0\0by_id" + record + _without_frame(values) + b"sbs."
        result = pickled_indexes(data, "it")
        assert {key: sorted(rows) for key, rows in result["by_id"].items()} == {5: [1, 2], "x": [3]}


def _without_frame(data):
    """The opcodes of a pickle between its head and its end."""
    opcodes = [(item.name, at) for item, _, at in pickletools.genops(data)]
    first = next(at for name, at in opcodes if name not in ("PROTO", "FRAME"))
    return data[first:-1]


def test_integers_of_64_bits_are_read_and_longer_ones_refused():
    for number, fits in ((2**63 - 1, True), (2**64 - 1, True), (-(2**63), True), (2**64, False), (-(2**63) - 1, False)):
        for protocol in (0, 2):
            data = pickle.dumps({"name": number}, protocol)
            with pytest.raises(SourceError, match="not a Unischema" if fits else "more than 64 bits"):
                pickled_schema(data, "it")
