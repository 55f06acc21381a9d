"""xarray and datasets: what is stored comes back, lazily, in one commit, and through Zarr as through the engine."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from zarr.abc.store import RangeByteRequest

import hubarray as hub

NAME = "lab/climate:v1"


def climate(times=20, first=0):
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), da.random.random((times, 6, 4), chunks=(5, 6, 4)), {"units": "K"}),
            "mask": (("lat", "lon"), np.ones((6, 4), bool)),
            "station": (("s",), np.array(["a", "bcd"], object)),
        },
        coords={
            "time": pd.date_range("2020-01-01", periods=times) + pd.Timedelta(days=first),
            "lat": np.linspace(-90, 90, 6),
            "lon": np.arange(4.0),
            "area": (("lat", "lon"), np.full((6, 4), 2.0)),
        },
        attrs={"title": "a climate"},
    ).compute()


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_dataset_of_xarray_is_stored_in_one_commit_and_comes_back(make_root, kind):
    root, source = make_root(kind), climate()
    ds = hub.store(source.chunk({"time": 5}), NAME, root=root)
    assert (ds.commit, ds.kind, ds.dims["time"], ds["t2m"].chunks[0]) == (1, "dataset", 20, 5)
    back = ds.to_xarray()
    assert back["t2m"].chunks is not None
    xr.testing.assert_identical(back.load(), source.assign(station=source["station"].astype(str)))
    hub.array(3, "lab/array:v1", root=root)
    with pytest.raises(hub.errors.AlreadyExistsError, match="is an array and no dataset"):
        hub.store(source, "lab/array:v1", overwrite=True, root=root)
    again = hub.store(source.assign(t2m=source["t2m"] * 2), NAME, root=root)
    assert again.commit == 2
    assert float(ds.refresh().to_xarray()["t2m"].sum()) == pytest.approx(2 * float(source["t2m"].sum()))
    assert hub.list(root=root) == ["lab/array:v1", NAME]


def test_the_engine_reads_what_is_asked_for(root):
    source = climate()
    hub.store(source, NAME, root=root)
    with xr.open_dataset(NAME, engine="hubarray", root=root) as result:
        xr.testing.assert_equal(result["t2m"].isel(lat=[4, 1], lon=[0, 3, 2], time=slice(2, 9, 3)),
                                source["t2m"].isel(lat=[4, 1], lon=[0, 3, 2], time=slice(2, 9, 3)))  # fmt: skip
        assert result.sel(time="2020-01-05")["t2m"].shape == (6, 4)
        assert result["t2m"].mean().item() == pytest.approx(source["t2m"].mean().item())
    dropped = xr.open_dataset(f"{NAME}@1", engine="hubarray", root=root, drop_variables="mask")
    assert "mask" not in dropped
    hub.array((3, 2), "lab/plain:v1", root=root, dims=("x", None))[:] = 5
    assert float(xr.open_dataset("lab/plain:v1", engine="hubarray", root=root)["plain"].sum()) == 30
    with pytest.raises(hub.errors.NotFoundError):
        xr.open_dataset("lab/nothing:v1", engine="hubarray", root=root)


def test_packed_values_are_stored_packed(root):
    encoding = {"t2m": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -1}}
    source = climate().where(lambda one: one["lon"] > 0)
    ds = hub.store(source[["t2m"]], NAME, encoding=encoding, root=root)
    assert "scale_factor" not in source["t2m"].encoding
    assert ds["t2m"].dtype == np.int16
    xr.testing.assert_allclose(ds.to_xarray().load(), source[["t2m"]], atol=0.01)
    with pytest.raises(hub.errors.ConfigError, match="no variable 'x'"):
        hub.store(source, "lab/x:v1", encoding={"x": {}}, root=root)
    with pytest.raises(hub.errors.ConfigError, match="encoding= is for"):
        hub.store(np.zeros(3), "lab/x:v1", encoding={}, root=root)
    with pytest.raises(hub.errors.ConfigError, match="objects that are not all text"):
        hub.store(xr.Dataset({"x": ("t", np.array(["a", 1], object))}), "lab/x:v1", root=root)
    assert hub.list(root=root) == [NAME]


def test_zarr_reads_and_writes_it_as_a_group(root):
    ds = hub.dataset({}, NAME, root=root)
    source = climate(6).drop_vars("station")
    source.to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
    opened = xr.open_zarr(ds.to_zarr_store(), consolidated=False).load()
    xr.testing.assert_identical(opened, source)
    more = climate(3, 6)[["t2m"]].drop_vars("area")
    more.to_zarr(ds.to_zarr_store(), append_dim="time", consolidated=False)
    assert ds.dims["time"] == 9
    opened = xr.open_zarr(ds.to_zarr_store(), consolidated=False)
    assert (opened["time"].values == pd.date_range("2020-01-01", periods=9).values).all()
    xr.testing.assert_equal(opened["t2m"].isel(time=slice(6, 9)).load().drop_vars("area"), more["t2m"])
    part = (source[["t2m"]].isel(time=slice(1, 3)) * 0 + 7).drop_vars(["time", "lat", "lon", "area"])
    part.to_zarr(ds.to_zarr_store(), region={"time": slice(1, 3)}, consolidated=False)
    assert np.unique(ds["t2m"][1:3]).tolist() == [7]
    commits = ds.commit
    with ds.transaction() as t:
        (part + 1).to_zarr(ds.to_zarr_store(transaction=t), region={"time": slice(1, 3)}, consolidated=False)
    assert ds.commit == commits + 1
    assert np.unique(ds["t2m"][1:3]).tolist() == [8]
    group = zarr.open_group(ds.to_zarr_store(), mode="r")
    assert sorted(name for name, _ in group.arrays()) == sorted(ds)
    assert group["lat"][...].tolist() == source["lat"].values.tolist()
    store, whole = ds.to_zarr_store(), zarr.core.buffer.default_buffer_prototype()
    for key in ("zarr.json", "lat/zarr.json"):
        every = store.get_sync(key, prototype=whole).to_bytes()
        assert store.get_sync(key, prototype=whole, byte_range=RangeByteRequest(3, 9)).to_bytes() == every[3:9]
    group = zarr.open_group(ds.to_zarr_store(), mode="a")
    group.attrs["title"] = "another"
    del group["mask"]
    assert ds.refresh().attrs["title"] == "another"
    assert "mask" not in ds
    source[["mask"]].to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
    assert sorted(ds.refresh()) == ["area", "lat", "lon", "mask"]
    with pytest.raises(ValueError, match="read-only"):
        source.to_zarr(ds.snapshot().to_zarr_store(), mode="w", consolidated=False)


def test_an_append_within_a_transaction_is_one_commit(root):
    ds = hub.dataset({}, NAME, root=root)
    source = climate(6).drop_vars("station")
    source.to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
    before, more = ds.commit, climate(3, 6).drop_vars(["area", "station"])[["t2m"]]
    with ds.transaction("three days more") as t:
        more.to_zarr(ds.to_zarr_store(transaction=t), append_dim="time", consolidated=False)
        assert hub.load(NAME, root=root).dims["time"] == 6, "nobody sees it yet"
    assert ds.refresh().commit == before + 1
    assert ds.dims["time"] == 9
    opened = xr.open_zarr(ds.to_zarr_store(), consolidated=False).load()
    assert (opened["time"].values == pd.date_range("2020-01-01", periods=9).values).all()
    xr.testing.assert_equal(opened["t2m"].isel(time=slice(6, 9)).drop_vars("area"), more["t2m"])
    xr.testing.assert_equal(opened["t2m"].isel(time=slice(0, 6)), source["t2m"])


def test_all_of_it_is_written_anew_within_a_transaction_in_one_commit(root):
    ds = hub.dataset({"gone": hub.ArraySpec(3, dims=("time",))}, NAME, {"by": "me"}, root=root)
    source, before = climate(6).drop_vars("station"), ds.commit
    with ds.transaction("anew") as t:
        source.to_zarr(ds.to_zarr_store(transaction=t), mode="w", consolidated=False)
        inside = xr.open_zarr(ds.to_zarr_store(transaction=t), consolidated=False).load()
        xr.testing.assert_identical(inside, source)
        assert list(hub.load(NAME, root=root)) == ["gone"], "nobody sees it yet"
    assert ds.refresh().commit == before + 1
    xr.testing.assert_identical(xr.open_zarr(ds.to_zarr_store(), consolidated=False).load(), source)
    # Again, over what is there, with more days after it and another variable.
    with ds.transaction("again, and more") as t:
        store = ds.to_zarr_store(transaction=t)
        (source + 1).to_zarr(store, mode="w", consolidated=False)
        climate(3, 6).drop_vars(["area", "station"])[["t2m"]].to_zarr(store, append_dim="time", consolidated=False)
        xr.Dataset({"new": ("lat", np.arange(6.0))}, attrs={"title": "another"}).to_zarr(
            store, mode="a", consolidated=False
        )
    assert ds.refresh().commit == before + 2
    assert (ds.dims["time"], ds["new"][...].tolist(), ds.attrs["title"]) == (9, [0, 1, 2, 3, 4, 5], "another")
    np.testing.assert_allclose(ds["t2m"][:6], source["t2m"] + 1)

    def fail():
        with ds.transaction() as t:
            source.to_zarr(ds.to_zarr_store(transaction=t), mode="w", consolidated=False)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ds.refresh().commit == before + 2


def test_rows_that_others_append_meanwhile_are_a_conflict_with_those_of_a_transaction(root):
    ds = hub.dataset(
        {"x": hub.ArraySpec(3, "i4", dims=("t",)), "y": hub.ArraySpec(3, "i4", dims=("t",))}, NAME, root=root
    )

    def append(beside):
        with ds.transaction() as t:
            write(zarr.open_group(ds.to_zarr_store(transaction=t), mode="a"))
            if beside:
                hub.load(NAME, root=root).append({"x": [1], "y": [2]})

    def write(group):
        for name, value in (("x", 7), ("y", 8)):
            group[name].resize((5,))
            group[name][3:] = value
        with pytest.raises(hub.errors.ConfigError, match="rows that are appended"):
            group["x"].resize((2,))
        # What is refused for one array has grown no other.
        assert group["y"].shape == (5,)

    # Zarr's chunks say where in the array they are, so they cannot move behind others.
    with pytest.raises(hub.errors.ConflictError, match="depends on the shape"):
        append(True)
    assert ds.refresh()["x"][...].tolist() == [0, 0, 0, 1]
    hub.undo(NAME, root=root)
    append(False)
    assert ds.refresh()["x"][...].tolist() == [0, 0, 0, 7, 7]
    assert ds["y"][...].tolist() == [0, 0, 0, 8, 8]


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_variables_are_written_over_in_the_modes_that_keep_the_others(root, mode):
    ds = hub.dataset({}, NAME, root=root)
    source = climate(6).drop_vars("station")
    source.to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
    changed = (source[["t2m"]] + 3).assign(t2m=lambda one: one["t2m"].assign_attrs(source["t2m"].attrs))
    changed.drop_vars("area").to_zarr(ds.to_zarr_store(), mode=mode, consolidated=False)
    opened = xr.open_zarr(ds.to_zarr_store(), consolidated=False).load()
    xr.testing.assert_allclose(opened["t2m"], source["t2m"] + 3)
    xr.testing.assert_identical(opened.drop_vars("t2m"), source.drop_vars("t2m"))
    new = xr.Dataset({"new": ("lat", np.arange(len(source["lat"])))})
    if mode == "a":
        new.to_zarr(ds.to_zarr_store(), mode=mode, consolidated=False)
        assert ds.refresh()["new"][...].tolist() == list(range(len(source["lat"])))
    else:
        with pytest.raises(ValueError, match="r\\+"):
            new.to_zarr(ds.to_zarr_store(), mode=mode, consolidated=False)


@pytest.mark.parametrize(
    "value", ["text", b"bytes", np.array("an object", object), np.array("any", np.dtypes.StringDType()), 2.5, True]
)
def test_single_values_are_written_through_the_group(root, value):
    ds = hub.dataset({}, NAME, root=root)
    source = xr.Dataset({"title": ((), value), "x": ("t", [1, 2])})
    for mode in ("w", "a"):
        source.to_zarr(ds.to_zarr_store(), mode=mode, consolidated=False)
        assert ds.refresh()["title"][()] == value
        opened = xr.open_zarr(ds.to_zarr_store(), consolidated=False)
        assert opened["title"].values[()] == value


def test_an_array_with_coordinates_is_a_dataset_and_one_without_an_array(root):
    source = climate(6)["t2m"]
    ds = hub.store(source, "lab/with:v1", root=root)
    assert {"t2m", "time", "lat", "lon"} <= set(ds)
    with xr.open_dataset("lab/with:v1", engine="hubarray", root=root) as opened:
        xr.testing.assert_allclose(opened["t2m"].drop_vars("area", errors="ignore"),
                                   source.drop_vars("area", errors="ignore"))  # fmt: skip
    assert "value" in hub.store(source.rename(None), "lab/unnamed:v1", root=root)
    assert set(hub.import_(source, "lab/imported:v1", root=root)) == set(ds)
    plain = source.drop_vars(list(source.coords))
    assert hub.store(plain, "lab/plain:v1", root=root).kind == "array"
    # What is the contents of an array that exists stays one.
    assert hub.store(source + 1, "lab/plain:v1", root=root).kind == "array"
    assert np.allclose(hub.load("lab/plain:v1", root=root)[...], source.values + 1)


def test_missing_text_is_stored_as_xarrays_own_backends_store_it(root):
    data = xr.Dataset(
        {
            "text": ("t", np.array(["ab", None, "c"], object)),
            "bytes": ("t", np.array([b"ab", np.nan, b"c"], object)),
            "numbers": ("t", np.array([1, np.nan, 2.5], object)),
        }
    )
    with pytest.warns(UserWarning, match="missing text is stored as empty text"):
        hub.store(data, "lab/missing:v1", root=root)
    result = xr.open_dataset("lab/missing:v1", engine="hubarray", root=root)
    assert result["text"].values.tolist() == ["ab", "", "c"]
    assert result["bytes"].values.tolist() == [b"ab", b"", b"c"]
    assert np.array_equal(result["numbers"].values, [1, np.nan, 2.5], equal_nan=True)
    with pytest.raises(hub.errors.ConfigError, match="not all text"):
        hub.store(data.assign(text=("t", np.array(["a", 1, None], object))), "lab/mixed:v1", root=root)


def test_a_dataset_is_opened_as_it_is_stored_too(root):
    ds = hub.dataset({"x": hub.ArraySpec(3, "i2", dims=("t",), attrs={"scale_factor": 0.5})}, "lab/raw:v1", root=root)
    ds["x"][:] = [1, 2, 3]
    assert ds.to_xarray(decode_cf=False)["x"].values.tolist() == [1, 2, 3]
    assert ds.to_xarray()["x"].values.tolist() == [0.5, 1.0, 1.5]
