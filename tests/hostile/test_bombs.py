"""Little that stands for much: memory and time are bounded by what was declared, before they are spent."""

import bz2
import gzip
import lzma
import re
import subprocess
import sys
import textwrap
import time
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import LZ4, Blosc, Zstd

import hubarray as hub
from hubarray.arrays.codecs.codecs import codec_for
from hubarray.limits import ANNOUNCED, decompressed
from tests.hostile.child import MAX_SECONDS

MUCH = bytes(256 << 20)
BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 1, "blocksize": 0}
BOMBS = {
    "gzip": (lambda: gzip.compress(MUCH), {"level": 5}),
    "zstd": (lambda: Zstd(1).encode(MUCH), {"level": 1, "checksum": False}),
    "zstd of two frames": (lambda: Zstd(1).encode(b"four") + Zstd(1).encode(MUCH), {"level": 1, "checksum": False}),
    "blosc": (lambda: Blosc().encode(MUCH), BLOSC),
    "numcodecs.lz4": (lambda: LZ4().encode(MUCH), {}),
    "numcodecs.zlib": (lambda: zlib.compress(MUCH), {}),
    "numcodecs.bz2": (lambda: bz2.compress(MUCH), {}),
    "numcodecs.lzma": (lambda: lzma.compress(MUCH, preset=0), {}),
}
SHARD = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": [{"name": "bytes"}]}}


def _chains(name, configuration):
    last = {"name": name.partition(" ")[0], "configuration": configuration}
    yield [{"name": "bytes"}, last]
    yield [{"name": "bytes"}, {"name": "crc32c"}, last]
    yield [SHARD, last]


@pytest.fixture(scope="module")
def bombs():
    return {name: make() for name, (make, _) in BOMBS.items()}


@pytest.mark.parametrize("name", BOMBS)
def test_a_chunk_of_four_bytes_never_takes_more_than_two_megabytes_to_be_refused(bombs, name):
    import tracemalloc

    for chain in _chains(name, BOMBS[name][1]):
        codec = codec_for(chain, "uint8", np.dtype("u1"), (4,))
        out, whole = np.empty(4, "u1"), np.arange(4, dtype="u1")
        codec.decode(codec.encode(whole), out)
        assert np.array_equal(out, whole)
        tracemalloc.start()
        with pytest.raises(hub.errors.CorruptDataError, match=r"does not decode|were expected"):
            codec.decode(bombs[name], out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_500_000 + 2 * len(bombs[name]), chain


@given(st.binary(max_size=3000), st.integers(1, 3), st.sampled_from(["gzip", "zlib", "bz2", "lzma"]))
def test_what_fits_the_bound_decodes_as_the_standard_library_has_it(data, members, name):
    item = {"gzip": gzip.compress, "zlib": zlib.compress, "bz2": bz2.compress, "lzma": lzma.compress}[name](data)
    assert decompressed(name, item * members, len(data) * members, {}) == data * members
    if data:
        with pytest.raises(ValueError, match="more than"):
            decompressed(name, item * members, len(data) * members - 1, {})
    with pytest.raises(ValueError, match=r"cut short|is no"):
        decompressed(name, item[:-1], len(data), {})


@given(st.binary(min_size=1, max_size=70_000), st.sampled_from([-5, 1, 9]))
def test_sizes_are_announced_as_the_libraries_write_them(data, level):
    assert ANNOUNCED["zstd"](Zstd(level).encode(data)) == len(data)
    assert ANNOUNCED["lz4"](LZ4().encode(data)) == len(data)
    assert ANNOUNCED["blosc"](Blosc().encode(data)) == len(data)


@pytest.mark.parametrize("make", [gzip.compress, bz2.compress], ids=["gzip", "bz2"])
def test_members_without_contents_are_refused_before_all_are_copied(make):
    name = "gzip" if make is gzip.compress else "bz2"
    began = time.process_time()
    with pytest.raises(ValueError, match="more members than are read"):
        decompressed(name, make(b"") * 500_000, 32, {})
    assert time.process_time() - began < MAX_SECONDS


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65791, 65792, 1 << 24])
def test_zstd_frames_of_all_sizes_of_the_size_field_are_understood(size):
    for level in (1, 19):
        assert ANNOUNCED["zstd"](Zstd(level).encode(bytes(size))) == size


def test_a_blob_longer_than_any_chunk_is_not_even_fetched(root, forget):
    from tests.hostile.forge import forge, small_array
    from tests.hostile.test_records import _body, _overlay

    small_array(root)
    with open(root.store.folder / "t" / "x" / "packs" / ("01" * 16), "wb") as file:
        file.truncate(3 << 30)
    forge(root, _body(overlay=_overlay(0, 1, length=3 << 30), overlay_homes=["t/x"]))
    forget()
    array = hub.load("t/x:v0", root=root)
    before = root.store.stats.counts()
    for key in (0, slice(0, 2), ..., [1, 0]):
        with pytest.raises(hub.errors.CorruptDataError, match="as one chunk"):
            array[key]
    assert (root.store.stats.counts() - before)["read_bytes"] < 1 << 20


@pytest.mark.parametrize("target", ["record", "hint", "node", "referrer"])
def test_objects_longer_than_their_kind_may_be_are_not_read(root, forget, target):
    """In a process of its own, whose memory is limited."""
    from tests.hostile.forge import RECORD, newest, small_array

    small_array(root)
    hub.copy("t/x:v0", "t/other", root=root)
    hub.flush()
    keys = {
        "record": RECORD.format(newest(root)),
        "hint": "t/x/log/v0/head.json",
        "node": next(iter(root.store.list("t/x/manifest/"))).key,
        "referrer": next(iter(root.store.list("t/x/referrers/"))).key,
    }
    with open(root.store.folder / keys[target], "r+b") as file:
        file.truncate(8 << 30)
    program = f"""
        import resource, sys, time
        import hubarray as hub
        hub.array(3, "t/warm", root={str(root.store.folder.parent / "warm")!r})[0] = 1
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        root = {str(root.store.folder)!r}
        for use in (
            lambda: hub.load("t/x:v0", root=root)[0:3], lambda: hub.list(root=root), lambda: list(hub.log("t/x:v0", root=root)),
            lambda: hub.verify("t/x", data=False, root=root), lambda: hub.collect_garbage("t/x", root=root, dry_run=True),
        ):
            began = time.monotonic()
            try:
                use()
            except hub.HubError as error:
                pass
            assert time.monotonic() - began < 5
        print("peak", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) >> 10)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"peak (\d+)", done.stdout).group(1)) < 256
