"""Statistics of an array are NumPy's, without the array in memory."""

import multiprocessing
import sys
import tracemalloc

import dask
import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError
from hubarray.interop.statistics import order_statistics
from hubarray.interop.statistics.lazy import LazyView

DTYPES = ("f4", "f8", "f2", "i2", "u1", "i8", "bool")
REDUCTIONS = ("mean", "std", "var", "sum", "prod", "min", "max", "any", "all")


def values_of(dtype, shape=(37, 11, 5), seed=0):
    values = np.random.default_rng(seed).normal(0, 40, shape)
    return (values > 20) if dtype == "bool" else (abs(values) if dtype[0] == "u" else values).astype(dtype)


@pytest.fixture(params=DTYPES)
def pair(request, root):
    values = values_of(request.param)
    array = hub.array(values.shape, f"t/{request.param}:v0", values.dtype, chunks=(8, 4, 5), root=root)
    array[...] = values
    return array, values


def same(found, expected):
    assert np.shape(found) == np.shape(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    if np.asarray(expected).dtype.kind == "f":
        tolerance = 50 * np.finfo(np.asarray(expected).dtype).eps
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys_in_value_shape_and_dtype(pair, name, axis):
    array, values = pair
    if name == "prod":
        array, values = array.lazy[:3, :2, :2], values[:3, :2, :2]
    # Sums in half precision overflow, or round by their order, which is not defined; in double they do not.
    summing = name in ("mean", "std", "var", "sum", "prod")
    options = {"dtype": "f8"} if values.dtype == np.float16 and summing else {}
    for keepdims in (False, True):
        expected = getattr(np, name)(values, axis=axis, keepdims=keepdims, **options)
        same(getattr(array, name)(axis=axis, keepdims=keepdims, **options), expected)
        same(getattr(np, name)(array, axis=axis, keepdims=keepdims, **options), expected)


@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_the_first_extreme_is_found_also_among_equals_and_nans(pair, name, axis):
    array, values = pair
    same(getattr(array, name)(axis), getattr(np, name)(values, axis))
    if values.dtype.kind == "f":
        values[20, 5, 2] = values[30, 1, 1] = np.nan
        array[...] = values
        same(getattr(array, name)(axis), getattr(np, name)(values, axis))


def test_nans_are_kept_as_numpy_keeps_them(root):
    values = values_of("f8")
    values[3, 2, 1] = np.nan
    array = hub.array(values.shape, "t/nan:v0", "f8", chunks=(8, 4, 5), root=root)
    array[...] = values
    for name in ("mean", "max", "min", "sum"):
        same(getattr(np, name)(array, axis=0), getattr(np, name)(values, axis=0))
        assert np.isnan(getattr(array, name)())


@pytest.mark.parametrize("name", ["nanmean", "nanstd", "nanvar", "nansum", "nanprod", "nanmin", "nanmax"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "bool"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nans_are_passed_over_block_by_block(root, name, dtype, monkeypatch):
    values = values_of(dtype, (20, 6, 3))
    if dtype[0] == "f":
        values[::3, 1] = values[5] = values[:, 2, 0] = np.nan
    if name == "nanprod":
        values = values[:5, :3]
    array = hub.array(values.shape, "t/nan:v0", values.dtype, chunks=(4, 3, 3), root=root)
    array[...] = values
    monkeypatch.setattr(hub.Array, "__array__", None)
    for axis in (None, 0, (1, 2)):
        same(getattr(np, name)(array, axis), getattr(np, name)(values, axis))
        same(getattr(np, name)(array.lazy[2:], axis=axis), getattr(np, name)(values[2:], axis=axis))


@pytest.mark.parametrize("name", ["std", "var", "nanstd", "nanvar"])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_no_degree_of_freedom_is_left_it_is_as_numpy_has_it(root, name, dtype, axis):
    values = values_of(dtype, (5, 3))
    values[:, 1] = 7
    if dtype == "f4" and name[0] == "n":
        values[2:, 0] = np.nan
    array = hub.array(values.shape, "t/x:v0", dtype, chunks=(2, 3), root=root)
    array[...] = values
    for ddof in (1, 2, 5, 15, 20):
        same(getattr(np, name)(array, axis=axis, ddof=ddof), getattr(np, name)(values, axis=axis, ddof=ddof))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("method", order_statistics.QUANTILE_METHODS)
def test_quantiles_are_exactly_numpys(pair, method, large, monkeypatch):
    array, values = pair
    if large:
        monkeypatch.setattr(order_statistics, "_IN_MEMORY_BYTES", 0)
    if values.dtype == bool and method in ("linear", "midpoint"):
        values, array = values.astype("u1"), hub.store(array.to_dask().astype("u1"), "t/u1:v1", root=array.root)
    for q in (0.5, [0, 0.013, 0.25, 0.9, 1], np.linspace(0, 1, 23)):
        exact = np.quantile(values.astype("f8") if large else values, q, method=method)
        same(array.quantile(q, method=method), exact.astype(np.quantile(values, q, method=method).dtype))
        for axis in (0, (1, 2)):
            for keepdims in (False, True):
                expected = np.quantile(values, q, axis=axis, method=method, keepdims=keepdims)
                if large and isinstance(q, float):
                    # NumPy takes the quantile's place in the elements' own precision; blocks are given all of it.
                    exact = np.quantile(values.astype("f8"), q, axis=axis, method=method, keepdims=keepdims)
                    expected = exact.astype(expected.dtype)
                same(array.quantile(q, axis, method=method, keepdims=keepdims), expected)
    same(np.percentile(array, 99, method=method), np.percentile(values, 99, method=method))
    if values.dtype.kind == "f":
        values[1, 1, 1] = np.nan
        array[...] = values
        assert np.isnan(array.median())


def test_medians_and_histograms_are_numpys(pair):
    array, values = pair
    if values.dtype != bool:
        same(np.median(array), np.median(values))
        for options in ({}, {"bins": 7, "range": (-50, 60)}, {"bins": [0, 1, 5, 100]}, {"density": True}):
            for result, expected in zip(np.histogram(array, **options), np.histogram(values, **options), strict=True):
                np.testing.assert_allclose(result, expected)


def test_a_lazy_view_is_a_part_of_one_commit(root):
    array = hub.array((100, 8), "t/x:v0", "i8", chunks=(7, 3), root=root)
    array[...] = np.arange(800).reshape(100, 8)
    view = array.lazy[5:90:3, ..., ::-1][2:, 1:5]
    expected = np.arange(800).reshape(100, 8)[5:90:3, ..., ::-1][2:, 1:5]
    array[...] = 0
    assert view.shape == expected.shape
    assert view.sum() == expected.sum()
    assert np.array_equal(np.asarray(view), expected)
    assert np.array_equal(view.to_dask(block_bytes=64).compute(), expected)
    assert array.lazy[3, 4].mean() == 0


def test_a_small_view_of_an_endless_array_costs_what_it_shows(root):
    array = hub.array((10**12, 1000, 1000), "t/endless:v0", "f4", chunks=(1, 100, 100), root=root)
    array[10**11, :100, :100] = 2
    assert array.lazy[10**11 - 5 : 10**11 + 5, :100, :100].mean() == pytest.approx(0.2)


def test_statistics_hold_blocks_and_not_the_array(root):
    hub.configure(memory_cache_bytes=16 << 20)
    array = hub.array((64, 1 << 20), "t/large:v0", "f8", chunks=(1, 1 << 20), root=root)
    with array.transaction() as t:
        for i in range(64):
            t[i] = i
    tracemalloc.start()
    try:
        assert array.lazy.to_dask(block_bytes=8 << 20).mean().compute() == 31.5
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 4
    finally:
        tracemalloc.stop()


def test_questions_about_the_shape_read_nothing_and_other_functions_read_all(root):
    array = hub.array((10**9, 10), "t/wide:v0", "f4", root=root)
    assert (np.shape(array), np.ndim(array), np.size(array)) == ((10**9, 10), 2, 10**10)
    small = hub.array((4, 3), "t/small:v0", "i4", root=root)
    small[...] = np.arange(12).reshape(4, 3)
    assert np.array_equal(np.concatenate([small, small], axis=1)[:, 3:], small[...])
    assert np.array_equal(np.transpose(small), small[...].T)
    assert np.array_equal(np.asarray(small, dtype="f8"), small[...])


def test_arithmetic_is_refused_by_name(root):
    array = hub.array((4, 3), "t/small:v0", "i4", root=root)
    with pytest.raises(TypeError, match=r"np\.add would have to read the whole array"):
        np.add(array, 1)
    with pytest.raises(TypeError, match="read"):
        np.ones(3) + array


def test_bad_requests_are_refused_clearly(root):
    array = hub.array((4, 3), "t/small:v0", "i4", root=root)
    text = hub.array(3, "t/text:v0", "U5", root=root)
    with pytest.raises(ConfigError, match="method='median_unbiased'"):
        array.quantile(0.5, method="median_unbiased")
    with pytest.raises(ConfigError, match="not defined"):
        text.quantile(0.5)
    with pytest.raises(ConfigError, match="bins='auto'"):
        array.histogram("auto")
    with pytest.raises(ValueError, match="Quantiles must be in the range"):
        array.quantile(1.5)
    with pytest.raises(TypeError, match=r"np\.mean .* takes axis, dtype, out, keepdims, and not where"):
        np.mean(array, where=np.ones(3, bool))
    with pytest.raises(IndexError, match="lazy view takes"):
        array.lazy[[1, 2]]


def test_out_is_filled_and_says_how_it_is_added_up(root):
    array = hub.array((4, 3), "t/small:v0", "i8", chunks=(2, 3), root=root)
    array[...] = 2**62
    out = np.zeros(3)
    assert np.sum(array, axis=0, out=out) is out
    assert np.median(array, out=None, overwrite_input=False) == np.median(array[...])
    assert out.tolist() == [2.0**64] * 3
    for refused, error in [
        (lambda: np.sum(array, axis=0, out=np.zeros((3, 4))), ValueError),
        (lambda: np.std(array, axis=0, out=np.zeros(3, "i8")), TypeError),
        (lambda: np.argmax(array, axis=0, out=np.zeros(3)), TypeError),
        (lambda: array.sum(axis=0, out=[0, 0, 0]), TypeError),
        (lambda: array.lazy[0, 0].argmin(out=[0]), TypeError),
    ]:
        with pytest.raises(error, match="out="):
            refused()


def test_durations_are_added_up(root):
    values = np.arange(12).reshape(4, 3).astype("m8[s]")
    array = hub.array((4, 3), "t/durations:v0", "m8[s]", chunks=(2, 3), root=root)
    array[...] = values
    for name in ("sum", "mean", "min", "max", "nansum"):
        for axis in (None, 0):
            assert np.array_equal(getattr(np, name)(array, axis), getattr(np, name)(values, axis))


def test_statistics_work_in_a_forked_child(root):
    array = hub.array((100, 4), "t/x:v0", chunks=(10, 4), root=root)
    array[...] = 1
    assert array.mean() == 1
    child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(int(array.mean() * 7)))
    child.start()
    child.join(30)
    child.kill()
    assert child.exitcode == 7


@pytest.mark.parametrize("scheduler", ["threads", "processes", "synchronous"])
def test_dasks_schedulers_are_used_where_one_is_chosen(root, scheduler):
    array = hub.array((100, 4), "t/x:v0", chunks=(10, 4), root=root)
    array[...] = 2
    with dask.config.set(scheduler=scheduler):
        assert array.mean() == 2


def test_a_statistic_may_be_computed_within_another_ones_blocks(root):
    array = hub.array((64, 4), "t/x:v0", chunks=(1, 4), root=root)
    array[...] = 2
    blocks = array.lazy.to_dask(block_bytes=32).map_blocks(lambda block: block * float(array.mean()), dtype="f8")
    assert hub.store(blocks, "t/y:v0", root=root).sum() == 64 * 4 * 4


@pytest.mark.parametrize("axis", [0, 2, (0, 2), (0, 1, 2)])
def test_quantiles_along_axes_of_the_largest_arrays_hold_columns_only(pair, axis, monkeypatch):
    array, values = pair
    monkeypatch.setattr(order_statistics, "_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(order_statistics, "_REARRANGED_BYTES", 0)
    monkeypatch.setattr(order_statistics, "_COLUMN_BYTES", 500)
    real, held = LazyView.__array__, []

    def read(view, *options, **named):
        held.append(view.size * view.dtype.itemsize)
        return real(view, *options, **named)

    monkeypatch.setattr(LazyView, "__array__", read)
    for view, expected in ((array, values), (array.lazy[::-2, 1:], values[::-2, 1:])):
        for q in (0.5, [0.1, 0.9]):
            same(
                np.quantile(view, q, axis=axis, method="nearest"), np.quantile(expected, q, axis=axis, method="nearest")
            )
    if values.dtype != bool and axis != (0, 1, 2):
        depth = np.prod([values.shape[i] for i in np.atleast_1d(axis)]) * values.dtype.itemsize
        assert max(held) <= max(500, depth)


@pytest.mark.parametrize("large", [False, True])
def test_axes_that_are_not_there_are_numpys_error(root, large, monkeypatch):
    if large:
        monkeypatch.setattr(order_statistics, "_IN_MEMORY_BYTES", 0)
    array = hub.array((4, 3), "t/small:v0", "f4", root=root)
    for call in (lambda axis: np.median(array, axis=axis), lambda axis: np.quantile(array, 0.5, axis=axis), array.sum):
        for axis in (2, -3, (0, 5)):
            with pytest.raises(np.exceptions.AxisError):
                call(axis)


def test_whole_quantiles_of_infinities_are_the_extremes(root, monkeypatch):
    monkeypatch.setattr(order_statistics, "_IN_MEMORY_BYTES", 0)
    for dtype in ("f4", "i1"):
        values = values_of(dtype, (20,))
        if dtype == "f4":
            values[3], values[4] = np.inf, -np.inf
        array = hub.array(20, f"t/{dtype}:v0", dtype, chunks=6, root=root)
        array[...] = values
        least, greatest = values.min(), values.max()
        for q, extremes in ((0, least), (1, greatest), ([0, 1], [least, greatest])):
            # Older releases of NumPy interpolate here too, and have nan.
            same(np.quantile(array, q), np.array(extremes).astype(np.quantile(values, q).dtype)[()])
        for q in (np.float32(0.25), np.array([0.5], "f4")):
            same(np.quantile(array, q), np.quantile(values, q))


@pytest.mark.parametrize("large", [False, True])
def test_medians_are_numpys_also_at_the_edges_of_a_type(root, large, monkeypatch):
    if large:
        monkeypatch.setattr(order_statistics, "_IN_MEMORY_BYTES", 0)
    for n, values in enumerate([
        np.array([-128, 127], "i1"), np.array([[100, -100], [-128, 127]], "i1"), np.array([-np.inf, 1, np.inf]),
        np.array([np.inf] * 4), np.array([-1.7e308, 1.7e308]), np.array([True, False, True]), np.array([1.0, np.nan]),
    ]):  # fmt: skip
        array = hub.array(values.shape, f"t/m{n}:v0", values.dtype, chunks=1, root=root)
        array[...] = values
        for axis in (None, 0, -1):
            for keepdims in (False, True):
                same(array.median(axis, keepdims=keepdims), np.median(values, axis, keepdims=keepdims))


def test_half_precision_does_not_overflow_on_the_way(root):
    values = np.random.default_rng(0).normal(100, 1, (4000, 3)).astype("f2")
    array = hub.array(values.shape, "t/half:v0", "f2", chunks=(100, 3), root=root)
    array[...] = values
    for name in ("mean", "std", "var"):
        for axis in (None, 0):
            result, expected = getattr(array, name)(axis), getattr(values.astype("f8"), name)(axis)
            assert np.asarray(result).dtype == np.float16
            np.testing.assert_allclose(np.asarray(result, "f8"), expected, rtol=2e-3)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), ()])
@pytest.mark.parametrize("axis", [None, 0, -1, ()])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_empty_arrays_and_single_values_do_as_numpy_does(root, shape, axis):
    values = np.ones(shape)
    array = hub.array(shape, f"t/e{len(shape)}x{sum(shape)}:v0", "f8", root=root, overwrite=True)
    array[...] = values
    for name in ("mean", "sum", "min", "max", "any", "median"):
        try:
            expected = getattr(np, name)(values, axis=axis)
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                getattr(array, name)(axis=axis)
        else:
            same(getattr(array, name)(axis=axis), expected)


def test_a_view_refuses_what_an_array_refuses(root):
    view = hub.array((4, 3), "t/small:v0", "i4", root=root).lazy[1:]
    for refused in (lambda: bool(view), lambda: view == 0, lambda: view + 1, lambda: np.sqrt(view), lambda: 3 in view):
        with pytest.raises(TypeError, match=r"read|truth"):
            refused()
    assert np.mean(view) == 0
