"""A small model of the protocol of docs/FORMAT.md: actors that interleave at every storage request.

Each actor is a generator that yields one request at a time and is given its
reply. A scheduler picks who goes next, lets time pass, pauses and kills
actors, and loses replies. An observer who sees every record that is ever
created knows what each commit should hold; :class:`Violation` is raised when
the store does not hold it, or when an actor was told something untrue.

``broken`` names rules that are left out, to see that their absence is noticed.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

CHUNK = 2
GRACE = 300
MAX_OVERLAY = 2
VERSIONS = (("x", "v0"), ("x", "v1"), ("y", "v0"), ("z", "v0"))

# A table, its staging version, and a table that it refers to; see table_model.py.
TABLES = (("t", "v0"), ("t", "w0"), ("u", "v0"))

TAGS = ("a", "b")

Version = tuple[str, str]
Steps = Generator[tuple[Any, ...], Any, Any]


class Violation(Exception):
    """A promise does not hold."""


class Lost(Exception):
    """The reply to a create was lost; it may or may not have been made."""


@dataclass(frozen=True)
class Record:
    number: int
    id: int
    line: int
    generation: int
    length: int = 0
    kind: str = "array"
    frozen: bool = False
    expired_to: int = 0
    tags: dict[str, int] = field(default_factory=dict)
    root: str | None = None
    overlay: dict[int, str | None] = field(default_factory=dict)
    homes: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    operation: tuple[Any, ...] = ()

    def keeps(self, number: int) -> bool:
        """Whether a commit up to this one has not expired."""
        return number > self.expired_to or number in self.tags.values()


@dataclass
class World:
    """The store, the clock, and what the observer knows."""

    rng: random.Random
    broken: frozenset[str]
    now: int = 0
    objects: dict[str, Any] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    expected: dict[Version, dict[int, list[int] | None]] = field(default_factory=dict)
    records: dict[Version, dict[int, Record]] = field(default_factory=dict)
    acknowledged: list[tuple[Version, int]] = field(default_factory=list)
    refused: list[tuple[Version, int]] = field(default_factory=list)
    counter: int = 0

    def fresh(self) -> int:
        self.counter += 1
        return self.counter

    def has(self, rule: str) -> bool:
        """Whether a rule is kept."""
        return rule not in self.broken

    def execute(self, request: tuple[Any, ...]) -> Any:
        verb, *rest = request
        if verb == "get":
            return self.objects.get(rest[0])
        if verb == "head":
            return rest[0] in self.objects
        if verb == "put":
            self._store(*rest)
            return None
        if verb == "create":
            return self._create(*rest)
        if verb == "delete":
            self.objects.pop(rest[0], None)
            self.times.pop(rest[0], None)
            return None
        if verb == "list":
            return sorted((key, self.times[key]) for key in self.objects if key.startswith(rest[0]))
        raise AssertionError(verb)

    def _store(self, key: str, value: Any) -> None:
        self.objects[key] = value
        self.times[key] = self.now

    def _create(self, key: str, value: Record) -> bool:
        if key in self.objects:
            return False
        self._store(key, value)
        self._observe(key, value)
        return True

    def _observe(self, key: str, record: Record) -> None:
        """Check a new record against what all before it say."""
        home, _, version, _ = key.split("/")
        place = (home, version)
        log, expected = self.records.setdefault(place, {}), self.expected.setdefault(place, {})
        if record.number in log:
            raise Violation(f"{key}: the number was taken before")
        if record.number > 1 and record.number - 1 not in log:
            raise Violation(f"{key}: leaves a gap")
        if record.id in [item.id for item in log.values()]:
            raise Violation(f"{key}: the same commit twice")
        before = log.get(record.number - 1)
        if before is not None and record.operation[0] not in ("create", "copy", "publish", "delete"):
            if before.frozen and record.operation[0] not in ("expire", "freeze", "tag", "untag"):
                raise Violation(f"{key}: writes to a frozen version")
            seen, line, generation = record.operation[-1]
            if record.operation[0] == "length" and before.length != seen:
                raise Violation(f"{key}: resizes an axis that somebody else resized")
            if (before.line, before.generation) != (line, generation):
                raise Violation(f"{key}: was meant for another array")
            if record.operation[0] == "add" and set(record.operation[1]) & set(before.keys):
                raise Violation(f"{key}: adds a partition that is there")
            if record.operation[0] == "tag" and not before.keeps(record.operation[2]):
                raise Violation(f"{key}: tags a commit that had expired")
        log[record.number] = record
        expected[record.number] = self._after(record, expected.get(record.number - 1))
        self.check(place, record.number)

    def _after(self, record: Record, before: list[int] | None) -> list[int] | None:
        what, *rest = record.operation
        if what in ("create", "overwrite"):
            return [0] * rest[0]
        if what == "publish":
            return list(rest[0])
        if what == "copy":
            source, number = rest[:2]
            copied = self.expected[source][number]
            return None if copied is None else list(copied)
        if what == "delete" or before is None:
            return None
        after = list(before)
        if what == "set":
            for index, value in rest[0].items():
                if index >= len(after):
                    raise Violation(f"a write to element {index} of {len(after)}")
                after[index] = value
        elif what == "append":
            after += rest[0]
        elif what == "add":
            after += rest[1]
        elif what == "length":
            after = (after + [0] * rest[0])[: rest[0]]
        return after

    def check(self, place: Version, number: int) -> None:
        """Whether a commit can be read and is what it should be."""
        record, expected = self.records[place][number], self.expected[place][number]
        if record.kind == "deleted" or expected is None:
            return
        result: list[int] = []
        for chunk in range(-(-record.length // CHUNK)):
            result += self._chunk(place, record, chunk)
        if any(result[record.length :]):
            raise Violation(f"{place}@{number}: elements beyond the edge are not fill value")
        if result[: record.length] != expected:
            raise Violation(f"{place}@{number}: holds {result[: record.length]} instead of {expected}")

    def _chunk(self, place: Version, record: Record, chunk: int) -> list[int]:
        if chunk in record.overlay:
            ref = record.overlay[chunk]
        elif record.root is None:
            ref = None
        elif record.root not in self.objects:
            raise Violation(f"{place}@{record.number}: its manifest is gone")
        else:
            ref = self.objects[record.root].get(chunk)
        if ref is not None and ref not in self.objects:
            raise Violation(f"{place}@{record.number}: chunk {chunk} is gone")
        return [0] * CHUNK if ref is None else list(self.objects[ref])

    def check_everything(self) -> None:
        """All that is live can be read, the logs are whole, and nobody was told what is not so."""
        for place, log in self.records.items():
            newest = log[max(log)]
            for number in log:
                stored = self.objects.get(record_key(place, number))
                if stored is None:
                    raise Violation(f"{place}@{number}: the record is gone")
                if newest.kind != "deleted" and newest.keeps(number):
                    if stored.kind == "stub":
                        raise Violation(f"{place}@{number}: a live commit became a stub")
                    self.check(place, number)
        for place, id_ in self.acknowledged:
            if [record.id for record in self.records.get(place, {}).values()].count(id_) != 1:
                raise Violation(f"{place}: an acknowledged commit is not in the log once")
        for place, id_ in self.refused:
            if any(record.id == id_ for record in self.records.get(place, {}).values()):
                raise Violation(f"{place}: a commit that was reported as failed is in the log")


def record_key(place: Version, number: int) -> str:
    return f"{place[0]}/log/{place[1]}/{number:04d}"


def hint_key(place: Version) -> str:
    return f"{place[0]}/hint/{place[1]}"


def newest_after(place: Version, known: Record | None) -> Steps:
    number = known.number if known else 0
    while (yield ("head", record_key(place, number + 1))):
        number += 1
    if number == 0:
        return None
    return known if known and known.number == number else (yield ("get", record_key(place, number)))


def opened(world: World, place: Version) -> Steps:
    """The newest record as a new process finds it: by the hint, and probing beyond."""
    hint = yield ("get", hint_key(place))
    if hint is None:
        return (yield from newest_after(place, None))
    record = yield ("get", record_key(place, hint))
    if record is None:
        raise Violation(f"{place}: the hint names {hint}, which is not there")
    return (yield from newest_after(place, record)) if world.has("probe beyond the hint") else record


def node_of(record: Record) -> Steps:
    return ((yield ("get", record.root)) or {}) if record.root else {}


def ref_of(record: Record, chunk: int) -> Steps:
    if chunk in record.overlay:
        return record.overlay[chunk]
    return (yield from node_of(record)).get(chunk)


class Change:
    """An operation that can be applied to any record of its version."""

    def __init__(self, world: World, what: str, *values: Any) -> None:
        self.world = world
        self.what = what
        self.values = values
        self.uploads = False
        self._done: dict[int, tuple[Any, str | None]] = {}
        self._first: Record | None = None
        self._folded: str | None = None

    def apply(self, place: Version, base: Record) -> Steps:
        """The record that follows base, less number and id; a string when it cannot; None when it is so already."""
        self._first = self._first or base
        what = self.what
        if what == "set":
            return (yield from self._set(place, base, dict(self.values[0]), base.length))
        if what == "append":
            old_end = not self.world.has("append to the newest end")
            start = self._first.length if old_end else base.length
            elements = {start + i: value for i, value in enumerate(self.values[0])}
            return (yield from self._set(place, base, elements, max(base.length, start + len(elements))))
        if what == "length":
            return (yield from self._resize(place, base, self.values[0]))
        if what == "add":
            return (yield from self._added(place, base, *self.values))
        if what == "freeze":
            return None if base.frozen else replace(base, frozen=True)
        if what == "expire":
            number = base.number - self.values[0]
            return replace(base, expired_to=number) if number > base.expired_to else None
        if what == "tag":
            return self._tagged(base, *self.values)
        if what == "untag":
            tags = {tag: number for tag, number in base.tags.items() if tag != self.values[0]}
            return replace(base, tags=tags) if self.values[0] in base.tags else "no tag"
        if what == "delete":
            return replace(base, kind="deleted", root=None, overlay={}, homes=frozenset(), frozen=False)
        if what == "overwrite":
            return replace(
                base, length=self.values[0], root=None, overlay={}, generation=self.world.fresh(), homes=frozenset()
            )
        raise AssertionError(what)

    def _added(self, place: Version, base: Record, keys: list[str], elements: list[int], refs: list[str]) -> Steps:
        """Chunk files that workers uploaded, at the end of a table."""
        if set(keys) & set(base.keys) and self.world.has("a partition that is there is a conflict"):
            return "conflict"
        first = base.length // CHUNK
        grown = yield from self._with(
            place, base, {first + i: ref for i, ref in enumerate(refs)}, base.length + len(elements)
        )
        return replace(grown, keys=(*base.keys, *keys))

    def _tagged(self, base: Record, tag: str, number: int) -> Record | str | None:
        there = base.tags.get(tag)
        if there is not None:
            return None if there == number else "taken"
        if not base.keeps(number) and self.world.has("what expired is not tagged"):
            return "gone"
        return replace(base, tags=base.tags | {tag: number})

    def _set(self, place: Version, base: Record, elements: dict[int, int], length: int) -> Steps:
        if max(elements, default=-1) >= length and self.world.has("rows that no longer fit are a conflict"):
            return "conflict"
        first = self._first or base
        shape = length if self.world.has("whole is decided again") else first.length
        changes: dict[int, str | None] = {}
        for chunk in sorted({index // CHUNK for index in elements}):
            inside = range(chunk * CHUNK, min((chunk + 1) * CHUNK, shape))
            whole = all(index in elements for index in inside)
            old = yield from ref_of(base, chunk)
            content = [0] * CHUNK
            if not whole:
                if old is not None:
                    stored = yield ("get", old)
                    if stored is None:
                        return "gone"
                    content = list(stored)
                before = list(content)
            for index, value in elements.items():
                if index // CHUNK == chunk:
                    content[index % CHUNK] = value
            if not whole and content == before and length == base.length:
                continue
            changes[chunk] = yield from self._upload(place, chunk, old, content)
        if not changes:
            return None
        return (yield from self._with(place, base, changes, length))

    def _resize(self, place: Version, base: Record, length: int) -> Steps:
        if self._first is not None and base.length != self._first.length and self.world.has("one axis resized by both"):
            return "conflict"
        if length == base.length:
            return None
        changes: dict[int, str | None] = {}
        if length < base.length and length % CHUNK and self.world.has("a shrink rewrites what it cuts"):
            chunk = length // CHUNK
            old = yield from ref_of(base, chunk)
            if old is not None:
                stored = yield ("get", old)
                if stored is None:
                    return "gone"
                content = [value if i < length % CHUNK else 0 for i, value in enumerate(stored)]
                changes[chunk] = yield from self._upload(place, chunk, old, content)
        return (yield from self._with(place, base, changes, length))

    def _upload(self, place: Version, chunk: int, old: str | None, content: list[int]) -> Steps:
        state = (old, tuple(content))
        done = self._done.get(chunk)
        if done is not None and (done[0] == state or not self.world.has("an upload is used again only on its base")):
            return done[1]
        ref: str | None = None
        if any(content):
            ref = f"{place[0]}/packs/{self.world.fresh()}"
            self.uploads = True
            if self.world.has("packs before the record"):
                yield ("put", ref, tuple(content))
            else:
                self.late = (ref, tuple(content))
        self._done[chunk] = (state, ref)
        return ref

    def _with(self, place: Version, base: Record, changes: dict[int, str | None], length: int) -> Steps:
        overlay, root = dict(base.overlay), base.root
        if not self.world.has("a null ref hides the manifest"):
            changes = {chunk: ref for chunk, ref in changes.items() if ref is not None}
        overlay.update(changes)
        count = -(-length // CHUNK)
        overlay = {chunk: ref for chunk, ref in overlay.items() if chunk < count}
        shrunk = length < base.length and root is not None and self.world.has("a shrink prunes the manifest")
        if len(overlay) > MAX_OVERLAY or shrunk:
            if self._folded is not None and not self.world.has("a folded root is kept only with what changed since"):
                root = self._folded
            else:
                node = (yield from node_of(base)) | overlay
                node = {chunk: ref for chunk, ref in node.items() if ref is not None and chunk < count}
                root = f"{place[0]}/nodes/{self.world.fresh()}"
                self.uploads = True
                yield ("put", root, node)
            self._folded, overlay = root, {}
        return replace(base, length=length, root=root, overlay=overlay)


def commit(world: World, place: Version, handle: Record, change: Change) -> Steps:
    """Apply a change until it is in the log; returns what the caller is told."""
    began, id_ = min(world.now, getattr(change, "began", world.now)), world.fresh()
    base = yield from newest_after(place, handle)
    first = base
    while True:
        if base.line != handle.line and world.has("another line is refused"):
            return "not found"
        if base.kind == "deleted":
            return "not found"
        same_line = base.line == handle.line
        if same_line and base.generation != handle.generation and world.has("another generation is a conflict"):
            return "conflict"
        may = ("freeze", "expire", "delete", "tag", "untag")
        if base.frozen and change.what not in may and world.has("frozen is final"):
            return "frozen"
        draft = yield from change.apply(place, base)
        if isinstance(draft, str):
            world.refused.append((place, id_))
            return draft
        if draft is None:
            newest = base
            if world.has("so already holds only against the newest"):
                newest = yield from newest_after(place, base)
            if newest.number != base.number:
                base = newest
                continue
            _check_elided(world, place, first, change)
            return "same"
        token = (first.length, handle.line, handle.generation)
        homes = draft.homes | getattr(change, "homes", frozenset()) if draft.kind == "array" else frozenset()
        operation = (change.what, *change.values, token)
        record = replace(draft, number=base.number + 1, id=id_, operation=operation, homes=homes)
        if (
            change.uploads
            and world.now - began > GRACE // 2
            and world.has("a commit is made within half the grace period")
        ):
            world.refused.append((place, id_))
            return "too old"
        outcome, base = yield from create(world, place, record, handle_base=base)
        if hasattr(change, "late"):
            yield ("put", *change.late)
        if outcome != "lost race":
            return outcome
        base = yield from newest_after(place, base)


def create(world: World, place: Version, record: Record, handle_base: Record | None) -> Steps:
    key = record_key(place, record.number)
    if not world.has("the hint follows the record"):
        yield ("put", hint_key(place), record.number)
    for _ in range(3):
        try:
            if (yield ("create", key, record)):
                break
            there = yield ("get", key)
            if there.id == record.id and world.has("one's own commit is recognised"):
                break
            return "lost race", there
        except Lost:
            continue
    else:
        return "unknown", handle_base
    world.acknowledged.append((place, record.id))
    if world.has("the hint follows the record"):
        yield ("put", hint_key(place), record.number)
    return "ok", record


def _check_elided(world: World, place: Version, first: Record, change: Change) -> None:
    """ "So already": some commit that was the newest during the call has to agree."""
    if change.what != "set":
        return
    for number in range(first.number, max(world.records[place]) + 1):
        state = world.expected[place][number]
        if state is not None and all(i < len(state) and state[i] == v for i, v in change.values[0].items()):
            newer = range(number + 1, max(world.records[place]) + 1)
            if (
                number == max(world.records[place])
                or not newer
                or world.has("so already holds only against the newest")
            ):
                return
    raise Violation(f"{place}: a write was said to be there already and is not")


def creator(world: World, place: Version, length: int) -> Steps:
    base = yield from opened(world, place)
    if base is not None and base.kind != "deleted":
        return
    yield from begin(world, place, base, Record(0, 0, 0, 0, length, operation=("create", length)), world.now)


def begin(world: World, place: Version, base: Record | None, record: Record, began: int) -> Steps:
    """Write the first record of a line; after a long deletion it expires what was before."""
    expired_to = base.expired_to if base else 0
    if base is not None and world.has("a creation after a long deletion expires what was before"):
        times = dict((yield ("list", f"{place[0]}/log/{place[1]}/")))
        if world.now - times[record_key(place, base.number)] > GRACE // 2:
            expired_to = base.number
    first = replace(
        record, number=base.number + 1 if base else 1, id=world.fresh(), line=world.fresh(),
        generation=world.fresh(), expired_to=expired_to, tags={},
    )  # fmt: skip
    if world.now - began > GRACE // 2 and world.has("a commit is made within half the grace period"):
        return
    yield from create(world, place, first, None)


def writer(world: World, place: Version) -> Steps:
    """A process that opens a version and makes some changes to it."""
    handle = yield from opened(world, place)
    rng = world.rng
    for _ in range(rng.randint(1, 3)):
        if handle is None or handle.kind != "array":
            return
        what = rng.choices(
            ["set", "fill", "append", "length", "freeze", "expire", "delete", "overwrite", "tag", "untag"],
            [8, 3, 3, 4, 0.4, 2, 1, 0.6, 1.5, 1],
        )[0]
        length = handle.length
        if what in ("set", "fill"):
            first = rng.randrange(max(1, length))
            count = rng.randint(1, 4)
            elements = {i: 0 if what == "fill" else world.fresh() for i in range(first, min(length, first + count))}
            if what == "set" and rng.random() < 0.2:
                elements = dict.fromkeys(elements, 7)
            change = Change(world, "set", elements)
        elif what == "append":
            change = Change(world, "append", [world.fresh() for _ in range(rng.randint(1, 3))])
        elif what == "length":
            change = Change(world, "length", rng.randrange(9))
        elif what == "expire":
            change = Change(world, "expire", rng.randint(1, 2))
        elif what == "overwrite":
            change = Change(world, "overwrite", rng.randint(1, 8))
        elif what == "tag":
            change = Change(world, "tag", rng.choice(TAGS), rng.randint(1, handle.number))
        elif what == "untag":
            change = Change(world, "untag", rng.choice(sorted(handle.tags) or TAGS))
        else:
            change = Change(world, what)
        if change.what == "set" and not change.values[0]:
            continue
        yield from commit(world, place, handle, change)
        handle = yield from newest_after(place, handle)


def untagger(world: World, place: Version) -> Steps:
    """A process that takes every tag away."""
    handle = yield from opened(world, place)
    if handle is not None and handle.kind == "array":
        for tag in sorted(handle.tags):
            yield from commit(world, place, handle, Change(world, "untag", tag))


def _overwritten_and_expired(world: World, place: Version) -> Steps:
    """A version whose older commits expired, but for a tagged one, and hold data that the newest does not."""
    for _ in range(2):
        handle = yield from opened(world, place)
        if handle.kind != "array" or not handle.length:
            return
        values = {i: world.fresh() for i in range(handle.length)}
        yield from commit(world, place, handle, Change(world, "set", values))
    if world.rng.random() < 0.5:
        yield from commit(world, place, handle, Change(world, "tag", TAGS[0], handle.number))
    yield from commit(world, place, handle, Change(world, "expire", 1))


def copier(world: World, source: Version, target: Version) -> Steps:
    began = world.now
    newest = yield from opened(world, source)
    if newest is None or newest.kind != "array":
        return
    everything = range(1, newest.number + 1)
    live = [n for n in everything if newest.keeps(n) or not world.has("what expired is not copied")]
    number = world.rng.choice(sorted(newest.tags.values()) if newest.tags and world.rng.random() < 0.5 else live)
    record = yield ("get", record_key(source, number))
    if record is None or record.kind != "array":
        return
    there = yield from opened(world, target)
    if there is not None and there.kind != "deleted":
        return
    homes = (record.homes | {source[0]}) - {target[0]}
    if not world.has("a copy of a copy refers to every home"):
        homes = frozenset({source[0]}) - {target[0]}
    copy = Record(
        0, 0, 0, 0, record.length, root=record.root, overlay=record.overlay,
        homes=(record.homes | {source[0]}) - {target[0]}, operation=("copy", source, number),
    )  # fmt: skip
    if world.has("a copy writes a referrer first"):
        for home in sorted(homes):
            yield ("put", f"{home}/referrers/{world.fresh()}", target[0])
    yield from begin(world, target, there, copy, began)


def collector(world: World, home: str) -> Steps:
    """A process that collects now and then."""
    for _ in range(world.rng.randint(1, 3)):
        yield from collect(world, home)


def collect(world: World, home: str) -> Steps:
    """Mark, then delete what is neither marked nor young, within half the grace period."""
    for _ in range(3):
        began = world.now
        cutoff = began - GRACE if world.has("what is young is kept") else began
        logs = yield from _logs(world, home, cutoff)
        foreign: list[Record] = []
        notes = yield ("list", f"{home}/referrers/")
        reached: set[str] = set()
        for other in sorted({world.objects[key] for key, _ in notes if key in world.objects} - {home}):
            for _, records, dead in (yield from _logs(world, other, cutoff)):
                live = [r for n, r in records.items() if n not in dead and home in r.homes and r.kind == "array"]
                reached |= {other} if live else set()
                foreign += live
        roots = foreign + [r for _, records, dead in logs for n, r in records.items() if n not in dead]
        marked: set[str | None] = set()
        for record in roots:
            marked.add(record.root)
            marked |= set(record.overlay.values())
            marked |= set((yield from node_of(record)).values())
        for place, records, dead in logs:
            for number in sorted(dead):
                if records[number].kind != "stub":
                    key = record_key(place, number)
                    stub = replace(records[number], kind="stub", root=None, overlay={})
                    yield ("put", key, stub) if world.has("a number stays taken") else ("delete", key)
        listed = (yield ("list", f"{home}/packs/")) + (yield ("list", f"{home}/nodes/"))
        listed += [(key, t) for key, t in notes if world.objects.get(key) not in reached | {None}]
        doomed = [key for key, written in listed if key not in marked and written < cutoff]
        for key in doomed:
            if world.now - began > GRACE // 2 and world.has("an old mark is made again"):
                break
            yield ("delete", key)
        else:
            return


def _logs(world: World, home: str, cutoff: int) -> Steps:
    result = []
    for place in VERSIONS + TABLES:
        if place[0] != home:
            continue
        newest = yield from opened(world, place)
        if newest is None:
            continue
        listing = yield ("list", f"{home}/log/{place[1]}/")
        records = {}
        for number in range(1, newest.number + 1):
            record = yield ("get", record_key(place, number))
            if record is not None:
                records[number] = record
        old = {int(key[-4:]) for key, written in listing if written < cutoff}
        if not world.has("what expired is kept for the grace period"):
            old = set(records)
        dead_to = max((records[n].expired_to for n in old if n in records), default=0)
        if newest.number in old and newest.kind == "deleted":
            dead_to = newest.number
        dead = {n for n in records if n <= dead_to and n != newest.number}
        if newest.kind != "deleted" or newest.number not in old:
            dead -= _tagged_lately(world, records, old, newest)
        result.append((place, records, dead))
    return result


def _tagged_lately(world: World, records: dict[int, Record], old: set[int], newest: Record) -> set[int]:
    """What a record named that is the newest, or was it within the grace period."""
    if not world.has("a tagged commit does not expire"):
        return set()
    recent = {newest.number}
    if world.has("a tag that is taken away keeps for the grace period"):
        recent |= {max(old, default=newest.number)} | (set(records) - old)
    return {number for item in recent if item in records for number in records[item].tags.values()}


def reader(world: World, place: Version) -> Steps:
    """A handle that looks again and again: numbers never go back, and the newest can always be read."""
    last, known = 0, None
    for _ in range(world.rng.randint(2, 5)):
        if known is not None and not world.has("a handle never goes back"):
            hint = yield ("get", hint_key(place))
            known = (yield ("get", record_key(place, hint))) if hint else known
        else:
            known = (yield from newest_after(place, known)) if known else (yield from opened(world, place))
        if known is None:
            return
        if known.number < last:
            raise Violation(f"{place}: a reader saw {last} and then {known.number}")
        last = known.number
        if known.kind == "array" and known.number == max(world.records[place]):
            world.check(place, known.number)


def explore(seed: int, broken: frozenset[str] = frozenset()) -> None:
    """One random interleaving."""
    rng = random.Random(seed)
    world = World(rng, broken)
    _interleave(world, {0: creator(world, VERSIONS[0], rng.randint(1, 8))}, calm=True)
    if rng.random() < 0.5:
        x, y, z = VERSIONS[0], VERSIONS[2], VERSIONS[3]
        for before in (writer(world, x), copier(world, x, y), copier(world, y, z)):
            _interleave(world, {0: before}, calm=True)
    if rng.random() < 0.3:
        _interleave(world, {0: _overwritten_and_expired(world, VERSIONS[0])}, calm=True)
        world.now += 2 * GRACE
    actors: dict[int, Steps] = {}
    first = max(world.records.get(VERSIONS[0], {}).items(), default=(0, None))[1]
    if first is not None and first.tags and rng.random() < 0.5:
        x, z = VERSIONS[0], VERSIONS[3]
        actors = {-1: untagger(world, x), -2: copier(world, x, z), -3: collector(world, x[0])}
    for number in range(rng.randint(3, 8)):
        place = rng.choices(VERSIONS, [6, 2, 2, 1])[0]
        kinds = ["writer", "copier", "collector", "reader", "creator", "untagger"]
        kind = rng.choices(kinds, [7, 4, 4, 2, 2, 1])[0]
        if kind == "writer":
            actors[number] = writer(world, place)
        elif kind == "copier":
            target = rng.choice([item for item in VERSIONS if item != place])
            actors[number] = copier(world, place, target)
        elif kind == "collector":
            actors[number] = collector(world, place[0])
        elif kind == "reader":
            actors[number] = reader(world, place)
        elif kind == "untagger":
            actors[number] = untagger(world, place)
        else:
            actors[number] = creator(world, place, rng.randint(1, 8))
    _interleave(world, actors)
    for home in ("x", "y", "z"):
        world.now += 2 * GRACE
        _interleave(world, {0: collect(world, home)}, calm=True)
    world.check_everything()


def _interleave(world: World, actors: dict[int, Steps], calm: bool = False) -> None:
    rng = world.rng
    requests = {number: next(steps, None) for number, steps in actors.items()}
    wakes = dict.fromkeys(actors, 0)
    burst: int | None = None
    while live := [number for number in actors if requests[number] is not None]:
        world.now += 1
        if not calm and rng.random() < 0.01 and all(_may_pause(requests[number]) for number in live):
            world.now += rng.choice([GRACE, 2 * GRACE])
        awake = [number for number in live if wakes[number] <= world.now]
        if not awake:
            world.now = min(wakes[number] for number in live)
            continue
        chosen = burst if burst in awake and rng.random() < 0.6 else rng.choice(awake)
        burst = chosen
        request = requests[chosen]
        if not calm and rng.random() < 0.03 and _may_pause(request):
            wakes[chosen] = world.now + rng.choice([GRACE // 4, GRACE, 3 * GRACE])
            continue
        if not calm and rng.random() < 0.004:
            requests[chosen] = None
            actors[chosen].close()
            continue
        requests[chosen] = _step(world, actors[chosen], request, calm)


def _may_pause(request: tuple[Any, ...] | None) -> bool:
    """Whether a request may be under way for longer than the grace period allows.

    One that was checked against the clock may not: no request lasts for half a grace period. A create that names nothing
    of its own may, as when a machine sleeps between the check and the request.
    """
    if request is None or request[0] == "delete":
        return False
    if request[0] == "create":
        return request[2].operation[0] in ("freeze", "expire", "overwrite", "delete")
    return True


def _step(world: World, steps: Steps, request: Any, calm: bool) -> Any:
    try:
        if request[0] == "create" and not calm and world.rng.random() < 0.15:
            if world.rng.random() < 0.7:
                world.execute(request)
            return steps.throw(Lost())
        return steps.send(world.execute(request))
    except StopIteration:
        return None
