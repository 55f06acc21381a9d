"""Any sequence of operations on datasets, over several versions, does what it would do to dictionaries of arrays."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import hubarray as hub
from tests.promises.versions import CompactingMachine, VersionModel, quieten, run

NAMES = ("t/x:v0", "t/x:v1", "t/y:v0")
VALUES = st.integers(-3, 3)
# Of arrays that grow together, and of one that does not.
GROWING = ("image", "label", "more", "renamed")


def spec(name, length):
    if name == "fixed":
        return hub.ArraySpec((4, 3), "i2", chunks=(3, 2))
    shape = (length, 3) if name == "image" else (length,)
    return hub.ArraySpec(shape, "i2", chunks=(2,) * len(shape), dims=("sample", "y")[: len(shape)])


@dataclass
class Model(VersionModel):
    """Of datasets: their arrays by name."""

    @property
    def length(self):
        return next((len(array) for name, array in self.now.items() if name in GROWING), 0)

    def add(self, arrays):
        self.commits.append(arrays and {name: array.copy() for name, array in arrays.items()})


class Machine(CompactingMachine):
    """Operations on three versions of two names, each checked against the model at once."""

    @initialize(length=st.integers(0, 5))
    def begin(self, length):
        self.start({name: Model() for name in NAMES})
        self.create(NAMES[0], length)

    def held(self, found):
        return {item: found[item][...] for item in found}

    def same(self, one, two):
        return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)

    def _drawn(self, data, writable=True):
        name = data.draw(st.sampled_from(self._live(writable)))
        return name, self.models[name], {first: array.copy() for first, array in self.models[name].now.items()}

    def _done(self, name, after):
        """What changes nothing may be a commit or none."""
        model = self.models[name]
        if self._handle(name).commit > len(model.commits):
            model.add(after)
        assert self.same(after, model.now)

    @rule(name=st.sampled_from(NAMES), length=st.integers(0, 5))
    def create(self, name, length):
        model = self.models[name]
        if model.live:
            return
        specs = {item: spec(item, length) for item in ("image", "label", "fixed")}
        self.handles[name] = hub.dataset(specs, name, root=self.root)
        model.add({item: np.zeros(made.shape, "i2") for item, made in specs.items()})
        model.frozen, model.tags = False, {}

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), count=st.integers(1, 4), value=VALUES)
    def append(self, data, count, value):
        name, _, after = self._drawn(data)
        rows = {
            item: np.full((count, *array.shape[1:]), value, "i2") for item, array in after.items() if item in GROWING
        }
        if not rows:
            return
        self._handle(name).append(rows)
        self._done(name, after | {item: np.concatenate([after[item], more]) for item, more in rows.items()})

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), value=VALUES)
    def assign(self, data, value):
        name, _, after = self._drawn(data)
        if not after:
            return
        item = data.draw(st.sampled_from(sorted(after)))
        key = self._key(data, after[item])
        after[item][key] = value
        self._handle(name)[item][key] = value
        self._done(name, after)

    def _key(self, data, array):
        start, stop = sorted([data.draw(st.integers(0, len(array))), data.draw(st.integers(0, len(array)))])
        return slice(start, stop)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), fails=st.booleans(), changes=st.integers(1, 4))
    def transaction(self, data, fails, changes):
        name, model, after = self._drawn(data)
        if not after:
            return
        try:
            with self._handle(name).transaction() as t:
                for _ in range(changes):
                    item, value = data.draw(st.sampled_from(sorted(after))), data.draw(VALUES)
                    key = self._key(data, after[item])
                    t[item][key] = value
                    after[item][key] = value
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            after = model.now
        self._done(name, after)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), length=st.integers(0, 7))
    def resize(self, data, length):
        name, model, after = self._drawn(data)
        if not any(item in GROWING for item in after):
            return
        self._handle(name).resize(sample=length)
        for item in GROWING:
            if item in after:
                made = np.zeros((length, *after[item].shape[1:]), "i2")
                kept = min(length, model.length)
                made[:kept] = after[item][:kept]
                after[item] = made
        self._done(name, after)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), value=VALUES, empty=st.booleans())
    def add_or_drop(self, data, value, empty):
        name, model, after = self._drawn(data)
        item = data.draw(st.sampled_from(["more", "fixed", "label"]))
        if item in after:
            del self._handle(name)[item]
            del after[item]
        else:
            made = spec(item, model.length)
            self._handle(name)[item] = made
            after[item] = np.zeros(made.shape, "i2")
            if not empty:
                self._done(name, after)
                self._handle(name)[item][...] = value
                after[item][...] = value
        self._done(name, after)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def rename(self, data):
        name, _, after = self._drawn(data)
        if "label" not in after or "renamed" in after:
            return
        self._handle(name).rename("label", "renamed")
        self._done(name, {("renamed" if item == "label" else item): array for item, array in after.items()})
        self._handle(name).rename("renamed", "label")
        self._done(name, after)

    @precondition(lambda self: self._live())
    @rule(data=st.data(), to=st.sampled_from(NAMES))
    def copy(self, data, to):
        source, model, _ = self._drawn(data, writable=False)
        number, goal = self._readable(data, model), self.models[to]
        if goal.live:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.copy(source, to, root=self.root)
            return
        self.handles[to] = hub.copy(f"{source}@{number}", to, root=self.root)
        goal.add(model.commits[number - 1])
        goal.frozen, goal.tags = False, {}

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def restore(self, data):
        name, model, _ = self._drawn(data)
        number = self._readable(data, model)
        self.handles[name] = hub.restore(name, number, root=self.root)
        model.add(model.commits[number - 1])

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), really=st.sampled_from([False] * 5 + [True]))
    def freeze(self, data, really):
        if really:
            name, model, after = self._drawn(data)
            hub.freeze(name, root=self.root)
            model.add(after)
            model.frozen = True

    @invariant()
    def arrays_of_a_dimension_are_of_one_length(self):
        for name in self._live():
            ds = self._handle(name)
            assert len({len(ds[item]) for item in ds if item in GROWING}) <= 1


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    quieten(monkeypatch)


@pytest.mark.timeout(600)
def test_any_sequence_of_operations_does_what_numpy_would():
    run(Machine, everyday=15, whole=400)


@pytest.mark.parametrize("kind", ["local", "s3"])
@pytest.mark.timeout(600)
def test_any_sequence_of_operations_does_what_numpy_would_on_other_stores(kind, make_root):
    class Elsewhere(Machine):
        def new_root(self):
            return make_root(kind)

    run(Elsewhere, everyday=4, whole=60)
