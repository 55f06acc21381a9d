"""Text of any length in arrays: what goes in, what comes back, what others read, and what a hostile chunk does."""

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.codecs import text_codec as codec_module
from hubarray.arrays.codecs.codec_chains import NAMED_CHAINS, chain_of
from hubarray.arrays.codecs.codecs import codec_for
from hubarray.arrays.codecs.compressors import COMPRESSORS
from hubarray.arrays.codecs.dtypes import TEXT
from hubarray.arrays.codecs.text_codec import held_bytes
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.interop.sources import texts

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = ["cat", "", "é" * 40, "with\0nul\0", "🙂"]


def made(codec, chunks):
    return codec_for(chain_of(codec, TEXT, chunks), "string", TEXT, chunks)


@given(texts=st.lists(TEXTS, min_size=1, max_size=20), codec=st.sampled_from(list(NAMED_CHAINS)))
def test_every_text_comes_back_through_every_codec(texts, codec):
    chunk, out = np.array(texts, TEXT), np.empty(len(texts), TEXT)
    item = made(codec, (len(texts),))
    item.decode(item.encode(chunk), out)
    assert out.tolist() == texts


@pytest.mark.parametrize("dtype", [str, "str", "string", np.dtypes.StringDType()], ids=str)
def test_a_dtype_of_text_is_numpys_string_dtype(root, dtype):
    array = hub.array(5, "t/x:v0", dtype, root=root)
    assert array.dtype == TEXT
    assert array[...].tolist() == [""] * 5
    array[:] = NAMES
    again = hub.load("t/x:v0", root=root)
    assert again[...].tolist() == NAMES
    assert type(again[1]) is str
    assert np.asarray(again, object).tolist() == NAMES


def test_text_that_may_be_missing_is_refused(root):
    with pytest.raises(ConfigError, match="may be missing"):
        hub.array(5, "t/x:v0", np.dtypes.StringDType(na_object=None), root=root)


@pytest.mark.parametrize(
    "value", [None, 5, b"x", ["a", None], np.array([1.5]), np.nan, [b"x"], np.array([b"x"])], ids=repr
)
def test_what_is_no_text_is_refused_and_never_written_as_numpy_would_print_it(root, value):
    array = hub.array(2, "t/x:v0", str, root=root)
    array[:] = ["a", "b"]
    with pytest.raises(TypeError, match="text is expected"):
        array[: np.size(value)] = value
    with pytest.raises(TypeError, match="text is expected"):
        array.append(np.atleast_1d(np.array(value, object)))
    assert array[...].tolist() == ["a", "b"]


def test_a_fill_value_is_text(root):
    array = hub.array((2, 2), "t/x:v0", str, fill_value="none", root=root)
    array[0, 0] = ""
    assert hub.load("t/x:v0", root=root)[...].tolist() == [["", "none"], ["none", "none"]]
    with pytest.raises(ConfigError, match="is not text of up to 1,024 bytes"):
        hub.array(2, "t/y:v0", str, fill_value="x" * 1025, root=root)
    with pytest.raises(ConfigError, match="is not text"):
        hub.array(2, "t/y:v0", str, fill_value=7, root=root)


def test_two_writers_of_one_chunk_are_merged_below_it(root):
    hub.array(4, "t/x:v0", str, chunks=4, root=root)
    first, second = hub.load("t/x:v0", root=root), hub.load("t/x:v0", root=root)
    with first.transaction() as mine:
        mine[0] = "mine, which is longer than fifteen letters"
        second[3] = "theirs"
    assert hub.load("t/x:v0", root=root)[...].tolist() == [
        "mine, which is longer than fifteen letters", "", "", "theirs"
    ]  # fmt: skip
    with pytest.raises(hub.errors.ConflictError), first.transaction() as mine:  # noqa: PT012
        mine[0] = "again"
        second[0] = "theirs too"


def test_a_dataset_grows_by_text_and_numbers_together(root):
    names = hub.ArraySpec(0, str, dims=("sample",))
    ds = hub.dataset({"name": names, "x": hub.ArraySpec((0, 2), "f4", dims=("sample", "k"))}, "t/ds:v0", root=root)
    ds.append({"name": NAMES, "x": np.ones((5, 2))})
    assert ds.rows([4, 0])["name"].tolist() == ["🙂", "cat"]


def test_text_that_others_wrote_into_a_zarr_is_imported_as_it_is(root, tmp_path):
    there = zarr.create_array(str(tmp_path / "a.zarr"), shape=(5,), chunks=(2,), dtype="string")
    there[:] = np.array(NAMES, object)
    result = hub.import_(str(tmp_path / "a.zarr"), "t/x:v0", root=root)
    assert (result.dtype, result[...].tolist()) == (TEXT, NAMES)


def test_zarr_reads_and_writes_the_very_chunks(root):
    array = hub.array(5, "t/x:v0", str, chunks=2, root=root)
    array[:] = NAMES
    opened = zarr.open_array(array.to_zarr_store(), mode="r+")
    assert opened[:].tolist() == NAMES
    opened[1:3] = np.array(["by zarr", "too"], object)
    assert hub.load("t/x:v0", root=root)[...].tolist() == ["cat", "by zarr", "too", *NAMES[3:]]


@pytest.mark.parametrize("target", ["a.zarr", "a.h5"])
def test_an_export_gives_the_text_back(root, tmp_path, target):
    array = hub.store(np.array(NAMES, object).reshape(5, 1), "t/x:v0", root=root)
    texts = [name.replace("\0", "") if target == "a.h5" else name for name in NAMES]
    array[3, 0] = texts[3]
    hub.export("t/x:v0", str(tmp_path / target), root=root)
    result = hub.import_(str(tmp_path / target), "t/again:v0", root=root)
    assert result[:, 0].tolist() == texts


def test_npy_has_no_text_of_any_length_and_the_message_says_what_to_do(root, tmp_path):
    hub.array(5, "t/x:v0", str, root=root)
    with pytest.raises(ConfigError, match=r"astype\('U32'\)"):
        hub.export("t/x:v0", str(tmp_path / "a.npy"), root=root)


@pytest.mark.parametrize("codec", [["vlen-utf8", "crc32c"], ["vlen-bytes"], ["sharding_indexed"], "png"], ids=str)
def test_other_chains_are_refused(root, codec):
    with pytest.raises(ConfigError):
        hub.array(5, "t/x:v0", str, codec=codec, root=root)


def test_numbers_take_no_codec_of_text(root):
    with pytest.raises(ConfigError, match="any length"):
        hub.array(5, "t/x:v0", "i4", codec=["vlen-utf8"], root=root)


def wrapped(name, plain):
    """What a stranger's chunk of some bytes is behind a compressor."""
    if name == "none":
        return plain
    row = COMPRESSORS[name]
    settings = dict(NAMED_CHAINS["blosc-lz4"].compressor(np.dtype("u1"))[0]["configuration"]) if name == "blosc" else {}
    return bytes(row.made(settings | ({"level": 3} if name in ("zstd", "gzip") else {})).encode(plain))


@pytest.mark.parametrize("name", ["none", *COMPRESSORS])
@pytest.mark.parametrize(
    "plain",
    [
        b"", b"\1", (3).to_bytes(4, "little"), b"\xff\xff\xff\xff", (2).to_bytes(4, "little") + b"\xff" * 4 + b"abc",
        (2).to_bytes(4, "little") + b"\1\0\0\0\xff\0\0\0\0", b"\2\0\0\0\1\0\0\0a\5\0\0\0a",
    ],
    ids=repr,
)  # fmt: skip
def test_a_strangers_chunk_ends_in_one_error(name, plain):
    codec = {"none": "none", "blosc": "blosc-lz4", "numcodecs.lz4": "lz4"}.get(name, name)
    with pytest.raises(CorruptDataError):
        made(codec, (2,)).decode(wrapped(name, plain), np.empty(2, TEXT))


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_bomb_is_refused_before_it_is_unpacked(name, monkeypatch):
    monkeypatch.setattr(codec_module, "MAX_TEXT_BYTES", 1 << 16)
    codec = {"blosc": "blosc-lz4", "numcodecs.lz4": "lz4"}.get(name, name)
    bomb = wrapped(name, (1).to_bytes(4, "little") + (1 << 20).to_bytes(4, "little") + bytes(1 << 20))
    with pytest.raises(CorruptDataError, match=r"65,?536"):
        made(codec, (1,)).decode(bomb, np.empty(1, TEXT))


def test_a_chunk_of_too_much_text_is_refused_when_it_is_written(root, monkeypatch):
    monkeypatch.setattr(codec_module, "MAX_TEXT_BYTES", 1 << 16)
    array = hub.array(4, "t/x:v0", str, root=root)
    with pytest.raises(ConfigError, match="choose smaller chunks"):
        array[:] = "x" * 20_000
    assert array.commit == 1


def test_a_chunk_has_a_bounded_number_of_texts(root):
    with pytest.raises(ConfigError, match="at most 4,194,304 texts"):
        hub.array(1 << 23, "t/x:v0", str, chunks=1 << 23, root=root)


def test_text_has_no_sum_and_says_so(root):
    array = hub.array(2, "t/x:v0", str, root=root)
    array[:] = ["b", "a"]
    assert (array.min(), array.max()) == ("a", "b")
    with pytest.raises(TypeError, match="text has no mean"):
        array.mean()
    with pytest.raises(ValueError, match="surrogate"):
        array[0] = "\ud800"


def test_a_file_whose_texts_are_all_the_same_long_one_is_no_bomb(root, tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "_MAX_BLOCK_BYTES", 1 << 20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=np.array([["x" * 10_000] * 100], object), dtype=h5py.string_dtype())
    with pytest.raises(hub.errors.SourceError, match="assign them in parts"):
        hub.import_(str(tmp_path / "x.h5"), "t/x:v0", root=root)


def test_the_cache_counts_the_letters_that_lie_elsewhere():
    assert held_bytes(np.array(["x" * 100_000, ""], TEXT)) > 100_000
    assert held_bytes(np.zeros(10)) == 80


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_readers_give_text_as_strings(root, pool):
    hub.store(np.array(NAMES, object), "t/x:v0", root=root)
    with hub.make_reader({"x": "t/x:v0"}, reader_pool_type=pool, root=root) as reader:
        assert [row.x for row in reader] == NAMES
    with hub.make_batch_reader({"x": "t/x:v0"}, root=root) as reader:
        assert [item for batch in reader for item in batch.x] == NAMES


def test_pytorch_gets_text_beside_tensors(root):
    ds = hub.dataset({"name": hub.ArraySpec(0, str, dims=("sample",)), "x": hub.ArraySpec(0, dims=("sample",))}, "t/ds:v0",
                     root=root)  # fmt: skip
    ds.append({"name": NAMES, "x": range(5)})
    rows = ds.to_pytorch()
    assert (rows[0]["name"], rows[0]["x"].item()) == ("cat", 0.0)
    batch = rows.collate(rows.__getitems__([4, 0]))
    assert (batch["name"], batch["x"].tolist()) == (["🙂", "cat"], [4.0, 0.0])
    stream = ds.to_pytorch(iterable=True, batch_size=5, shuffle=False)
    assert next(iter(stream))["name"] == NAMES


def test_tensorflow_gets_text(root):
    array = hub.store(np.array(NAMES, object), "t/x:v0", root=root)
    assert [item.numpy().decode() for item in array.to_tensorflow()] == NAMES


def test_splits_and_balance_go_by_text(root):
    ds = hub.dataset({"name": hub.ArraySpec(0, str, dims=("sample",)), "x": hub.ArraySpec(0, dims=("sample",))}, "t/ds:v0",
                     root=root)  # fmt: skip
    ds.append({"name": [f"drive {i // 10}" for i in range(100)], "x": range(100)})
    parts = hub.split("t/ds:v0", train=0.5, val=0.5, by="name", root=root)
    drives = [set(ds["name"][...][part.positions].tolist()) for part in parts.values()]
    assert not drives[0] & drives[1]
    assert len(drives[0] | drives[1]) == 10
