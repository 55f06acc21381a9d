"""Datasets in the model of the protocol: several arrays in one record, whose chunks share the manifest's numbers.

To the log and the collector a dataset is numbered blobs, as an array is. What is new is which of the numbers are whose:
they are given out as chunks are written, from the first that nobody was ever given, and by whoever writes last.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from tests.protocol.model import (
    CHUNK,
    GRACE,
    TABLES,
    Change,
    Record,
    Steps,
    Version,
    Violation,
    World,
    _interleave,
    begin,
    collect,
    collector,
    commit,
    newest_after,
    node_of,
    opened,
    reader,
)
from tests.protocol.table_model import referred

DATASET, REFERENCE = TABLES[0], TABLES[2]
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Member:
    """One array: its id, its length, whether it grows with the others, and the manifest's number of each chunk."""

    id: int
    length: int
    shared: bool = True
    numbers: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetRecord(Record):
    members: dict[str, Member] = field(default_factory=dict)
    following: int = 0

    @property
    def rows(self) -> int:
        """The length that arrays which grow together have."""
        return next((member.length for member in self.members.values() if member.shared), 0)


class DatasetWorld(World):
    """Knows what each array of each commit should hold."""

    def _after(self, record: Record, before: Any) -> Any:
        what, *rest = record.operation
        if record.kind == "deleted" or (before is None and what != "publish"):
            return None
        if place_of(record) != DATASET and not isinstance(record, DatasetRecord):
            return super()._after(record, before)
        if what == "publish":
            return {name: [] for name in rest[0]}
        after = {name: list(values) for name, values in before.items()}
        assert isinstance(record, DatasetRecord)
        if what == "pair":
            for name in rest[1] or [item for item in after if record.members[item].shared]:
                after[name] += rest[0]
        elif what == "write":
            for name, id_, elements in rest[0]:
                if name not in after or record.members[name].id != id_:
                    raise Violation(f"a write to {name}, which is another array now")
                for index, value in elements.items():
                    after[name][index] = value
        elif what == "drop":
            del after[rest[0]]
        elif what == "new":
            after[rest[0]] = [0] * record.rows if rest[1] is None else list(rest[1])
        return after

    def check(self, place: Version, number: int) -> None:
        """Whether a commit can be read, is what it should be, and has its arrays in step."""
        record, expected = self.records[place][number], self.expected[place][number]
        if not isinstance(record, DatasetRecord):
            super().check(place, number)
            return
        if record.kind == "deleted" or expected is None:
            return
        if len({member.length for member in record.members.values() if member.shared}) > 1:
            raise Violation(f"{place}@{number}: arrays are out of step")
        if set(record.members) != set(expected):
            raise Violation(f"{place}@{number}: has {sorted(record.members)} instead of {sorted(expected)}")
        given = [number_ for member in record.members.values() for number_ in member.numbers.values()]
        if len(set(given)) != len(given):
            raise Violation(f"{place}@{number}: two chunks have one number")
        for name, member in record.members.items():
            result: list[int] = []
            for chunk in range(-(-member.length // CHUNK)):
                result += self._chunk(place, record, member.numbers[chunk]) if chunk in member.numbers else [0] * CHUNK
            if result[: member.length] != expected[name]:
                raise Violation(f"{place}@{number}: {name} is {result[: member.length]} instead of {expected[name]}")


def place_of(record: Record) -> Version:
    return DATASET if isinstance(record, DatasetRecord) else REFERENCE


class DatasetChange(Change):
    """An operation on arrays of a dataset."""

    def apply(self, place: Version, base: Record) -> Steps:
        """See :class:`Change`."""
        if self.what in ("expire", "delete"):
            return (yield from super().apply(place, base))
        assert isinstance(base, DatasetRecord)
        self._first = first = self._first or base
        assert isinstance(first, DatasetRecord)
        if self.what == "pair":
            newest = self.world.has("append to the newest end")
            starts = (base if newest else first).members
            shared = [name for name, member in base.members.items() if member.shared]
            names = self.values[1] or shared
            if not names or not set(names) <= set(starts) or not set(names) <= set(base.members):
                return "conflict"
            edits = {name: {starts[name].length + i: value for i, value in enumerate(self.values[0])} for name in names}
            lengths = {name: max(base.members[name].length, max(some) + 1) for name, some in edits.items()}
            return (yield from self._edited(place, base, edits, lengths))
        if self.what == "write":
            for name, id_, elements in self.values[0]:
                there = base.members.get(name)
                by_id = self.world.has("an array is known by its id")
                if there is None or (by_id and there.id != id_) or max(elements) >= there.length:
                    return "conflict"
            edits = {name: elements for name, _, elements in self.values[0]}
            return (yield from self._edited(place, base, edits, {}))
        if self.what == "drop":
            if self.values[0] not in base.members:
                return "gone"
            return self._dropped(base, self.values[0])
        return self._new(base, *self.values)

    def _edited(
        self, place: Version, base: DatasetRecord, edits: dict[str, dict[int, int]], lengths: dict[str, int]
    ) -> Steps:
        first = self._first
        assert isinstance(first, DatasetRecord)
        members, changes = dict(base.members), {}
        following = base.following
        if not self.world.has("numbers are given out behind those of the newest record"):
            following = first.following
        for name, elements in edits.items():
            item = members[name]
            numbers = dict(item.numbers)
            for chunk in sorted({index // CHUNK for index in elements}):
                old = yield from _ref(base, numbers.get(chunk))
                content = [0] * CHUNK
                if old is not None:
                    stored = yield ("get", old)
                    if stored is None:
                        return "gone"
                    content = list(stored)
                for index, value in elements.items():
                    if index // CHUNK == chunk:
                        content[index % CHUNK] = value
                if chunk not in numbers:
                    numbers[chunk], following = following, following + 1
                changes[numbers[chunk]] = yield from self._upload(place, (item.id, chunk), old, content)
            members[name] = replace(item, numbers=numbers, length=lengths.get(name, item.length))
        drawn = yield from self._with(place, base, changes, CHUNK << 20)
        return replace(drawn, length=0, members=members, following=max(following, base.following))

    def _dropped(self, base: DatasetRecord, name: str) -> DatasetRecord:
        gone = set(base.members[name].numbers.values())
        members = {other: member for other, member in base.members.items() if other != name}
        overlay = base.overlay | dict.fromkeys(gone)
        following = base.following
        if not self.world.has("a number that was given out is not given again") and gone:
            following = min(gone)
        return replace(base, members=members, overlay=overlay, following=following)

    def _new(self, base: DatasetRecord, name: str, content: list[int] | None, id_: int, refs: list[str]) -> Any:
        if name in base.members:
            return "taken"
        if content is None:
            return replace(base, members=base.members | {name: Member(id_, base.rows)})
        numbers = {chunk: base.following + chunk for chunk in range(len(refs))}
        overlay = base.overlay | {numbers[chunk]: ref for chunk, ref in enumerate(refs)}
        member = Member(id_, len(content), shared=False, numbers=numbers)
        return replace(
            base, members=base.members | {name: member}, overlay=overlay, following=base.following + len(refs)
        )


def _ref(record: Record, number: int | None) -> Steps:
    if number is None:
        return None
    if number in record.overlay:
        return record.overlay[number]
    return (yield from node_of(record)).get(number)


def maker(world: World) -> Steps:
    """Make the dataset, with two arrays that grow together."""
    members = {name: Member(world.fresh(), 0) for name in NAMES[:2]}
    record = DatasetRecord(0, 0, 0, 0, members=members, operation=("publish", list(members)))
    newest = yield from opened(world, DATASET)
    if newest is None or newest.kind == "deleted":
        yield from begin(world, DATASET, newest, record, world.now)


def writer(world: World) -> Steps:
    """A process that appends, writes to several arrays at once, and adds, drops and adopts arrays."""
    handle = yield from opened(world, DATASET)
    for _ in range(world.rng.randint(1, 4)):
        if not isinstance(handle, DatasetRecord) or handle.kind != "array":
            return
        change = yield from _drawn(world, handle)
        if change is not None:
            told = yield from commit(world, DATASET, handle, change)
            if change.what == "pair" and change.values[1] and told == "ok":
                rest = [
                    name for name, member in handle.members.items() if member.shared and name not in change.values[1]
                ]
                if rest:
                    again = yield from newest_after(DATASET, handle)
                    yield from commit(world, DATASET, again, DatasetChange(world, "pair", change.values[0], rest))
        handle = yield from newest_after(DATASET, handle)


def _drawn(world: World, handle: DatasetRecord) -> Steps:
    rng = world.rng
    what = rng.choices(["pair", "write", "drop", "new", "adopt", "expire", "delete"], [6, 5, 1.5, 2, 1.5, 1, 0.3])[0]
    if what == "pair":
        values = [world.fresh() for _ in range(rng.randint(1, 3))]
        item = None
        if not world.has("arrays that grow together grow in one commit"):
            item = [name for name, member in handle.members.items() if member.shared][:1]
        return DatasetChange(world, "pair", values, item)
    if what == "write":
        some = [name for name, member in handle.members.items() if member.length and rng.random() < 0.7]
        edits = []
        for name in some:
            at = rng.randrange(handle.members[name].length)
            edits.append((name, handle.members[name].id, {at: world.fresh()}))
        return DatasetChange(world, "write", edits) if edits else None
    if what == "drop":
        return DatasetChange(world, "drop", rng.choice(NAMES))
    if what == "new":
        return DatasetChange(world, "new", rng.choice(NAMES), None, world.fresh(), [])
    if what == "adopt":
        return (yield from _adoption(world))
    return DatasetChange(world, what, *([rng.randint(1, 2)] if what == "expire" else []))


def _adoption(world: World) -> Steps:
    """An array of another name, whose chunks stay where they are."""
    began = world.now
    source = yield from opened(world, REFERENCE)
    if source is None or source.kind != "array" or isinstance(source, DatasetRecord):
        return None
    refs = {**(yield from node_of(source)), **source.overlay}
    content = world.expected[REFERENCE][source.number]
    if content is None or not all(refs.get(chunk) for chunk in range(-(-source.length // CHUNK))):
        return None
    if world.has("an adopted array's home is referred to first"):
        yield ("put", f"{REFERENCE[0]}/referrers/{world.fresh()}", DATASET[0])
    change = DatasetChange(world, "new", "c", list(content), world.fresh(), [refs[chunk] for chunk in sorted(refs)])
    change.uploads, change.homes, change.began = True, frozenset({REFERENCE[0]}), began
    return change


def remover(world: World) -> Steps:
    """A process that deletes the array that others adopt."""
    newest = yield from opened(world, REFERENCE)
    if newest is not None and newest.kind == "array":
        yield from commit(world, REFERENCE, newest, Change(world, "delete"))


def explore_datasets(seed: int, broken: frozenset[str] = frozenset()) -> None:
    """One random interleaving."""
    rng = random.Random(seed)
    world = DatasetWorld(rng, broken)
    _interleave(world, {0: referred(world)}, calm=True)
    _interleave(world, {0: maker(world)}, calm=True)
    if rng.random() < 0.5:
        _interleave(world, {0: writer(world)}, calm=True)
    actors: dict[int, Steps] = {}
    for number in range(rng.randint(3, 7)):
        kind = rng.choices(["writer", "collector", "other", "remover", "reader", "maker"], [6, 2, 2, 1, 1, 0.5])[0]
        actors[number] = {
            "writer": lambda: writer(world), "collector": lambda: collector(world, DATASET[0]),
            "other": lambda: collector(world, REFERENCE[0]), "remover": lambda: remover(world),
            "reader": lambda: reader(world, DATASET), "maker": lambda: maker(world),
        }[kind]()  # fmt: skip
    _interleave(world, actors)
    for home in (DATASET[0], REFERENCE[0]):
        world.now += 2 * GRACE
        _interleave(world, {0: collect(world, home)}, calm=True)
    world.check_everything()
