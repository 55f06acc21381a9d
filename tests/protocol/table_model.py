"""Tables in the model of the protocol: workers upload chunk files, drivers hold parts in a staging version and publish.

To the log, the manifest and the collector a table is numbered blobs, as an array is: so it is one here, whose chunks are
chunk files. What is new is who uploads them, and when: workers, long before a driver's commit; and that they may be
another table's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.protocol.model import (
    CHUNK,
    GRACE,
    TABLES,
    Change,
    Record,
    Steps,
    Version,
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

TABLE, STAGING, REFERENCE = TABLES
KEYS = ("a", "b", "c")


@dataclass(frozen=True)
class Part:
    """A partition that a worker wrote."""

    key: str
    began: int
    refs: tuple[str, ...]
    elements: tuple[int, ...]

    @property
    def homes(self) -> frozenset[str]:
        """The homes of other tables whose chunk files are among its own."""
        return frozenset(ref.partition("/")[0] for ref in self.refs) - {TABLE[0]}


def worker(world: World, key: str) -> Steps:
    """Write a partition: a chunk file of its own, and maybe one that the reference has already."""
    began = world.now
    shared = yield from _shared(world) if world.rng.random() < 0.6 else iter(())
    if not world.has("a part begins before its reference is read"):
        began = world.now
    content = tuple(world.fresh() for _ in range(CHUNK))
    own = f"{TABLE[0]}/packs/{world.fresh()}"
    yield ("put", own, content)
    refs, elements = [own], list(content)
    if shared:
        refs.append(shared[0])
        elements += shared[1]
    return Part(key, began, tuple(refs), tuple(elements))


def _shared(world: World) -> Steps:
    table = yield from opened(world, REFERENCE)
    if table is None or table.kind != "array":
        return None
    refs = sorted(ref for ref in {**(yield from node_of(table)), **table.overlay}.values() if ref)
    ref = world.rng.choice(refs) if refs else None
    content = (yield ("get", ref)) if ref else None
    return None if content is None else (ref, content)


def driver(world: World) -> Steps:
    """Make the table of partitions that workers write, or add them to it; those that wait go to a staging version."""
    parts: dict[str, Part] = {}
    held: Record | None = None
    for key in world.rng.sample(KEYS, world.rng.randint(1, 3)):
        part = yield from worker(world, key)
        if world.rng.random() < 0.5:
            stored, staged = yield from _stage(world, part)
            if not stored:
                continue
            held = staged
        parts[key] = part
    if not parts:
        return
    yield from _publish(world, list(parts.values()), held)
    if held is not None:
        yield from commit(world, STAGING, held, Change(world, "delete"))


def _stage(world: World, part: Part) -> Steps:
    """Hold a part in the staging version; whether it is there, and the version's record."""
    if not world.has("parts that wait are held by a staging version"):
        return True, None
    newest = yield from opened(world, STAGING)
    if newest is None or newest.kind == "deleted":
        yield from begin(world, STAGING, newest, Record(0, 0, 0, 0, operation=("publish", ())), world.now)
        newest = yield from opened(world, STAGING)
    if newest is None or newest.kind != "array":
        return False, None
    # Another driver may hold a part of this key: here each has names of its own.
    addition = yield from _addition(world, [part], unique=True)
    told = yield from commit(world, STAGING, newest, addition)
    return told == "ok", (yield from newest_after(STAGING, newest))


def _addition(world: World, parts: Sequence[Part], *, unique: bool = False) -> Steps:
    """The operation that adds parts; the homes that they refer to are told first."""
    homes = frozenset[str]().union(*(part.homes for part in parts))
    yield from _refer(world, homes)
    keys = [f"{part.key}{world.fresh()}" if unique else part.key for part in parts]
    elements = [item for part in parts for item in part.elements]
    change = Change(world, "add", keys, elements, [ref for part in parts for ref in part.refs])
    change.uploads, change.homes = True, homes
    if world.has("an old part is refused"):
        change.began = min(part.began for part in parts)
    return change


def _refer(world: World, homes: frozenset[str]) -> Steps:
    if world.has("a table refers to the homes of its references first"):
        for home in sorted(homes):
            yield ("put", f"{home}/referrers/{world.fresh()}", TABLE[0])


def _publish(world: World, parts: list[Part], held: Record | None) -> Steps:
    newest = yield from opened(world, TABLE)
    # What the staging version holds has no age, unless somebody removed it meanwhile.
    checked = world.now
    if held is not None:
        held = yield from newest_after(STAGING, held)
    staged: set[str | None] = set()
    if held is not None and held.kind == "array":
        staged = set(held.overlay.values()) | set((yield from node_of(held)).values())
    if held is None and not world.has("parts that wait are held by a staging version"):
        staged = {ref for part in parts for ref in part.refs}
    waiting = [part for part in parts if not set(part.refs) <= staged]
    if newest is not None and newest.kind == "array":
        change = yield from _addition(world, parts)
        change.began = min([checked, *(part.began for part in waiting)]) if hasattr(change, "began") else world.now
        yield from commit(world, TABLE, newest, change)
        return
    homes = frozenset[str]().union(*(part.homes for part in parts))
    yield from _refer(world, homes)
    began = world.now
    if world.has("an old part is refused"):
        began = min([checked, *(part.began for part in waiting)])
    elements = [item for part in parts for item in part.elements]
    refs = dict(enumerate(ref for part in parts for ref in part.refs))
    first = Record(0, 0, 0, 0, len(elements), overlay=refs, homes=homes, keys=tuple(part.key for part in parts),
                   operation=("publish", elements))  # fmt: skip
    yield from begin(world, TABLE, newest, first, began)


def remover(world: World, place: Version) -> Steps:
    """A process that deletes a table."""
    newest = yield from opened(world, place)
    if newest is not None and newest.kind == "array":
        yield from commit(world, place, newest, Change(world, "delete"))


def referred(world: World) -> Steps:
    """The table that others share chunk files of."""
    content = [world.fresh() for _ in range(2 * CHUNK)]
    refs = {}
    for i in range(2):
        refs[i] = f"{REFERENCE[0]}/packs/{world.fresh()}"
        yield ("put", refs[i], tuple(content[i * CHUNK : (i + 1) * CHUNK]))
    record = Record(0, 0, 0, 0, len(content), overlay=refs, keys=("r",), operation=("publish", content))
    yield from begin(world, REFERENCE, None, record, world.now)


def explore_tables(seed: int, broken: frozenset[str] = frozenset()) -> None:
    """One random interleaving."""
    rng = random.Random(seed)
    world = World(rng, broken)
    _interleave(world, {0: referred(world)}, calm=True)
    if rng.random() < 0.3:
        _interleave(world, {0: driver(world)}, calm=True)
    actors: dict[int, Steps] = {}
    for number in range(rng.randint(3, 7)):
        kind = rng.choices(["driver", "collector", "other", "remover", "reader"], [5, 3, 3, 2, 1])[0]
        if kind == "driver":
            actors[number] = driver(world)
        elif kind == "collector":
            actors[number] = collector(world, TABLE[0])
        elif kind == "other":
            actors[number] = collector(world, REFERENCE[0])
        elif kind == "remover":
            actors[number] = remover(world, rng.choice([REFERENCE, REFERENCE, TABLE]))
        else:
            actors[number] = reader(world, TABLE)
    _interleave(world, actors)
    for home in (TABLE[0], REFERENCE[0]):
        world.now += 2 * GRACE
        _interleave(world, {0: collect(world, home)}, calm=True)
    world.check_everything()
