"""What sequences of operations do to versions of every kind: state machines of arrays, datasets and tables begin here."""

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.history.log import version as versions
from hubarray.history.maintenance import compact, garbage
from tests import servers
from tests.rounds import rounds


@dataclass
class VersionModel:
    """A version: what it holds at every commit (None: a deletion), and which commits may still be read."""

    commits: list = field(default_factory=list)
    expired_to: int = 0
    gone: set = field(default_factory=set)
    tags: dict = field(default_factory=dict)
    frozen: bool = False

    @property
    def live(self):
        return bool(self.commits) and self.commits[-1] is not None

    @property
    def now(self):
        return self.commits[-1]

    def add(self, held):
        self.commits.append(held)


class VersionMachine(RuleBasedStateMachine):
    """Operations that versions of every kind have, each checked against the model at once.

    A machine of one kind says what a version of it holds (``held``), and when two of these are the same (``same``).
    """

    def start(self, models):
        self.folder = uuid.uuid4().hex
        self.root = self.new_root()
        self.models = models
        self.handles = {}

    def new_root(self):
        return hub.Root(f"memory://{self.folder}")

    def teardown(self):
        servers.forget_memory(self.folder)

    def held(self, found):
        raise NotImplementedError

    def same(self, one, two):
        raise NotImplementedError

    def deleted(self, name):
        """What else a machine has to forget of a version."""

    def _live(self, writable=False):
        return [n for n, m in self.models.items() if m.live and not (writable and m.frozen)]

    def _handle(self, name):
        if name not in self.handles:
            self.handles[name] = hub.load(name, root=self.root)
        return self.handles[name]

    def _readable(self, data, model):
        kept = set(model.tags.values())
        numbers = [n for n, a in enumerate(model.commits, 1) if a is not None and (n > model.expired_to or n in kept)]
        return data.draw(st.sampled_from([n for n in numbers if n not in model.gone]))

    def _homes(self):
        return sorted({name.partition(":")[0] for name, model in self.models.items() if model.commits})

    @precondition(lambda self: self._live())
    @rule(data=st.data(), tag=st.sampled_from(["one", "two"]))
    def tag(self, data, tag):
        name = data.draw(st.sampled_from(self._live()))
        model = self.models[name]
        number = self._readable(data, model)
        if model.tags.get(tag, number) != number:
            with pytest.raises(hub.errors.AlreadyExistsError):
                hub.tag(f"{name}@{number}", tag, root=self.root)
            return
        hub.tag(f"{name}@{number}", tag, root=self.root)
        if tag not in model.tags:
            model.tags[tag] = number
            model.add(model.now)

    @precondition(lambda self: self._live())
    @rule(data=st.data(), keep=st.integers(1, 5))
    def expire(self, data, keep):
        name = data.draw(st.sampled_from(self._live()))
        model = self.models[name]
        to = max(model.expired_to, len(model.commits) - keep)
        assert hub.expire(name, keep_last=keep, root=self.root) == to
        if to > model.expired_to:
            model.expired_to = to
            model.add(model.now)

    @precondition(lambda self: self._homes())
    @rule(data=st.data())
    def collect(self, data):
        """As if more than a grace period had passed since everything so far."""
        home = data.draw(st.sampled_from(self._homes()))
        now = garbage.store_time
        garbage.store_time = lambda store: now(store) + timedelta(days=30)
        try:
            hub.collect_garbage(home, root=self.root)
        finally:
            garbage.store_time = now
        for name, model in self.models.items():
            if name.startswith(home) and model.commits:
                dead = range(1, (model.expired_to if model.live else len(model.commits) - 1) + 1)
                model.gone |= set(dead) - (set(model.tags.values()) if model.live else set())

    @precondition(lambda self: len(self._live()) > 1)
    @rule(data=st.data(), really=st.sampled_from([False, False, True]))
    def delete(self, data, really):
        if not really:
            return
        name = data.draw(st.sampled_from(self._live()))
        hub.delete(name, root=self.root)
        self.models[name].add(None)
        self.deleted(name)

    @rule()
    def reopen(self):
        versions._versions = versions._Versions()
        self.handles = {}

    @rule()
    def drop_caches(self):
        fetch._shared._memory.clear()
        fetch._shared._fetchers.clear()
        self.handles = {}

    @rule()
    def verify(self):
        for home in self._homes():
            assert hub.verify(home, root=self.root).problems == []

    @precondition(lambda self: self._homes())
    @rule(data=st.data())
    def travel(self, data):
        name = data.draw(st.sampled_from([name for name, model in self.models.items() if model.commits]))
        model = self.models[name]
        number = data.draw(st.integers(1, len(model.commits)))
        if number in model.gone or model.commits[number - 1] is None:
            with pytest.raises(hub.errors.NotFoundError):
                hub.load(f"{name}@{number}", root=self.root)
        else:
            assert self.same(self._held_at(f"{name}@{number}"), model.commits[number - 1])
        for tag, tagged in model.tags.items() if model.live else ():
            assert self.same(self._held_at(f"{name}@{tag}"), model.commits[tagged - 1])

    def _held_at(self, name):
        return self.held(hub.load(name, root=self.root))

    @invariant()
    def every_live_version_is_as_the_model_says(self):
        for name in self._live():
            result, model = self._handle(name), self.models[name]
            assert result.commit == len(model.commits)
            assert self.same(self.held(result), model.now)
            assert result.frozen == model.frozen


class CompactingMachine(VersionMachine):
    """Of kinds whose chunks are compacted."""

    @precondition(lambda self: self._live(writable=True))
    @rule(data=st.data())
    def compact(self, data):
        name = data.draw(st.sampled_from(self._live(writable=True)))
        if hub.compact(name, root=self.root).chunks:
            self.models[name].add(self.models[name].now)


def run(machine, *, everyday, whole, steps=40):
    """Run a machine as often as a run of the tests has time for; shrinking takes minutes, so steps stay as they are."""
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    settings = hypothesis.settings(
        max_examples=rounds(everyday, whole), stateful_step_count=steps, phases=phases, deadline=None
    )
    run_state_machine_as_test(machine, settings=settings)


def quieten(monkeypatch):
    """No message of a collection, and what lies in more than one place counts as scattered: all is small here."""
    monkeypatch.setattr(garbage, "announce", lambda message: None)
    monkeypatch.setattr(compact, "SCATTERED_FACTOR", 0)
