"""xarray's own suites of a backend: of Zarr, run against a dataset as a Zarr store, and of CF data, against the engine."""

import contextlib
import inspect
import uuid

import numpy as np
import pytest
import xarray as xr
import zarr
from xarray.tests import test_backends
from xarray.tests.test_backends import CFEncodedBase, ZarrBase

import hubarray as hub

# What xarray asks of other stores than this one.
NOT_OF_DATASETS = {
    "test_group": "a dataset holds arrays, and no groups within it",
    "test_write_persistence_modes": "as test_group, in one of its two cases; the other is in test_xarray.py",
    "test_hidden_zarr_keys": "of Zarr v2, which hides names of dimensions in an attribute",
    "test_read_non_consolidated_warning": "the description of the group has those of all arrays, so nothing is warned of",
    "test_roundtrip_bytes_with_fill_value": "xarray expects it to fail of every Zarr",
    "test_roundtrip_mask_and_scale": "below, with the numbers that xarray writes to Zarr",
    "test_roundtrip_None_variable": "names that begin with __ are reserved by Zarr v3, and refused",
}


def _left_out(suite, names):
    for name, function in inspect.getmembers(suite, inspect.isfunction):
        marks = {mark.name for mark in getattr(function, "pytestmark", ())}
        if name in names or marks & {"skip", "skipif", "xfail"}:
            yield name


class TestDatasetAsZarr(ZarrBase):
    """Each of its tests begins with a new dataset."""

    @pytest.fixture(autouse=True)
    def default_zarr_format(self):
        with zarr.config.set(default_zarr_format=3):
            yield

    @pytest.fixture(params=[False, True])
    def use_dask(self, request):
        return request.param

    @pytest.fixture(params=["s", "ms", "us", "ns"])
    def time_unit(self, request):
        return request.param

    @pytest.fixture(autouse=True)
    def _below(self, root):
        self._root = root

    @contextlib.contextmanager
    def create_zarr_target(self):
        yield hub.dataset({}, f"t/x{uuid.uuid4().hex}:v0", root=self._root).to_zarr_store()

    @pytest.mark.parametrize("kind", ["signed_masked_scaled", "masked_and_scaled"])
    def test_packed_numbers_come_back(self, kind):
        decoded, encoded = (getattr(test_backends, f"create_{how}{kind}_data") for how in ("", "encoded_"))
        CFEncodedBase.test_roundtrip_mask_and_scale(self, decoded, encoded, np.dtype("f8"))


for _name in _left_out(ZarrBase, NOT_OF_DATASETS):
    setattr(TestDatasetAsZarr, _name, None)


# As NOT_OF_DATASETS, of the engine.
NOT_OF_THE_ENGINE = {
    "test_write_store": "of stores that are written to piece by piece, as to_zarr_store() is: above",
    "test_load_async": "the engine reads by threads; what asyncio awaits is to_zarr_store(): above",
    "test_roundtrip_None_variable": "a variable has a name, and one without is refused",
    "test_invalid_dataarray_names_raise": "they are refused by errors of our own: test_xarray.py",
    "test_encoding_kwarg": "as test_invalid_dataarray_names_raise",
    "test_encoding_unlimited_dims": "every dimension may grow, and hub.store takes no names of those that do",
    "test_encoding_kwarg_fixed_width_string": "of netCDF-3, whose text is arrays of single characters",
    "test_roundtrip_string_encoded_characters": "as test_encoding_kwarg_fixed_width_string",
    "test_roundtrip_string_with_fill_value_nchar": "as test_encoding_kwarg_fixed_width_string",
    "test_roundtrip_bytes_with_fill_value": "what is missing of text is empty: test_xarray.py",
    "test_roundtrip_mask_and_scale": "below, with the numbers that attributes of JSON have",
    "test_default_fill_value": "NaN, which says nothing of a float, is left out of the attributes",
    "test_string_object_warning": "objects of Dask that are text are stored without a warning",
}


@contextlib.contextmanager
def roundtrip(root, data, save_kwargs=None, open_kwargs=None):
    name = f"t/x{uuid.uuid4().hex}:v0"
    hub.store(data, name, root=root, **(save_kwargs or {}))
    with xr.open_dataset(name, engine="hubarray", root=root, **(open_kwargs or {})) as result:
        yield result


class TestEngine(CFEncodedBase):
    """What ``hub.store`` writes, ``xr.open_dataset(engine="hubarray")`` reads."""

    @pytest.fixture(params=[False, True])
    def use_dask(self, request):
        return request.param

    @pytest.fixture(params=["s", "ms", "us", "ns"])
    def time_unit(self, request):
        return request.param

    @pytest.fixture(autouse=True)
    def _below(self, root):
        self._root = root

    test_packed_numbers_come_back = TestDatasetAsZarr.test_packed_numbers_come_back

    @contextlib.contextmanager
    def roundtrip(self, data, save_kwargs=None, open_kwargs=None, allow_cleanup_failure=False):
        with roundtrip(self._root, data, save_kwargs, open_kwargs) as result:
            yield result


for _name in _left_out(CFEncodedBase, NOT_OF_THE_ENGINE):
    setattr(TestEngine, _name, None)


@pytest.mark.parametrize(("suite", "names"), [(ZarrBase, NOT_OF_DATASETS), (CFEncodedBase, NOT_OF_THE_ENGINE)])
def test_what_is_left_out_is_there_to_be_left_out(suite, names):
    assert set(names) <= {name for name, _ in inspect.getmembers(suite)}
