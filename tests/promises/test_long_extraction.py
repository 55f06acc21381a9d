"""An extraction that takes many grace periods, beside collectors, deletions and readers: nothing of it is lost."""

import threading
import time

import numpy as np
import pytest

import hubarray as hub
from tests.rounds import rounds
from tests.tables.rows import assert_rows

pytestmark = pytest.mark.alone

GRACE_SECONDS = 2.0
SCHEMA = hub.Schema({"i": hub.Field("i8", index=True), "x": hub.Field("u1", (None,)), "y": hub.Field("f4")})


def rows_of(number, changed=0):
    """Rows with blocks that are shared by themselves; those of ``y`` change from version to version."""
    return [{"i": np.int64(i), "x": np.full(70_000, number + i, "u1"), "y": np.float32(i + changed)} for i in range(3)]


def write(root, name, parts, changed, **options):
    with hub.table_writer(name, SCHEMA, grace_seconds=GRACE_SECONDS, root=root, **options) as w:
        for key in range(parts):
            with w.partition(key) as p:
                p.extend(rows_of(key, changed))


@pytest.mark.parametrize("kind", rounds(["local"], ["local", "s3"]))
def test_a_week_of_extraction_beside_collectors_loses_nothing(kind, make_root):
    root, parts = make_root(kind), rounds(30, 150)
    # Of another name, so that nothing but referrers keeps what is shared with it.
    write(root, "u/base:v1", parts, 0)
    reader = hub.load("u/base:v1@1", root=root)
    failures, ended = [], threading.Event()

    def collect():
        while not ended.wait(0.2):
            for name in ("t/drives", "u/base"):
                try:
                    hub.collect_garbage(name, root=root)
                except hub.errors.NotFoundError:
                    continue
                except hub.HubError as error:
                    failures.append(error)

    def read():
        while not ended.wait(0.1):
            try:
                assert_rows([reader[4]], [rows_of(1)[1]])
            except (AssertionError, hub.HubError) as error:
                failures.append(error)

    others = [threading.Thread(target=work) for work in (collect, read)]
    for item in others:
        item.start()
    began = time.monotonic()
    try:
        # The first driver dies halfway; what it wrote is gone on with, though collectors were at work all the time.
        first = hub.table_writer("t/drives:v2", SCHEMA, reference="u/base:v1", resume=True,
                                 grace_seconds=GRACE_SECONDS, root=root)  # fmt: skip
        for key in range(parts // 2):
            with first.partition(key) as p:
                p.extend(rows_of(key, 100))
            time.sleep(0.1)
        del first
        time.sleep(GRACE_SECONDS)
        with hub.table_writer("t/drives:v2", SCHEMA, reference="u/base:v1", resume=True,
                              grace_seconds=GRACE_SECONDS, root=root) as second:  # fmt: skip
            known = len(second)
            for key in range(parts):
                if key not in second:
                    with second.partition(key) as p:
                        p.extend(rows_of(key, 100))
                    time.sleep(0.1)
        ended.set()
        for item in others:
            item.join()
        # Nobody reads it any more but through the table that shares its blocks.
        hub.delete("u/base:v1", root=root)
        ended.clear()
        others = [threading.Thread(target=collect)]
        others[0].start()
        while time.monotonic() - began < 4 * GRACE_SECONDS:
            time.sleep(0.1)
        time.sleep(GRACE_SECONDS)
    finally:
        ended.set()
        for item in others:
            item.join()
    assert failures == []
    assert known > 0
    table = hub.load("t/drives:v2", root=root)
    assert_rows(table[:], [row for key in range(parts) for row in rows_of(key, 100)])
    assert hub.verify("t/drives", root=root).problems == []
    assert hub.du("t/drives:v2", root=root).shared > 0
    # Blocks of equal values were shared: they take no room twice, though what had them first is deleted.
    packs = sum(item.size_bytes for home in ("t/drives", "u/base") for item in root.store.list(f"{home}/packs/"))
    assert packs < 1.5 * parts * 3 * 70_000
