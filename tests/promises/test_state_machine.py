"""Any sequence of operations does what it would do to a dictionary of NumPy arrays."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import hubarray as hub
from tests.promises.versions import CompactingMachine, VersionModel, quieten, run

NAMES = ("t/x:v0", "t/x:v1", "t/y:v0")
LENGTHS = st.integers(0, 9)
VALUES = st.integers(-3, 3)


@dataclass
class Model(VersionModel):
    """Of arrays: chunk shape, and the last merge with each other version."""

    chunks: tuple = ()
    merged: dict = field(default_factory=dict)


def _key(draw, shape):
    """A slice, an integer or a list along each axis."""
    key = []
    for length in shape:
        kind = draw(st.sampled_from(["slice", "integer", "all"])) if length else "all"
        if kind == "integer":
            key.append(draw(st.integers(-length, length - 1)))
        elif kind == "slice":
            start, stop = sorted([draw(st.integers(0, length)), draw(st.integers(0, length))])
            key.append(slice(start, stop, draw(st.sampled_from([1, 1, 2]))))
        else:
            key.append(slice(None))
    return tuple(key)


class Machine(CompactingMachine):
    """Operations on three versions of two names, each checked against the model at once."""

    @initialize(data=st.data())
    def begin(self, data):
        self.start({name: Model() for name in NAMES})
        self.create(data, NAMES[0])

    def held(self, found):
        return found[...]

    def same(self, one, two):
        return np.array_equal(one, two)

    def deleted(self, name):
        self._unmerge(name)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def create(self, data, name):
        model = self.models[name]
        if model.live:
            return
        shape = (data.draw(LENGTHS), data.draw(LENGTHS))
        model.chunks = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
        self.handles[name] = hub.array(shape, name, "i2", chunks=model.chunks, root=self.root)
        model.add(np.zeros(shape, "i2"))
        model.frozen, model.tags, model.merged = False, {}, {}

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def write(self, data):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        model = self.models[name]
        key, value = _key(data.draw, model.now.shape), data.draw(VALUES)
        after = model.now.copy()
        after[key] = value
        array = self._handle(name)
        array[key] = value
        # What writes the same again may be a commit or none.
        if array.commit > len(model.commits):
            model.add(after)
        assert np.array_equal(after, model.now)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), fails=st.booleans(), appended=st.integers(0, 3))
    def transaction(self, data, fails, appended):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        model, after = self.models[name], self.models[name].now.copy()
        try:
            with self._handle(name).transaction() as t:
                for _ in range(data.draw(st.integers(1, 3))):
                    key, value = _key(data.draw, after.shape), data.draw(VALUES)
                    t[key] = value
                    after[key] = value
                    assert np.array_equal(t[...], after)
                if appended:
                    rows = np.full((appended, after.shape[1]), 5, "i2")
                    t.append(rows)
                    after = np.concatenate([after, rows])
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        if self._handle(name).commit > len(model.commits):
            model.add(after)
        assert np.array_equal(after, model.now)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), count=st.integers(1, 4), value=VALUES)
    def append(self, data, count, value):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        model = self.models[name]
        rows = np.full((count, model.now.shape[1]), value, "i2")
        self._handle(name).append(rows)
        model.add(np.concatenate([model.now, rows]))

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data(), rows=st.none() | LENGTHS, columns=st.none() | LENGTHS)
    def resize(self, data, rows, columns):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        model = self.models[name]
        rows = model.now.shape[0] if rows is None else rows
        columns = model.now.shape[1] if columns is None else columns
        self._handle(name).resize((rows, columns))
        if (rows, columns) == model.now.shape:
            return
        after = np.zeros((rows, columns), "i2")
        kept = tuple(slice(0, min(a, b)) for a, b in zip(after.shape, model.now.shape, strict=True))
        after[kept] = model.now[kept]
        model.add(after)

    @precondition(lambda self: self._live())
    @rule(data=st.data(), to=st.sampled_from(NAMES))
    def copy(self, data, to):
        source = data.draw(st.sampled_from(self._live()))
        model = self.models[source]
        number = self._readable(data, model)
        goal = self.models[to]
        if goal.live:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.copy(source, to, root=self.root)
            return
        self.handles[to] = hub.copy(f"{source}@{number}", to, root=self.root)
        goal.add(model.commits[number - 1].copy())
        goal.chunks, goal.frozen, goal.tags = model.chunks, False, {}
        goal.merged = {}
        # What was before a deletion is another array's, so that nothing of it is common.
        if all(array is not None for array in model.commits[number - 1 :]):
            goal.merged[source] = model.merged[to] = (source, number)

    @precondition(lambda self: self._live())
    @rule(data=st.data(), really=st.sampled_from([False] * 5 + [True]))
    def freeze(self, data, really):
        if not really:
            return
        name = data.draw(st.sampled_from(self._live()))
        hub.freeze(name, root=self.root)
        model = self.models[name]
        if not model.frozen:
            model.add(model.now)
        model.frozen = True

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def restore(self, data):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        model = self.models[name]
        number = self._readable(data, model)
        self.handles[name] = hub.restore(name, number, root=self.root)
        model.add(model.commits[number - 1].copy())
        # What was merged in between did not happen; which merge counts then is for tests/arrays/test_merge.py.
        self._unmerge(name)

    def _unmerge(self, name):
        for model in self.models.values():
            model.merged.pop(name, None)
        self.models[name].merged = {}

    @precondition(lambda self: any(m.merged and m.live and not m.frozen for m in self.models.values()))
    @rule(data=st.data(), side=st.sampled_from([None, "ours", "theirs"]))
    def merge_some(self, data, side):
        self.merge(data, side)

    def merge(self, data, side):
        choices = [n for n in self._live(writable=True) if self.models[n].merged]
        if not choices:
            return
        into = data.draw(st.sampled_from(choices))
        ours = self.models[into]
        source = data.draw(st.sampled_from(sorted(ours.merged)))
        theirs = self.models[source]
        home, number = ours.merged[source]
        base = self.models[home]
        if not theirs.live or number <= base.expired_to or number in base.gone:
            return
        commons = (base.commits[number - 1], theirs.now, ours.now)
        if len({array.shape for array in commons}) > 1 or theirs.chunks != ours.chunks:
            return
        old, new, own = commons
        changed = new != old
        both = changed & (own != old) & (new != own)
        if both.any() and side is None:
            with pytest.raises(hub.errors.ConflictError):
                hub.merge_version(source, into=into, root=self.root)
            return
        hub.merge_version(source, into=into, on_conflict=side, root=self.root)
        after = own.copy()
        takes = changed & ~both if side == "ours" else changed
        after[takes] = new[takes]
        if hub.load(into, root=self.root).commit > len(ours.commits):
            ours.add(after)
            ours.merged[source] = theirs.merged[into] = (source, len(theirs.commits))
        assert np.array_equal(after, ours.now)

    @precondition(lambda self: self._live(writable=True) and len(self._live()) < len(NAMES))
    @rule(data=st.data())
    def fork_and_merge(self, data):
        source = data.draw(st.sampled_from(self._live(writable=True)))
        mine = data.draw(st.sampled_from([name for name in NAMES if name not in self._live()]))
        model, fork = self.models[source], self.models[mine]
        self.handles[mine] = hub.copy(source, mine, root=self.root)
        fork.add(model.now.copy())
        fork.chunks, fork.frozen, fork.tags = model.chunks, False, {}
        fork.merged = {source: (source, len(model.commits))}
        model.merged[mine] = (source, len(model.commits))
        for name in (source, mine):
            for _ in range(data.draw(st.integers(0, 2))):
                after = self.models[name].now.copy()
                key, value = _key(data.draw, after.shape), data.draw(VALUES)
                after[key] = value
                self._handle(name)[key] = value
                if self._handle(name).commit > len(self.models[name].commits):
                    self.models[name].add(after)
        self.merge(data, data.draw(st.sampled_from([None, "ours", "theirs"])))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    quieten(monkeypatch)


@pytest.mark.timeout(600)
def test_any_sequence_of_operations_does_what_numpy_would():
    run(Machine, everyday=30, whole=400)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_any_sequence_of_operations_does_what_numpy_would_on_other_stores(kind, make_root):
    class Elsewhere(Machine):
        def new_root(self):
            return make_root(kind)

    run(Elsewhere, everyday=5, whole=100)
