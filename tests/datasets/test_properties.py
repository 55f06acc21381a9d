"""Any sequence of operations on a dataset does what it would do to a dictionary of NumPy arrays."""

import pickle
import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs import fetch
from tests.rounds import rounds

STEPS = ["append", "assign", "transaction", "fail", "workers", "add", "drop", "rename", "resize", "restore", "compact",
         "rebuild"]  # fmt: skip
WIDTH = 3


def spec(length, **options):
    return hub.ArraySpec((length, WIDTH), "int32", chunks=(2, 2), dims=("sample", None), **options)


@pytest.fixture(scope="module")
def roots(make_root):
    return {kind: make_root(kind) for kind in ("local", "s3")}


class Model:
    """Arrays by name: those of the dimension ``sample``, and others of lengths of their own."""

    def __init__(self):
        self.arrays = {"a": np.zeros((0, WIDTH), "i4"), "b": np.zeros((0, WIDTH), "i4"), "fixed": np.zeros(5, "i4")}
        self.samples = {"a", "b"}

    def length(self):
        return next((len(self.arrays[name]) for name in self.samples), 0)


def assert_same(ds, model):
    assert list(ds) == list(model.arrays)
    for name, expected in model.arrays.items():
        assert ds[name].shape == expected.shape
        assert np.array_equal(ds[name][...], expected), name


@pytest.mark.parametrize("kind", ["local", "s3"])
@given(data=st.data())
@settings(max_examples=rounds(12, 150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_operations_do_what_numpy_would(roots, kind, data):
    root, model = roots[kind], Model()
    name = f"t/{kind}{uuid.uuid4().hex}:v0"
    ds = hub.dataset({"a": spec(0), "b": spec(0), "fixed": hub.ArraySpec(5, "int32", chunks=2)}, name, root=root)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=14)):
        globals()[f"do_{step}"](ds, model, data)
        if data.draw(st.booleans()):
            fetch._shared._memory.clear()
        assert_same(ds, model)
        assert ds.dims == ({"sample": model.length()} if model.samples else {})
    assert_same(hub.load(name, root=root), model)
    assert_same(pickle.loads(pickle.dumps(ds)), model)
    assert hub.verify(name, root=root).problems == []
    assert ds.commit >= 1


def drawn_rows(data, count):
    return np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=count * WIDTH, max_size=count * WIDTH)), "i4"
    ).reshape(count, WIDTH)


def do_append(ds, model, data):
    if not model.samples:
        return
    rows = {name: drawn_rows(data, 2) for name in sorted(model.samples)}
    before = model.length()
    assert ds.append(rows) == slice(before, before + 2)
    for name, values in rows.items():
        model.arrays[name] = np.concatenate([model.arrays[name], values])


def do_assign(ds, model, data):
    if not model.arrays:
        return
    name = data.draw(st.sampled_from(sorted(model.arrays)))
    length = len(model.arrays[name])
    if length:
        at = data.draw(st.integers(0, length - 1))
        ds[name][at] = model.arrays[name][at] = data.draw(st.integers(0, 9))


def do_transaction(ds, model, data):
    """Writes to several arrays beside a commit of somebody else to other elements."""
    if not model.samples or not model.length():
        return
    with ds.transaction("several") as t:
        for name in sorted(model.samples):
            at = data.draw(st.integers(0, model.length() - 1))
            t[name][at, 0] = model.arrays[name][at, 0] = data.draw(st.integers(10, 19))
        if "fixed" in model.arrays and data.draw(st.booleans()):
            hub.load(f"{ds.name}:{ds.version}", root=ds.root)["fixed"][0] = 7
            model.arrays["fixed"][0] = 7
        rows = {name: drawn_rows(data, 1) for name in sorted(model.samples)}
        t.append(rows)
    for name, values in rows.items():
        model.arrays[name] = np.concatenate([model.arrays[name], values])


def failing(ds, name):
    with ds.transaction() as t:
        t[name][0] = 99
        raise ZeroDivisionError


def conflicting(ds, names, value):
    with ds.transaction() as t:
        for name in names:
            t[name][0] = 99
        ds[names[0]][0] = value


def do_fail(ds, model, data):
    """What is left in the middle, or in conflict, leaves nothing."""
    if not model.length():
        return
    names = sorted(model.samples)
    with pytest.raises(ZeroDivisionError):
        failing(ds, names[0])
    value = model.arrays[names[0]][0] + data.draw(st.integers(20, 29))
    with pytest.raises(hub.errors.ConflictError):
        conflicting(ds, names, value)
    model.arrays[names[0]][0] = value
    if len(names) > 1:
        rows = drawn_rows(data, 1)
        with pytest.raises(hub.errors.ConfigError, match="grow together"):
            ds[names[0]].append(rows)


def do_workers(ds, model, data):
    if not model.length():
        return
    with ds.transaction("by workers") as t:
        worker = pickle.loads(pickle.dumps(t.worker()))
        for name in sorted(model.samples):
            with worker as w:
                w[name][0] = model.arrays[name][0] = data.draw(st.integers(30, 39))
            t.add(w.part)


def do_add(ds, model, data):
    name = data.draw(st.sampled_from(["new", "more", "a"]))
    if name in model.arrays:
        with pytest.raises(hub.errors.AlreadyExistsError):
            ds[name] = spec(0)
        return
    how = data.draw(st.sampled_from(["spec", "numpy", "adopt"]))
    if how == "spec" and model.samples:
        ds[name] = spec(model.length(), fill_value=4)
        model.arrays[name] = np.full((model.length(), WIDTH), 4, "i4")
        model.samples.add(name)
    elif how == "numpy":
        model.arrays[name] = drawn_rows(data, 3)
        ds[name] = model.arrays[name].copy()
    elif how == "adopt":
        other = hub.array((4, WIDTH), f"t/other{uuid.uuid4().hex}:v0", "i4", chunks=(2, 2), root=ds.root)
        model.arrays[name] = other[...] = drawn_rows(data, 4)
        ds[name] = other


def do_drop(ds, model, data):
    if model.arrays:
        name = data.draw(st.sampled_from(sorted(model.arrays)))
        kept = ds[name]
        del ds[name]
        del model.arrays[name]
        model.samples.discard(name)
        with pytest.raises(hub.errors.NotFoundError):
            kept[...]


def do_rename(ds, model, data):
    if model.arrays:
        old = data.draw(st.sampled_from(sorted(model.arrays)))
        new = f"{old}_"
        ds.rename(old, new)
        model.arrays = {new if name == old else name: array for name, array in model.arrays.items()}
        model.samples = {new if name == old else name for name in model.samples}


def do_resize(ds, model, data):
    if not model.samples:
        return
    length = data.draw(st.integers(0, 6))
    ds.resize(sample=length)
    for name in model.samples:
        old = model.arrays[name]
        grown = np.full((max(0, length - len(old)), WIDTH), ds[name].fill_value, "i4")
        model.arrays[name] = np.concatenate([old[:length], grown])


def do_restore(ds, model, data):
    number = data.draw(st.integers(1, ds.commit))
    before = hub.load(f"{ds.name}:{ds.version}@{number}", root=ds.root)
    model.arrays = {name: before[name][...] for name in before}
    model.samples = {name for name in before if before[name].dims[0] == "sample"}
    hub.restore(f"{ds.name}:{ds.version}", number, root=ds.root)


def do_compact(ds, model, data):
    hub.compact(f"{ds.name}:{ds.version}", root=ds.root)


def do_rebuild(ds, model, data):
    """Arrays come and go within a transaction, with what is written to them."""
    gone = data.draw(st.sets(st.sampled_from(sorted(model.arrays)), max_size=2)) if model.arrays else set()
    made = data.draw(st.sets(st.sampled_from(["a", "c", "d", "fixed"]), max_size=2)) - (model.arrays.keys() - gone)
    after, samples = {name: array for name, array in model.arrays.items() if name not in gone}, model.samples - gone
    title = data.draw(st.integers(0, 9))
    with ds.transaction() as t:
        for name in sorted(gone):
            if data.draw(st.booleans()) and len(model.arrays[name]):
                t[name][0] = 77
            del t[name]
        length = next((len(after[name]) for name in samples), data.draw(st.integers(0, 3)))
        for name in sorted(made):
            values = drawn_rows(data, length)
            t[name] = spec(length)
            for i in data.draw(st.sets(st.integers(0, length - 1), max_size=3)) if length else ():
                t[name][i] = values[i]
                assert np.array_equal(t[name][i], values[i])
            after[name], samples = t[name][...], samples | {name}
        t.attrs["title"] = title
        assert list(t) == list(after)
        assert_same(hub.load(f"{ds.name}:{ds.version}", root=ds.root), model)
    model.arrays, model.samples = after, samples
    assert ds.attrs["title"] == title
