"""Packed arrays: their physical values are what xarray decodes, wherever they are read."""

import numpy as np
import pytest
import xarray as xr

import hubarray as hub

NAME = "lab/packed:v1"
PACKINGS = {
    "scale": ("i2", {"scale_factor": 0.5}),
    "offset": ("i2", {"add_offset": 273.15}),
    "all": ("i2", {"scale_factor": 0.01, "add_offset": -5.0, "_FillValue": -999}),
    "fill alone": ("i4", {"_FillValue": -999}),
    "missing value": ("i4", {"missing_value": -999, "scale_factor": 2.0}),
    "unsigned": ("u1", {"scale_factor": 0.1, "_FillValue": 7}),
    "bytes that are unsigned": ("i1", {"scale_factor": 0.5, "_Unsigned": "true"}),
    "bytes that are signed": ("u1", {"scale_factor": 0.5, "_Unsigned": "false", "_FillValue": -1}),
}


def _packed(root, dtype, attrs, name=NAME, rows=20):
    counts = np.random.default_rng(0).integers(0, 100, (rows, 3)).astype(dtype)
    counts[5] = np.iinfo(dtype).max
    counts[3] = np.array(attrs.get("_FillValue", attrs.get("missing_value", 1))).astype(dtype)
    array = hub.array(counts.shape, name, dtype, chunks=(6, 3), attrs=attrs, dims=("t", "x"), root=root)
    array[...] = counts
    return array, counts


def _as_xarray(counts, attrs):
    return xr.decode_cf(xr.Dataset({"v": (("t", "x"), counts, attrs)}))["v"].values


@pytest.mark.parametrize("packing", PACKINGS)
def test_values_are_those_that_xarray_decodes(packing, root):
    array, counts = _packed(root, *PACKINGS[packing])
    expected = _as_xarray(counts, PACKINGS[packing][1])
    assert "packed" in repr(array)
    assert np.array_equal(array[...], counts)
    assert np.asarray(array.decoded).dtype == array.decoded.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(array.decoded), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(array.decoded[2:9, 1]), expected[2:9, 1], rtol=1e-6)
    np.testing.assert_allclose(array.decoded.to_dask().compute(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.nanmean(array.decoded), np.nanmean(expected), rtol=1e-5)
    np.testing.assert_allclose(np.nanmax(array.decoded), np.nanmax(expected), rtol=1e-6)


def test_readers_take_values_beside_other_arrays(root):
    array, counts = _packed(root, *PACKINGS["all"])
    labels = hub.array(20, "lab/labels:v1", "i8", root=root)
    labels[...] = range(20)
    expected = _as_xarray(counts, PACKINGS["all"][1])
    with hub.make_reader({"v": array.decoded, "label": labels}, shuffle_rows=True, seed=1) as reader:
        rows = {int(item.label): item.v for item in reader}
    assert sorted(rows) == list(range(20))
    for i, row in rows.items():
        np.testing.assert_allclose(row, expected[i])
    with hub.make_reader(array.decoded, shuffle_row_groups=False) as reader:
        np.testing.assert_allclose(np.array([item.value for item in reader]), expected)


def test_frameworks_take_values(root):
    array, counts = _packed(root, *PACKINGS["all"])
    expected = _as_xarray(counts, PACKINGS["all"][1])
    rows = array.decoded.to_pytorch(rows=[5, 3, 4])
    np.testing.assert_allclose(np.stack([rows[i].numpy() for i in range(3)]), expected[[5, 3, 4]])
    both = array.to_pytorch(array.decoded)[7]
    np.testing.assert_allclose(both[1].numpy(), expected[7])
    assert np.array_equal(both[0].numpy(), counts[7])
    stream = array.decoded.to_pytorch(iterable=True, batch_size=5, shuffle=False)
    np.testing.assert_allclose(np.concatenate([item.numpy() for item in stream]), expected)
    result = np.stack([item.numpy() for item in array.decoded.to_tensorflow()])
    np.testing.assert_allclose(result, expected)


def test_a_reader_of_values_goes_on_where_it_was_and_not_where_counts_were(root):
    array, _ = _packed(root, *PACKINGS["all"])
    with hub.make_reader(array.decoded, seed=3, shuffle_rows=True) as reader:
        first = [next(reader).value for _ in range(4)]
        state = reader.state_dict()
        rest = [item.value for item in reader]
    assert len(first) + len(rest) == 20
    with hub.make_reader(array.decoded, seed=3, shuffle_rows=True) as reader:
        reader.load_state_dict(state)
        assert np.array_equal([item.value for item in reader], rest, equal_nan=True)
    with hub.make_reader(array, seed=3, shuffle_rows=True) as reader, pytest.raises(hub.errors.ConfigError):
        reader.load_state_dict(state)


def test_what_is_no_column_is_refused(root):
    array, _ = _packed(root, *PACKINGS["all"])
    with pytest.raises(hub.errors.ConfigError, match="choose with rows="):
        hub.make_reader(array.decoded[2:5])
    with pytest.raises(hub.errors.ConfigError, match="only packed arrays have decoded values"):
        hub.array(3, "lab/plain:v1", root=root).decoded


@pytest.mark.parametrize("scale", [10**400, -(10**400), 1e308, float("inf"), "0.5", [0.5, 0.5], True])
def test_attributes_that_strangers_wrote_decode_to_something(scale, root):
    array, counts = _packed(root, "i2", {"scale_factor": scale, "_FillValue": 5})
    result = np.asarray(array.decoded)
    assert result.shape == counts.shape
    assert np.isnan(result[3]).all()
