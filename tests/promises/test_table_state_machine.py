"""Any sequence of operations on tables does what it would do to lists of rows."""

import pickle
import uuid
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import hubarray as hub
from tests import servers
from tests.promises.versions import VersionMachine, VersionModel, quieten, run
from tests.rounds import rounds
from tests.tables import rows as model

NAMES = ("t/x:v0", "t/x:v1", "t/y:v0", "t/z:v0")
KEYS = st.sampled_from("abcd")
SCHEMA = hub.Schema(
    {
        "n": hub.Field("i8", index=True),
        "image": hub.Field("u1", (None,)),
        "x": hub.Field("f4", nullable=True),
        "y": hub.Field("i2"),
    },
    rows_per_block={"rest": 2},
)


def row(n):
    """Few values, so that references find equal blocks; some long enough to be shared by themselves."""
    return {
        "n": np.int64(n),
        "image": np.full(70_000 if n == 5 else n % 4, n, "u1"),
        "x": None if n % 3 else np.float32(n),
        "y": np.int16(n % 2),
    }


PARTITION = st.lists(st.integers(0, 7), max_size=6)


@dataclass
class Model(VersionModel):
    """Of tables: their rows, the keys of their partitions, and both as a restore brings them back."""

    keys: set = field(default_factory=set)
    states: dict = field(default_factory=dict)

    def begin(self, rows, keys, growing):
        self.add(rows)
        self.keys, self.frozen, self.tags = set(keys), not growing, {}

    def remember(self):
        """Note what a restore of the newest commit brings back."""
        self.states[len(self.commits)] = (set(self.keys), self.frozen)


def laid(parts):
    return [row(n) for key in sorted(parts) for n in parts[key]]


def pair(names, rows):
    """A row of two tables, merged on ``n`` with suffixes."""
    sides = zip(("_a", "_b"), names, rows, strict=True)
    return {"n": rows[0]["n"]} | {
        f"{field}{end}": item[field] for end, _, item in sides for field in item if field != "n"
    }


def write(writer, parts):
    for key, numbers in parts.items():
        with writer.partition(key) as p:
            p.extend(row(n) for n in numbers)
    writer.publish()


class Machine(VersionMachine):
    """Operations on four versions of three names, each checked against the model."""

    @initialize()
    def begin(self):
        self.start({name: Model() for name in NAMES})
        self.loaders = []

    def _handle(self, name):
        return hub.load(name, root=self.root)

    def held(self, found):
        return found[:]

    def same(self, one, two):
        model.assert_rows(one, two)
        return True

    @rule(
        name=st.sampled_from(NAMES), parts=st.dictionaries(KEYS, PARTITION, max_size=3), growing=st.booleans(),
        fails=st.integers(0, 5), data=st.data(),
    )  # fmt: skip
    def write(self, name, parts, growing, fails, data):
        references = data.draw(st.lists(st.sampled_from(self._live() or [None]), max_size=2, unique=True))
        item = self.models[name]
        given = {"growing": growing, "reference": [other for other in references if other], "root": self.root}
        if item.live:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.table_writer(name, SCHEMA, **given)
            return
        try:
            with hub.table_writer(name, SCHEMA, **given) as w:
                for key, numbers in parts.items():
                    with w.partition(key) as p:
                        p.extend(row(n) for n in numbers)
                if not fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        item.begin(laid(parts), parts, growing)

    @rule(
        name=st.sampled_from(NAMES), parts=st.dictionaries(KEYS, PARTITION, min_size=1, max_size=3),
        again=st.booleans(), dies=st.booleans(), data=st.data(),
    )  # fmt: skip
    def extract(self, name, parts, again, dies, data):
        """Partitions written by workers, some of them twice, added by a driver that may die and be resumed."""
        item = self.models[name]
        if item.live:
            return
        parts_made = []
        writer = hub.table_writer(name, SCHEMA, resume=dies, root=self.root)
        worker = pickle.loads(pickle.dumps(writer.worker()))
        for key, numbers in [*parts.items(), *(parts.items() if again else ())]:
            with worker.partition(key) as p:
                p.extend(row(n) for n in numbers)
            parts_made.append(bytes(p.part))
        order = data.draw(st.permutations(parts_made))
        if dies:
            seen = data.draw(st.integers(0, len(order)))
            for part in order[:seen]:
                writer.add(part)
            writer.abort()
            writer = hub.table_writer(name, SCHEMA, resume=True, root=self.root)
            assert all(hub.results.TablePart.from_bytes(part).key in writer for part in order[:seen])
        for part in order:
            writer.add(part)
        writer.publish()
        item.begin(laid(parts), parts, False)

    @precondition(lambda self: self._live())
    @rule(how=st.sampled_from(["inner", "left"]), data=st.data())
    def merge(self, how, data):
        """Two tables on what both say, and windows beside a row of the first."""
        names = [data.draw(st.sampled_from(self._live())) for _ in range(2)]
        indexes = [hub.read_index(name, columns=["n"], root=self.root) for name in names]
        index = hub.join(*indexes, on="n", how=how, suffixes=("_a", "_b"))
        a, b = (self.models[name].commits[-1] for name in names)
        none = dict.fromkeys(SCHEMA)
        expected = []
        for item in a:
            same = [other for other in b if other["n"] == item["n"]]
            expected += [pair(names, (item, other)) for other in same or ([none] if how == "left" else [])]
        loader = hub.row_loader(index, root=self.root)
        model.assert_rows(loader.get_batch(range(len(loader))), expected)
        if a:
            at = data.draw(st.integers(0, len(a) - 1))
            plain = hub.load(names[0], root=self.root)
            for window, place in self.windows(plain, at):
                model.assert_rows(window, [a[i] for i in place])

    def windows(self, table, at):
        """The row beside one on either side, at the edges of its partition the row itself."""
        loader, index = table.loader(), table.index()
        keys = index["partition"].tolist()
        first = keys.index(keys[at])
        last = first + keys.count(keys[at]) - 1
        yield loader.get_rows(at, offsets=[-1, 0, 1], pad="edge"), [max(at - 1, first), at, min(at + 1, last)]

    @precondition(lambda self: any(item.commits for item in self.models.values()))
    @rule(data=st.data())
    def restore(self, data):
        name = data.draw(st.sampled_from([name for name, item in self.models.items() if item.commits]))
        item = self.models[name]
        numbers = [n for n in item.states if n > item.expired_to and n not in item.gone]
        if not numbers:
            return
        number = data.draw(st.sampled_from(numbers))
        if item.live and item.frozen:
            with pytest.raises(hub.errors.FrozenError):
                hub.restore(name, number, root=self.root)
            return
        hub.restore(name, number, root=self.root)
        if not item.live:
            item.tags = {}
        item.commits.append(item.commits[number - 1])
        item.keys, item.frozen = set(item.states[number][0]), item.states[number][1]

    @precondition(lambda self: self._live())
    @rule(data=st.data())
    def transfer(self, data):
        """To another root, where the rows are the same, and read without the first."""
        name = data.draw(st.sampled_from(self._live()))
        folder = uuid.uuid4().hex
        other = hub.Root(f"memory://{folder}")
        try:
            hub.transfer(name, other, root=self.root)
            model.assert_rows(hub.load(name, root=other)[:], self.models[name].commits[-1])
            assert hub.verify(name, root=other).problems == []
        finally:
            servers.forget_memory(folder)

    @precondition(lambda self: self._live(writable=True))
    @rule(parts=st.dictionaries(KEYS, PARTITION, min_size=1, max_size=2), data=st.data())
    def grow(self, parts, data):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        item = self.models[name]
        writer = hub.table_writer(name, root=self.root)
        if item.keys & parts.keys():
            with pytest.raises(hub.errors.ConflictError):
                write(writer, parts)
            return
        write(writer, parts)
        item.commits.append([*item.commits[-1], *laid(parts)])
        item.keys |= parts.keys()

    @precondition(lambda self: self._live())
    @rule(to=st.sampled_from(NAMES), move=st.booleans(), data=st.data())
    def publish(self, to, move, data):
        """Some rows of some tables, in any order, as a table."""
        sources = data.draw(st.lists(st.sampled_from(self._live()), min_size=1, max_size=2, unique=True))
        frames, rows = [], []
        for name in sources:
            index = hub.read_index(name, root=self.root)
            some = data.draw(st.lists(st.integers(0, max(0, len(index) - 1)), max_size=5)) if len(index) else []
            frames.append(index.iloc[some].assign(partition=name))
            rows.append([self.models[name].commits[-1][i] for i in some])
        index = pd.concat(frames)
        if self.models[to].live:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.write_index(index, to, move=move, root=self.root)
            return
        hub.write_index(index, to, move=move, root=self.root)
        keys = {name for name, some in zip(sources, rows, strict=True) if some}
        ordered = [row for _, some in sorted(zip(sources, rows, strict=True), key=lambda one: one[0]) for row in some]
        self.models[to].begin(ordered, keys, False)

    @precondition(lambda self: self._live())
    @rule(to=st.sampled_from(NAMES), data=st.data())
    def copy(self, to, data):
        source = data.draw(st.sampled_from(self._live()))
        if self.models[to].live:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.copy(source, to, root=self.root)
            return
        hub.copy(source, to, root=self.root)
        item = self.models[source]
        self.models[to].begin(item.commits[-1], item.keys, not item.frozen)

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def freeze(self, data):
        item = self.models[name := data.draw(st.sampled_from(self._live(writable=True)))]
        hub.freeze(name, root=self.root)
        item.commits.append(item.commits[-1])
        item.frozen = True
        with pytest.raises(hub.errors.FrozenError):
            hub.table_writer(name, root=self.root)

    @precondition(lambda self: self._live())
    @rule(data=st.data())
    def keep_a_loader(self, data):
        name = data.draw(st.sampled_from(self._live()))
        number = len(self.models[name].commits)
        loader = hub.row_loader(hub.read_index(name, root=self.root), root=self.root)
        self.loaders = [*self.loaders[-2:], (name, number, loader)]

    @invariant()
    def what_is_live_is_there(self):
        for name, item in self.models.items():
            assert hub.exists(name, root=self.root) == item.live
            if item.live:
                item.remember()

    @invariant()
    def loaders_read_what_they_saw(self):
        for name, number, loader in self.loaders:
            if number not in self.models[name].gone:
                model.assert_rows(list(loader.iter_rows()), self.models[name].commits[number - 1])

    @invariant()
    def nothing_is_damaged(self):
        for name in self._live():
            assert hub.verify(name, root=self.root).problems == []
            usage = hub.du(name, root=self.root)
            assert min(usage.own, usage.shared, usage.held) >= 0


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    quieten(monkeypatch)


@pytest.mark.timeout(900)
def test_any_sequence_of_operations_on_tables():
    run(Machine, everyday=8, whole=150, steps=rounds(20, 25))
