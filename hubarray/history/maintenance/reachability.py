"""Reach of records: the walk over manifests that collecting, verifying and compacting share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import Refs
from hubarray.blobs.scheduling import run_all
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.history.log.log import Log
from hubarray.history.records.manifest import NodeRef, children_of, decode_node
from hubarray.history.records.record import RECORD_NAME, Record, record_key
from hubarray.names import Name
from hubarray.storage.base import ObjectInfo, Store

Load = Callable[[NodeRef, int], np.ndarray | None]


def walk(records: Iterable[Record], load: Load, leaf: Callable[[Refs], None]) -> None:
    """Visit every manifest node that records reach, each once, a level at a time and in parallel.

    Parameters
    ----------
    records : iterable of Record
    load : callable
        Given a node and its level, its entries; None passes over what is below it.
    leaf : callable
        Called with the entries of each leaf, on whatever thread has them.
    """
    roots = [record.manifest for record in records if record.manifest is not None]
    nodes = {root.node.key: (root.node, root.depth - 1) for root in roots}
    seen = set(nodes)
    while nodes:
        below: dict[str, tuple[NodeRef, int]] = {}

        def visit(node: NodeRef, level: int, below: dict[str, tuple[NodeRef, int]] = below) -> None:
            table = load(node, level)
            if table is None:
                return
            if level == 0:
                leaf(table[table["length"] > 0])
            else:
                below.update({child.key: (child, level - 1) for child in children_of(table)})

        run_all((node.length, partial(visit, node, level)) for node, level in nodes.values())
        nodes = {key: infos for key, infos in below.items() if key not in seen}
        seen.update(nodes)


def strictly(fetcher: Fetcher) -> Load:
    """A ``load`` for :func:`walk` that raises CorruptDataError for what cannot be read."""

    def load(node: NodeRef, level: int) -> np.ndarray:
        return decode_node(
            fetcher.object(node.key, node.length, node.digest), level, node, fetcher.store.where(node.key)
        )

    return load


def read_log(store: Store, name: Name) -> tuple[dict[int, Record], dict[int, ObjectInfo]]:
    """Every record of a version, in order, and every object in its log that is named like one.

    Raises
    ------
    CorruptDataError
        A record is missing or cannot be read.
    """
    log = Log(store, name)
    folder = f"{name.home}/log/{name.version}/"
    infos = {info.key.removeprefix(folder): info for info in store.list(folder)}
    record_infos = {int(match.group(1)): info for key, info in infos.items() if (match := RECORD_NAME.fullmatch(key))}
    newest = log.newest().head.number if record_infos else 0
    records: dict[int, Record] = {}

    def read(number: int) -> None:
        try:
            records[number] = log.read(number)
        except ObjectMissingError:
            raise CorruptDataError(f"{store.where(record_key(name, number))}: the log has a gap") from None

    run_all((1 << 16, partial(read, number)) for number in range(1, newest + 1))
    return dict(sorted(records.items())), record_infos


def readable(records: dict[int, Record]) -> Iterator[Record]:
    """The records of a log whose state has neither expired nor been deleted, tagged ones included."""
    if not records:
        return
    newest = records[max(records)]
    if newest.head.kind == "deleted":
        return
    tagged = set(newest.tags.values())
    for number, record in records.items():
        if record.head.kind not in ("deleted", "expired") and (number > newest.head.expired_to or number in tagged):
            yield record
