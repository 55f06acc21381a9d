"""xarray's own suite of a Zarr backend, run against a dataset as a Zarr store."""

import contextlib
import inspect
import uuid

import numpy as np
import pytest
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


def _left_out():
    for name, function in inspect.getmembers(ZarrBase, inspect.isfunction):
        marks = {mark.name for mark in getattr(function, "pytestmark", ())}
        if name in NOT_OF_DATASETS or marks & {"skip", "skipif", "xfail"}:
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


for _name in _left_out():
    setattr(TestDatasetAsZarr, _name, None)


def test_what_is_left_out_is_there_to_be_left_out():
    assert set(NOT_OF_DATASETS) <= {name for name, _ in inspect.getmembers(ZarrBase)}
