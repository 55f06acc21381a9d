import itertools
import pickle
import threading
import warnings

import numpy as np
import pytest

import hubarray as hub


@pytest.fixture
def images():
    array = hub.array((10, 6, 5), "t/images:v0", dtype="uint8", chunks=(2, 4, 5))
    array[...] = np.arange(300).reshape(10, 6, 5) % 251
    return array


def test_it_describes_itself(images):
    assert (images.shape, images.ndim, images.size, images.nbytes, len(images)) == ((10, 6, 5), 3, 300, 300, 10)
    assert (images.dtype, images.chunks, images.fill_value) == (np.dtype("uint8"), (2, 4, 5), 0)
    assert (images.name, images.version, images.commit) == ("t/images", "v0", 2)
    assert [item["name"] for item in images.codec] == ["bytes", "blosc"]
    shown = "shape (10, 6, 5), dtype uint8, chunks (2, 4, 5)"
    assert repr(images) == f"<hubarray.Array t/images:v0@2 in {images.root.url}: {shown}>"
    assert repr(hub.load("t/images:v0@1")).startswith("<hubarray.Array t/images:v0@1 in ")


def test_what_is_read_is_plain_numpy(images):
    expected = np.arange(300).reshape(10, 6, 5) % 251
    assert type(images[0:3, 1]) is np.ndarray
    assert isinstance(images[0, 0, 0], np.uint8)
    assert images[..., 0, 0, 0].shape == ()
    assert images[2:4, 1:5].mean() == expected[2:4, 1:5].mean()
    assert images[1].flags.writeable
    assert np.asarray(images).tobytes() == expected.astype("u1").tobytes()
    assert np.asarray(images, dtype="f4").dtype == np.float32
    assert np.stack([images, images]).shape == (2, 10, 6, 5)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(images, copy=False)


def test_writing_into_a_result_never_changes_what_is_cached(images):
    first = images[0]
    first[...] = 99
    assert not (images[0] == 99).all()
    images[0:1, 0:1][...] = 99
    assert images[0, 0, 0] != 99


def test_it_has_no_length_and_no_iteration_without_axes():
    scalar = hub.array((), "t/scalar", dtype="float64")
    scalar[...] = 5
    scalar[()] += 1
    assert scalar[()] == 6.0
    assert isinstance(scalar[()], np.float64)
    for refused in (len, iter, list):
        with pytest.raises(TypeError):
            refused(scalar)


def test_iteration_gives_the_samples_of_one_commit(images):
    expected = images[...]
    seen = []
    for sample in images:
        seen.append(sample)
        images[9] = len(seen)
    assert np.array_equal(np.stack(seen), expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.9, "i4"), ([1, 2, 3], "f4"), (True, "u1"), (np.float64(300.7), "u1"), (np.array([1.5, 2.5, -1.5]), "i8"), ("12", "i4"), (1 + 0j, "c8"), ("2020-01-01", "M8[s]")],
    ids=str,
)  # fmt: skip
def test_values_are_cast_as_numpy_casts(value, dtype):
    model = np.zeros(3, dtype)
    array = hub.array(3, f"t/cast-{abs(hash(str((value, dtype))))}", dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model[:] = value
        array[:] = value
    assert array[...].tobytes() == model.tobytes()


@pytest.mark.parametrize(
    ("key", "value"),
    [(slice(0, 2), [1, 2, 3]), (0, np.zeros((6, 6))), (..., np.zeros((2, 10, 6, 5))), (0, 300), (0, -1), (0, "x"), (0, None), (0, len), (slice(0, 2), [[1], [2, 3]]), (10, 0), ((0, 0, 0, 0), 0)],
    ids=str,
)  # fmt: skip
def test_values_that_numpy_refuses_are_refused_and_nothing_is_written(images, key, value):
    model, before, commit = images[...], images[...], images.commit
    with pytest.raises((ValueError, TypeError, OverflowError, IndexError)) as expected:
        model[key] = value
    # What is missing is said in words of ours.
    with pytest.raises(hub.errors.ConfigError if value is None else expected.type):
        images[key] = value
    assert images.commit == commit
    assert np.array_equal(images[...], before)


@pytest.mark.parametrize("shape", [(), (5,)], ids=str)
@pytest.mark.parametrize("dtype", ["i4", "u1", "S3", "M8[s]"])
@pytest.mark.parametrize(
    "value",
    [np.float32("nan"), np.float64(1e20), np.datetime64("2020"), np.datetime64("NaT"), np.timedelta64(3, "s"), np.int64(300), np.array(np.nan, "f4"), np.array([1e20]), np.array(300)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("key", [(), ..., None, 0, slice(0, 1), [0]], ids=str)
def test_scalars_of_numpy_are_converted_and_arrays_without_axes_are_cast_as_numpy_does_it(shape, dtype, value, key):
    given = np.asarray(value)
    is_missing = dtype in ("i4", "u1") and given.dtype.kind == "f" and bool(np.isnan(given).any())
    is_date_as_number = (dtype in ("i4", "u1") and given.dtype.kind in "mM") or (
        dtype == "M8[s]" and given.dtype.kind == "m"
    )
    model, array = np.zeros(shape, dtype), hub.array(shape, "t/scalars", dtype, chunks=(2,) * len(shape))

    def outcome(target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                target[key] = value
            except (ValueError, TypeError, OverflowError, IndexError, RuntimeError) as error:
                return type(error)
        return target[...].tobytes()

    expected = outcome(model)
    if expected is not IndexError and (dtype == "S3" or is_missing or is_date_as_number):
        # NumPy would invent a value.
        expected = TypeError if is_date_as_number else hub.errors.ConfigError
    assert outcome(array) == expected
    with array.transaction() as transaction:
        assert outcome(transaction) == expected


@pytest.mark.parametrize("chunks", [3, 100])
def test_errors_that_numpy_is_told_to_raise_are_raised_however_many_chunks_there_are(chunks):
    array = hub.array((100, 10), "t/errors", "f4", chunks=(chunks, 10))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        array[...] = np.full((100, 10), 1e300)
    assert (array.commit, array[0, 0]) == (1, 0)


def test_a_value_may_have_more_leading_axes_of_length_one(images):
    images[0] = np.ones((1, 1, 6, 5))
    assert (images[0] == 1).all()


def test_of_two_values_for_one_element_the_later_stays(images):
    images[[3, 3, 3], 0, 0] = [1, 2, 3]
    assert images[3, 0, 0] == 3


def test_an_empty_selection_reads_empty_and_writes_nothing(images):
    before = images.commit
    assert images[5:5].shape == (0, 6, 5)
    images[5:5] = 1
    images[[], 0] = 3
    images.append(np.zeros((0, 6, 5)))
    assert images.commit == before


def test_appending_needs_rows_that_fit(images):
    for rows in (np.zeros((6, 5)), np.zeros((1, 5, 6)), np.zeros(3), 7):
        with pytest.raises(ValueError, match="append"):
            images.append(rows)
    images.append(np.full((3, 6, 5), 9))
    assert len(images) == 13
    assert (images[10:] == 9).all()


@pytest.mark.parametrize("shape", [(10, 6), 5, (-1, 6, 5), (1.5, 6, 5), "abc", (2**62, 2**10, 5)], ids=str)
def test_resizing_needs_a_shape_of_as_many_axes(images, shape):
    with pytest.raises(hub.errors.ConfigError):
        images.resize(shape)
    assert images.shape == (10, 6, 5)


def test_rows_cut_by_a_shrink_are_gone(images):
    for shape in ((3, 6, 5), (3, 5, 3)):
        images.resize(shape)
        images.resize((10, 6, 5))
        assert (images[shape[0] :] == 0).all()
        assert (images[:, shape[1] :] == 0).all()
        assert (images[:, :, shape[2] :] == 0).all()


def test_a_snapshot_and_a_numbered_commit_never_move_and_cannot_be_written(images):
    snapshot, numbered = images.snapshot(), hub.load("t/images:v0@2")
    before = images[...]
    images[...] = 7
    images.resize((1, 1, 1))
    for fixed in (snapshot, numbered):
        assert np.array_equal(fixed.refresh()[...], before)
        for write in (
            lambda a: a.__setitem__(0, 1),
            lambda a: a.append(before),
            lambda a: a.resize((1, 1, 1)),
            lambda a: a.attrs.update(x=1),
        ):
            with pytest.raises(hub.errors.ReadOnlyError, match="fixed commit"):
                write(fixed)


def test_two_handles_of_one_process_see_each_others_writes_at_once(images):
    other = hub.load("t/images:v0")
    images[0] = 77
    assert (other[0] == 77).all()
    other.append(np.zeros((1, 6, 5)))
    assert len(images) == 11


def test_it_pickles_to_its_name_and_commit(images):
    images.attrs["x"] = 1
    again = pickle.loads(pickle.dumps(images))
    assert (again.name, again.version, again.commit) == ("t/images", "v0", images.commit)
    assert np.array_equal(again[...], images[...])
    assert len(pickle.dumps(images)) < 1000
    snapshot = pickle.loads(pickle.dumps(images.snapshot()))
    images[0] = 3
    assert snapshot.commit == images.commit - 1
    assert again.commit == images.commit
    with pytest.raises(hub.errors.ReadOnlyError):
        snapshot[0] = 1


def test_attributes_are_a_mapping_whose_changes_are_commits(images):
    images.attrs["unit"] = "mm"
    images.attrs.update(mean=np.float32(0.5), shape=np.array([1, 2]), nested={"a": [None, True]})
    assert dict(hub.load("t/images:v0").attrs) == {
        "unit": "mm",
        "mean": 0.5,
        "shape": [1, 2],
        "nested": {"a": [None, True]},
    }
    del images.attrs["unit"]
    assert "unit" not in images.attrs
    images.attrs["nested"]["a"].append(1)
    assert images.attrs["nested"] == {"a": [None, True]}
    before = images.commit
    images.attrs["mean"] = 0.5
    assert images.commit == before
    images.attrs.clear()
    assert len(images.attrs) == 0
    with pytest.raises(KeyError):
        del images.attrs["unit"]


@pytest.mark.parametrize(
    "attrs",
    [
        {"x": object()},
        {1: 2},
        {"x": np.datetime64("2020", "ns")},
        {"x": {1: "a", "1": "b"}},
        {"x": b"bytes"},
        {"x": "y" * (1 << 16)},
    ],
    ids=["object", "key", "time", "two keys that would be one", "bytes", "large"],
)
def test_attributes_that_are_not_json_or_too_large_are_refused(images, attrs):
    with pytest.raises(hub.errors.ConfigError, match="attrs"):
        images.attrs.update(attrs)
    with pytest.raises(hub.errors.ConfigError, match="attrs"):
        hub.array(3, "t/refused", attrs=attrs)
    assert not hub.exists("t/refused")


def test_every_fixed_size_dtype_can_be_written_and_read():
    kinds = [
        "bool",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "f2",
        "f4",
        "f8",
        "c8",
        "c16",
        "M8[us]",
        "m8[h]",
        "U4",
        "S4",
        "V4",
    ]
    for i, dtype in enumerate([*kinds, [("x", "f4"), ("label", "U8")]]):
        array = hub.array(5, f"t/dtype-{i}", dtype)
        assert array[...].tobytes() == np.zeros(5, dtype).tobytes()
        value = np.ones(2, np.uint8).view("b1").astype(dtype) if np.dtype(dtype).kind != "V" else np.zeros(2, dtype)
        array[1:3] = value
        assert array[1:3].tobytes() == value.tobytes()


def test_structured_elements_take_tuples_and_give_fields():
    array = hub.array(4, "t/structured", [("x", "f4"), ("label", "U8")])
    array[1] = (1.5, "dog")
    assert array[1] == np.array((1.5, "dog"), array.dtype)
    assert array[0:2]["label"].tolist() == ["", "dog"]
    assert array["label"].tolist() == ["", "dog", "", ""]


def test_thirty_two_threads_may_share_one_array(images):
    expected = images[...].copy()
    errors = []

    def work(i):
        try:
            for _, j in zip(range(20), itertools.count(i), strict=False):
                row = j % 8
                assert np.array_equal(images[row], expected[row])
            images[8 + i % 2, i % 6, i % 5] = i
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert images.commit == 34
    for i in range(32):
        assert images[8 + i % 2, i % 6, i % 5] % 2 == i % 2


def test_writing_costs_no_memory_for_elements_that_were_never_written():
    array = hub.array((10_000_000_000, 512, 512, 3), "t/huge", dtype="uint8")
    array[9_999_999_999, 511, 511] = [1, 2, 3]
    assert array[-1, -1, -1].tolist() == [1, 2, 3]
    assert array[5_000_000_000:5_000_000_002].max() == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a == 1,
        lambda a: a != 1,
        lambda a: a < 1,
        lambda a: a + 1,
        lambda a: 1 - a,
        lambda a: -a,
        lambda a: bool(a),
        lambda a: 5.0 in a,
        lambda a: a.__iadd__(1),
    ],
)
def test_operators_are_refused_with_the_way_to_write_them(images, use):
    with pytest.raises(TypeError, match=r"a\[\.\.\.\]"):
        use(images)
    assert hash(images) == hash(images)
    assert images in {images}


def test_a_boolean_mask_takes_values_as_numpy_does(images):
    model = images[...]
    mask = model > 100
    for value in (7, np.arange(mask.sum())):
        model[mask] = value
        images[mask] = value
        assert np.array_equal(images[...], model)
    for value in ([[5]], np.zeros((1, 3))):
        with pytest.raises(TypeError, match="boolean array indexing"):
            images[mask] = value
    rows = np.arange(10) % 3 == 0
    for value in (np.ones((4, 6, 5), int), np.full((1, 6, 5), 2), np.full((6, 5), 3)):
        model[rows] = value
        images[rows] = value
        assert np.array_equal(images[...], model)


def test_one_element_takes_no_array():
    scalar = hub.array((), "t/scalar", "i8")
    vector = hub.array(3, "t/vector", "i8")
    for array, key in ((scalar, ()), (vector, 0)):
        model = np.zeros(array.shape, "i8")
        outcomes = []
        for target in (model, array):
            try:
                target[key] = np.array([1])
                outcomes.append("done")
            except (TypeError, ValueError) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


def test_a_slip_in_an_attribute_is_an_error(root):
    array = hub.array(3, "t/x", root=root)
    with pytest.raises(AttributeError, match="shpae"):
        array.shpae = (4,)
    with pytest.raises(AttributeError, match="no setter"):
        array.chunks = (1,)
