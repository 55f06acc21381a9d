"""What every codec promises, and that zarr-python reads what is written and writes what is read."""

import threading
import warnings

import numpy as np
import pytest

import hubarray as hub
from hubarray.arrays.codecs.codec_chains import NAMED_CHAINS, chain_of
from hubarray.arrays.codecs.codecs import _ZarrChain, codec_for
from hubarray.arrays.codecs.dtypes import dtype_to_json
from hubarray.arrays.codecs.image_codecs import IMAGE_CODECS
from tests.arrays.strategies import CODECS, DTYPES, some_values

CHAINS = [
    *CODECS,
    "blosc-lz4",
    [
        {"name": "bytes", "configuration": {"endian": "big"}},
        {"name": "zstd", "configuration": {"level": 1, "checksum": True}},
    ],
    [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "little"}},
    ],
    [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
]
SHAPES = [(), (1,), (7,), (13, 5)]


def _chain(codec, dtype, shape=(4, 4)):
    return chain_of(codec, np.dtype(dtype), shape)


def _make(codec, dtype, shape):
    return codec_for(_chain(codec, dtype, shape), dtype_to_json(np.dtype(dtype)), np.dtype(dtype), shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("codec", CODECS)
def test_chunks_come_back_and_zarr_reads_and_writes_the_same(codec, dtype, shape):
    chain = _chain(codec, dtype, shape)
    ours = _make(codec, dtype, shape)
    chunk = some_values(shape, dtype, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _ZarrChain(chain, dtype_to_json(np.dtype(dtype)), shape)
        for writer, reader in ((ours, ours), (ours, theirs), (theirs, ours)):
            out = np.empty(shape, dtype)
            reader.decode(bytes(writer.encode(chunk)), out)
            assert out.tobytes() == chunk.tobytes()


@pytest.mark.parametrize("most", [9, 1 << 32])
@pytest.mark.parametrize("codec", CHAINS, ids=str)
def test_what_is_said_to_hold_a_chunk_as_it_is_in_memory_does(codec, most):
    chunk = np.random.default_rng(0).integers(most, size=(64, 32), dtype="u8").astype("u4")
    coder = _make(codec, "uint32", chunk.shape)
    data = bytes(coder.encode(chunk))
    header_bytes = coder.raw_header_bytes(len(data), chunk.nbytes)
    stored_raw = header_bytes is not None and coder.is_raw(data[:header_bytes], chunk.nbytes)
    assert not stored_raw or data[header_bytes:] == chunk.tobytes()
    assert stored_raw == (codec == "none" or (most > 9 and codec in ("auto", "blosc-lz4", "blosc-zstd")))


@pytest.mark.parametrize("damage", [2, 4, 12])
def test_a_header_of_blosc_that_does_not_say_so_is_no_raw_chunk(damage):
    codec = _make("auto", "uint8", (100,))
    header = bytearray(codec.encode(np.random.default_rng(0).integers(256, size=100, dtype="u1"))[:16])
    assert codec.is_raw(header, 100)
    header[damage] ^= 2
    assert not codec.is_raw(header, 100)


@pytest.mark.parametrize("codec", CHAINS, ids=str)
def test_every_chain_decodes_in_place_and_refuses_what_is_cut_short(codec):
    shape = (64, 32)
    codec = _make(codec, "float32", shape)
    chunk = np.ascontiguousarray(some_values(shape, "float32", 2))
    data = bytes(codec.encode(chunk))
    whole = np.zeros((3, *shape), "float32")
    codec.decode(data, whole[1])
    assert np.array_equal(whole[1], chunk)
    assert not whole[0].any()
    assert not whole[2].any()
    for damaged in (data[: len(data) // 2], b"", b"\xff" * 20):
        with pytest.raises(hub.errors.CorruptDataError):
            codec.decode(damaged, np.empty(shape, "float32"))


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_of_another_size_is_refused(codec):
    data = bytes(_make(codec, "u1", (100,)).encode(np.arange(100, dtype="u1")))
    for size in (50, 99, 101, 200):
        with pytest.raises(hub.errors.CorruptDataError):
            _make(codec, "u1", (size,)).decode(data, np.empty(size, "u1"))


@pytest.mark.parametrize(
    "codec",
    [
        "lzma",
        "",
        5,
        [],
        None,
        [{"name": "nonsense"}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"cname": "what"}}],
        [{"name": "zstd"}],
        [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 99}}],
        [{"name": "vlen-utf8"}],
    ],
    ids=str,
)
def test_an_unknown_codec_is_refused(codec):
    with pytest.raises(hub.errors.ConfigError, match="codec"):
        _chain(codec, "float32")


@pytest.mark.parametrize(
    "codec",
    [
        "gzip",
        [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 3, "checksum": True}}],
        [{"name": "bytes"}, {"name": "crc32c"}],
    ],
    ids=str,
)
def test_a_chunk_that_changes_while_it_is_encoded_can_still_be_decoded(codec):
    source = np.random.default_rng(0).integers(0, 255, (100, 1000)).astype("f4")
    chain = chain_of(codec, source.dtype, source.shape)
    item = codec_for(chain, dtype_to_json(source.dtype), source.dtype, source.shape)
    over = threading.Event()

    def change():
        while not over.is_set():
            np.add(source, 1, out=source)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        encoded = [item.encode(source) for _ in range(10)]
    finally:
        over.set()
        thread.join()
    for blob in encoded:
        item.decode(blob, np.empty_like(source))


def test_the_docstring_of_array_says_of_every_name_what_its_row_says():
    said = " ".join(hub.array.__doc__.split())
    for item in (*NAMED_CHAINS.values(), *IMAGE_CODECS.values()):
        assert f'``"{item.name}"`` ({item.about})' in said
