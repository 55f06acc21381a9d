"""Arrays against a NumPy array: any sequence of writes, appends and resizes reads back the same."""

import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from tests.arrays import strategies

KINDS = {"local": 150, "memory": 150, "s3": 40, "gs": 15}


def _fill(dtype, seed):
    return strategies.some_values((), dtype, seed)[()] if seed else np.zeros((), dtype)[()]


def _apply(data, array, model, fill):
    """One random operation on both; returns the model afterwards."""
    kind = data.draw(st.sampled_from(["set", "set", "set", "fill", "append", "resize", "reload"]))
    seed = data.draw(st.integers(0, 10**6))
    if kind in ("set", "fill"):
        key = data.draw(strategies.keys(model.shape, valid=True))
        try:
            shape = np.shape(model[key])
        except (IndexError, ValueError):
            return model
        value = np.broadcast_to(fill, shape) if kind == "fill" else strategies.some_values(shape, model.dtype, seed)
        model[key] = value
        array[key] = value
    elif kind == "append" and model.ndim:
        rows = strategies.some_values((data.draw(st.integers(0, 4)), *model.shape[1:]), model.dtype, seed)
        model = np.concatenate([model, rows])
        array.append(rows)
    elif kind == "resize" and model.ndim:
        shape = tuple(data.draw(st.integers(0, 8)) for _ in model.shape)
        resized = np.full(shape, fill, model.dtype)
        kept = tuple(slice(0, min(a, b)) for a, b in zip(shape, model.shape, strict=True))
        resized[kept] = model[kept]
        model = resized
        array.resize(shape)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_changes_reads_back_as_numpy_has_it(kind, make_root, forget):
    root = make_root(kind)

    @settings(max_examples=KINDS[kind])
    @given(st.data())
    def run(data):
        shape = data.draw(strategies.shapes(max_dims=3))
        dtype = np.dtype(data.draw(st.sampled_from(strategies.DTYPES)))
        fill = _fill(dtype, data.draw(st.sampled_from([0, 0, 7])))
        name = f"t/{uuid.uuid4().hex}:v0"
        array = hub.array(
            shape,
            name,
            dtype,
            chunks=data.draw(strategies.chunkings(shape)),
            codec=data.draw(st.sampled_from(strategies.CODECS)),
            fill_value=fill,
            root=root,
        )
        model = np.full(shape, fill, dtype)
        commits = {array.commit: model.copy()}
        for _ in range(data.draw(st.integers(1, 10))):
            model = _apply(data, array, model, fill)
            commits[array.commit] = model.copy()
            assert strategies.same(array[...], model)
            key = data.draw(strategies.keys(model.shape, valid=True))
            got = strategies.numpy_outcome(lambda key=key: array[key])
            assert strategies.same(got, strategies.numpy_outcome(lambda key=key, model=model: model[key]))
        forget()
        assert strategies.same(hub.load(name, root=root)[...], model)
        for number, expected in commits.items():
            assert strategies.same(hub.load(f"{name}@{number}", root=root)[...], expected)

    run()
