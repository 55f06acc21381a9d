"""An array as a Zarr store: zarr-python's own suite as far as one array can hold it, and what is built on it.

The suite stores any bytes under any key. A store that is one array refuses keys that the array does not have and
bytes that are no chunk of it, so the cases below use an array whose chunks are four bytes each, unencoded: there any
four bytes are a chunk. What is left out, and why: keys such as ``foo/c/0.0`` and ``foo`` (they are not the array's),
values of other lengths (they are not chunks). Clearing the store takes effect with the description that is written next.
"""

import asyncio
import pickle

import dask.array as da
import numpy as np
import pytest
import xarray
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.sync import _collect_aiterator
from zarr.testing.store import StoreTests

import hubarray as hub
from hubarray.errors import ConfigError, CorruptDataError, ReadOnlyError
from hubarray.interop.zarr.array_store import HubStore

FOUR = b"\x01\x02\x03\x04"
KEYS = ["c/0/0", "c/0/1", "c/1/0", "c/1/1"]


class TestZarrsOwnSuite(StoreTests[HubStore, cpu.Buffer]):
    store_cls = HubStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, root):
        array = hub.array((2, 8), "t/x:v0", "u1", chunks=(1, 4), codec="none", root=root)
        return {"array": array}

    async def set(self, store, key, value):
        region = store._region(store._place(key))
        store._array[region] = np.frombuffer(value.to_bytes(), "u1").reshape(1, 4)
        store._seen = store._array.snapshot()

    async def get(self, store, key):
        region = store._region(store._place(key))
        return self.buffer_cls.from_bytes(store._array[region].tobytes())

    def test_store_repr(self, store):
        assert "t/x:v0" in repr(store)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    async def test_serializable_store(self, store):
        again = pickle.loads(pickle.dumps(store))
        assert again == store
        assert again.read_only == store.read_only
        await again.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        assert (await again.get("c/0/0", prototype=default_buffer_prototype())).to_bytes() == FOUR

    async def test_with_read_only_store(self, open_kwargs):
        reader = await HubStore.open(**open_kwargs, read_only=True)
        writer = reader.with_read_only(read_only=False)
        await writer.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        with pytest.raises(ValueError, match="read-only mode"):
            await reader.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        with pytest.raises(ValueError, match="read-only mode"):
            await writer.with_read_only(read_only=True).delete("c/0/0")

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize(
        "byte_range", [None, RangeByteRequest(1, 4), OffsetByteRequest(1), SuffixByteRequest(1), RangeByteRequest(0, 0)]
    )
    async def test_get(self, store, key, byte_range):
        await super().test_get(store, key, FOUR, byte_range)

    async def test_get_not_open(self, store_not_open):
        await self.set(store_not_open, "c/0/0", self.buffer_cls.from_bytes(FOUR))
        assert not store_not_open._is_open
        assert (await store_not_open.get("c/0/0", prototype=default_buffer_prototype())).to_bytes() == FOUR

    async def test_get_raises(self, store):
        await self.set(store, "c/0/0", self.buffer_cls.from_bytes(FOUR))
        with pytest.raises(ValueError, match="Unexpected byte_range"):
            await store.get("c/0/0", prototype=default_buffer_prototype(), byte_range=(0, 2))

    async def test_get_many(self, store):
        for n, key in enumerate(KEYS):
            await self.set(store, key, self.buffer_cls.from_bytes(bytes([n + 1]) * 4))
        expected = [(key, default_buffer_prototype(), None) for key in KEYS]
        result = {key: data.to_bytes() for key, data in await _collect_aiterator(store._get_many(expected))}
        assert result == {key: bytes([n + 1]) * 4 for n, key in enumerate(KEYS)}

    @pytest.mark.parametrize("key", KEYS)
    async def test_getsize(self, store, key):
        await super().test_getsize(store, key, FOUR)

    @pytest.mark.parametrize("key", KEYS)
    async def test_set(self, store, key):
        await super().test_set(store, key, FOUR)

    async def test_set_not_open(self, store_not_open):
        await store_not_open.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        assert (await self.get(store_not_open, "c/0/0")).to_bytes() == FOUR

    async def test_set_many(self, store):
        await store._set_many([(key, self.buffer_cls.from_bytes(FOUR)) for key in KEYS])
        assert all([(await self.get(store, key)).to_bytes() == FOUR for key in KEYS])

    async def test_get_partial_values(self, store):
        await self.set(store, "c/0/0", self.buffer_cls.from_bytes(FOUR))
        spans = [
            ("c/0/0", None),
            ("c/0/0", RangeByteRequest(1, 3)),
            ("c/1/1", None),
            ("zarr.json", SuffixByteRequest(1)),
        ]
        result = await store.get_partial_values(default_buffer_prototype(), spans)
        assert [None if item is None else item.to_bytes() for item in result] == [FOUR, FOUR[1:3], None, b"}"]

    async def test_exists(self, store):
        assert not await store.exists("c/0/0")
        await store.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        assert await store.exists("c/0/0")
        assert await store.exists("zarr.json")

    async def test_delete(self, store):
        await store.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        await store.delete("c/0/0")
        assert not await store.exists("c/0/0")

    async def test_delete_nonexistent_key_does_not_raise(self, store):
        await store.delete("c/1/1")
        await store.delete("nonexistent")

    async def test_is_empty(self, store):
        assert not await store.is_empty("")
        assert await store.is_empty("c")

    async def test_list(self, store):
        assert await _collect_aiterator(store.list()) == ("zarr.json",)
        await store.set("c/1/0", self.buffer_cls.from_bytes(FOUR))
        assert await _collect_aiterator(store.list()) == ("zarr.json", "c/1/0")

    async def test_list_prefix(self, store):
        for key in KEYS:
            await store.set(key, self.buffer_cls.from_bytes(FOUR))
        assert await _collect_aiterator(store.list_prefix("c/1")) == ("c/1/0", "c/1/1")

    async def test_list_empty_path(self, store):
        assert await _collect_aiterator(store.list_prefix("")) == ("zarr.json",)

    async def test_list_dir(self, store):
        for key in KEYS:
            await store.set(key, self.buffer_cls.from_bytes(FOUR))
        assert await _collect_aiterator(store.list_dir("")) == ("zarr.json", "c")
        assert await _collect_aiterator(store.list_dir("c")) == ("0", "1")
        assert await _collect_aiterator(store.list_dir("c/0/")) == ("0", "1")

    async def test_set_if_not_exists(self, store):
        await store.set_if_not_exists("c/0/0", self.buffer_cls.from_bytes(FOUR))
        await store.set_if_not_exists("c/0/0", self.buffer_cls.from_bytes(b"\x09" * 4))
        assert (await self.get(store, "c/0/0")).to_bytes() == FOUR

    async def test_set_invalid_buffer(self, store):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            await store.set("c/0/0", 0)

    async def test_delete_dir(self, store):
        for key in KEYS:
            await store.set(key, self.buffer_cls.from_bytes(FOUR))
        await store.delete_dir("c/0")
        assert await _collect_aiterator(store.list()) == ("zarr.json", "c/1/0", "c/1/1")

    async def test_clear(self, store):
        await store.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        described = await store.get("zarr.json", default_buffer_prototype())
        await store.delete_dir("")
        assert not await store.exists("c/0/0")
        assert not await store.exists("zarr.json")
        assert await _collect_aiterator(store.list()) == ()
        assert not store._array.root.store.read_only
        assert store._array.commit == 2
        await store.set("zarr.json", described)
        assert await _collect_aiterator(store.list()) == ("zarr.json",)

    # Helpers that Zarr 3.4 no longer has.
    if hasattr(Store, "_get_bytes"):

        async def test_get_bytes(self, store):
            assert (await store._get_bytes("zarr.json", prototype=default_buffer_prototype())).startswith(b"{")
            with pytest.raises(FileNotFoundError):
                await store._get_bytes("nonexistent_key", prototype=default_buffer_prototype())

        def test_get_bytes_sync(self, store):
            store.set_sync("c/0/0", self.buffer_cls.from_bytes(FOUR))
            assert store._get_bytes_sync("c/0/0", prototype=default_buffer_prototype()) == FOUR

        async def test_get_json(self, store):
            assert (await store._get_json("zarr.json", prototype=default_buffer_prototype()))["node_type"] == "array"

        def test_get_json_sync(self, store):
            assert store._get_json_sync("zarr.json", prototype=default_buffer_prototype())["zarr_format"] == 3

    async def test_getsize_prefix(self, store):
        await store._set_many([(key, self.buffer_cls.from_bytes(FOUR)) for key in KEYS])
        assert await store.getsize_prefix("c") == 4 * len(KEYS)
        assert await store.getsize_prefix("cc") == 0

    @pytest.mark.parametrize("direction", ["set_async_get_sync", "set_sync_get_async"])
    async def test_sync_async_set_get_parity(self, store, direction):
        data = self.buffer_cls.from_bytes(FOUR)
        if direction == "set_async_get_sync":
            await store.set("c/0/0", data)
            result = store.get_sync("c/0/0")
        else:
            store.set_sync("c/0/0", data)
            result = await store.get("c/0/0", prototype=default_buffer_prototype())
        assert result.to_bytes() == FOUR

    async def test_delete_sync_visible_to_async_get(self, store):
        await store.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        store.delete_sync("c/0/0")
        assert await store.get("c/0/0", prototype=default_buffer_prototype()) is None

    @pytest.mark.parametrize(
        "byte_range",
        [None, RangeByteRequest(1, 4), OffsetByteRequest(1), SuffixByteRequest(1), RangeByteRequest(10, 20)],
    )
    async def test_get_sync_byte_range_parity(self, store, byte_range):
        await store.set("c/0/0", self.buffer_cls.from_bytes(FOUR))
        result = store.get_sync("c/0/0", byte_range=byte_range)
        again = await store.get("c/0/0", prototype=default_buffer_prototype(), byte_range=byte_range)
        assert result.to_bytes() == again.to_bytes()

    def test_get_sync(self, store):
        store.set_sync("c/0/1", self.buffer_cls.from_bytes(FOUR))
        assert self._require_get_sync(store).get_sync("c/0/1").to_bytes() == FOUR

    def test_set_sync(self, store):
        self._require_set_sync(store).set_sync("c/1/1", self.buffer_cls.from_bytes(FOUR))
        assert store._array[1, 4:].tobytes() == FOUR

    def test_delete_sync(self, store):
        store.set_sync("c/1/1", self.buffer_cls.from_bytes(FOUR))
        self._require_delete_sync(store).delete_sync("c/1/1")
        assert store.get_sync("c/1/1") is None


@pytest.fixture
def pair(any_root):
    values = np.random.default_rng(0).normal(size=(50, 20)).astype("f4")
    array = hub.array(values.shape, "t/field:v0", "f4", chunks=(8, 7), root=any_root, attrs={"unit": "mm"})
    array[...] = values
    return array, values


def test_zarr_reads_writes_and_resizes_by_way_of_it(pair):
    array, values = pair
    opened = zarr.open_array(array.to_zarr_store(), mode="r+")
    assert np.array_equal(opened[...], values)
    assert dict(opened.attrs) == {"unit": "mm"}
    opened[3:30, 5] = 4
    values[3:30, 5] = 4
    opened.attrs["sensor"] = "a"
    opened.append(np.ones((3, 20), "f4"))
    again = hub.load("t/field:v0", root=array.root)
    assert np.array_equal(again[...], np.concatenate([values, np.ones((3, 20), "f4")]))
    assert dict(again.attrs) == {"unit": "mm", "sensor": "a"}
    opened.resize((40, 20))
    assert hub.load("t/field:v0", root=array.root).shape == (40, 20)


def test_xarray_and_dask_read_it(pair):
    array, values = pair
    dataset = xarray.open_zarr(array.to_zarr_store(variable="field"), consolidated=False)
    np.testing.assert_allclose(dataset.field.mean("dim_1"), values.mean(1), rtol=1e-5)
    array.attrs["dimension_names"] = ["time", "place"]
    dataset = xarray.open_zarr(array.to_zarr_store(variable="field"), consolidated=False)
    assert dataset.field.dims == ("time", "place")
    opened = da.from_zarr(zarr.open_array(array.to_zarr_store(), mode="r"))
    assert np.array_equal(opened.compute(), values)


def test_a_store_stays_at_its_commit_and_moves_by_its_own_writes_only(pair):
    array, values = pair
    opened = zarr.open_array(array.to_zarr_store(), mode="r+")
    array[...] = 0
    assert np.array_equal(opened[...], values)
    opened[0, 0] = 1
    assert opened[40, 10] == 0


def test_a_fixed_commit_is_read_only(pair):
    array, _ = pair
    store = array.snapshot().to_zarr_store()
    assert store.read_only
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(store, mode="r+")[0, 0] = 1
    with pytest.raises(ReadOnlyError):
        HubStore(array.snapshot(), read_only=False)


def test_what_the_array_cannot_hold_is_refused_and_nothing_changes(pair):
    array, values = pair
    store = array.to_zarr_store()
    for key, data, words in [
        ("foo", b"x", "no such key"),
        ("c/100/0", b"x", "outside the array"),
        ("c/0/0", b"not blosc", "not a chunk"),
    ]:
        with pytest.raises(ConfigError, match=words):
            zarr.core.sync.sync(store.set(key, cpu.Buffer.from_bytes(data)))
    with pytest.raises(ConfigError, match="can change the shape and the attributes only"):
        zarr.core.sync.sync(
            store.set("zarr.json", cpu.Buffer.from_bytes(store._bytes("zarr.json").replace(b"[8, 7]", b"[5, 5]")))
        )
    with pytest.raises(ConfigError, match=r"hub\.delete"):
        zarr.core.sync.sync(store.delete("zarr.json"))
    with pytest.raises(ConfigError, match="one name"):
        array.to_zarr_store(variable="a/b")
    assert array.commit == 2
    assert np.array_equal(array[...], values)


def test_a_damaged_chunk_is_an_error_and_no_fill_value(root, forget):
    array = hub.array((4, 100), "t/x:v0", "i4", chunks=(1, 100), root=root)
    array[...] = 7
    forget()
    (pack,) = root.store.list("t/x/packs/")
    data = bytearray(root.store.get(pack.key))
    data[10] ^= 255
    root.store.put(pack.key, bytes(data))
    with pytest.raises(CorruptDataError, match="packs"):
        zarr.open_array(hub.load("t/x:v0", root=root).to_zarr_store(), mode="r")[...]


def test_writers_that_opened_earlier_lose_nobodys_elements(root):
    array = hub.array(64, "t/x:v0", "i8", chunks=64, root=root)
    opened = [zarr.open_array(array.to_zarr_store(), mode="r+") for _ in range(4)]
    array[1] = 111
    for i, item in enumerate(opened):
        item[16 * i + 2 : 16 * i + 10] = i + 1
    expected = np.zeros(64, "i8")
    expected[1] = 111
    for i in range(4):
        expected[16 * i + 2 : 16 * i + 10] = i + 1
    assert np.array_equal(hub.load("t/x:v0", root=root)[...], expected)


def _dataset(values, **attrs):
    import xarray

    return xarray.Dataset({"v": (("t", "x"), values, attrs)})


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_xarray_writes_back_by_all_its_modes(make_root, kind):
    root = make_root(kind)
    array = hub.array((10, 4), "t/x:v0", "f4", chunks=(5, 4), dims=("t", "x"), root=root)
    expected = np.ones((10, 4), "f4")

    def store():
        return hub.load("t/x:v0", root=root).to_zarr_store(variable="v")

    _dataset(expected).to_zarr(store(), mode="a", consolidated=False)
    assert np.array_equal(array.refresh()[...], expected)
    expected[2:7] = 5
    _dataset(expected[2:7]).to_zarr(store(), region={"t": slice(2, 7)}, consolidated=False)
    assert np.array_equal(array.refresh()[...], expected)
    _dataset(expected).to_zarr(store(), append_dim="t", consolidated=False)
    assert np.array_equal(array.refresh()[...], np.concatenate([expected, expected]))
    before = array.commit
    other = np.arange(6.0).reshape(3, 2)
    _dataset(other, units="K").to_zarr(store(), mode="w", consolidated=False)
    again = hub.load("t/x:v0", root=root)
    assert np.array_equal(again[...], other)
    assert (again.dtype, again.dims, dict(again.attrs)) == (np.dtype("f8"), ("t", "x"), {"units": "K"})
    assert hub.load(f"t/x:v0@{before}", root=root).shape == (20, 4)


def test_the_group_that_is_made_up_is_written_without_a_request(root):
    hub.array((10, 4), "t/x:v0", "f4", root=root)
    store = hub.load("t/x:v0", root=root).to_zarr_store(variable="v")
    group = asyncio.run(store.get("zarr.json", default_buffer_prototype()))
    # As by another thread, whose array is another one from then on.
    hub.array((3, 2), "t/x:v0", "f4", overwrite=True, root=root)
    before = root.store.stats.requests
    asyncio.run(store.set("zarr.json", group))
    assert root.store.stats.requests == before


def test_what_is_written_inside_a_transaction_is_one_commit_or_none(root):
    array = hub.array((10, 4), "t/x:v0", "f4", chunks=(5, 4), dims=("t", "x"), root=root)
    values = np.ones((10, 4), "f4")
    with array.transaction("by xarray") as t:
        inside = array.to_zarr_store(variable="v", transaction=t)
        _dataset(values).to_zarr(inside, mode="r+", consolidated=False)
        _dataset(values[3:8] * 2).to_zarr(inside, region={"t": slice(3, 8)}, consolidated=False, safe_chunks=False)
        assert hub.load("t/x:v0", root=root).commit == 1
    values[3:8] = 2
    assert array.commit == 2
    assert np.array_equal(array[...], values)

    def break_off():
        with array.transaction() as t:
            _dataset(values * 9).to_zarr(
                array.to_zarr_store(variable="v", transaction=t), mode="r+", consolidated=False
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert np.array_equal(array[...], values)
    with array.transaction() as t:
        store = array.to_zarr_store(transaction=t)
        for change in (
            lambda: zarr.open_array(store, mode="r+").resize((8, 4)),
            lambda: zarr.open_array(store, mode="r+").resize((20, 5)),
            lambda: zarr.create_array(store, shape=(3, 3), dtype="f4", overwrite=True),
        ):
            with pytest.raises(ConfigError, match="a transaction keeps"):
                change()
    assert array.commit == 2
    with array.transaction() as t:
        opened = zarr.open_array(array.to_zarr_store(transaction=t), mode="r+")
        opened.resize((13, 4))
        opened[9:] = 5
        assert opened[8:10].tolist() == [[1] * 4, [5] * 4]
    assert array.commit == 3
    assert array[8:].tolist() == [[1] * 4] + [[5] * 4] * 4


def test_attributes_that_cannot_be_kept_are_refused_and_not_dropped(root):
    array = hub.array((4, 3), "t/x:v0", "f4", dims=("t", "x"), attrs={"k": 1}, root=root)
    with array.transaction() as t:
        group = zarr.open_group(array.to_zarr_store(variable="v", transaction=t), mode="r+")
        group["v"].attrs["k"] = 2
        group["v"][0] = 5
        assert zarr.open_group(array.to_zarr_store(variable="v", transaction=t), mode="r")["v"].attrs["k"] == 2
        assert array.attrs["k"] == 1, "nobody sees it yet"
    assert (array.refresh().commit, dict(array.attrs), array[0].tolist()) == (2, {"k": 2}, [5, 5, 5])
    titled = _dataset(np.ones((4, 3), "f4")).assign_attrs(title="a study")
    for mode in ("w", "a"):
        with pytest.raises(ConfigError, match="keeps no attributes"):
            titled.to_zarr(array.to_zarr_store(variable="v"), mode=mode, consolidated=False)
    assert (array.refresh().commit, dict(array.attrs)) == (2, {"k": 2})
