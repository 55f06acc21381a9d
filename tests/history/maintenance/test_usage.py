"""Bytes that are a version's own, shared with others, or held for others only."""

import os

import numpy as np

import hubarray as hub

BYTES = 1_000_000


def noise(seed, size=BYTES):
    return np.random.default_rng(seed).integers(0, 256, size, "u1")


def about(size):
    return range(size, size + size // 20)


def write_table(name, rows, root, **options):
    schema = hub.Schema({"x": hub.Field("u1", (None,))})
    with hub.table_writer(name, schema, root=root, **options) as w, w.partition("a") as p:
        p.extend([{"x": row} for row in rows])


def test_bytes_of_an_array_are_its_own_until_a_copy_shares_them(root):
    array = hub.array(BYTES, "lab/x:v1", "u1", chunks=BYTES // 4, codec="none", root=root)
    array[:] = noise(0)
    usage = hub.du("lab/x:v1", root=root)
    assert (usage.own in about(BYTES), usage.shared, usage.held, usage.logical) == (True, 0, 0, BYTES)
    hub.copy("lab/x:v1", "lab/x:v2", root=root)
    hub.load("lab/x:v2", root=root)[: BYTES // 4] = noise(1, BYTES // 4)
    first, second = (hub.du(f"lab/x:{version}", root=root) for version in ("v1", "v2"))
    assert (first.own, first.shared in about(BYTES)) == (0, True), "the copy's first commit reads all of them"
    assert (first.holders, second.holders) == (("lab/x:v2",), ("lab/x:v1",))
    assert second.own in about(BYTES // 4)
    assert second.shared in about(BYTES * 3 // 4)


def test_bytes_of_an_array_that_only_another_name_reads_are_held(root):
    array = hub.array(BYTES, "lab/x:v1", "u1", chunks=BYTES // 4, codec="none", root=root)
    array[:] = noise(0)
    hub.copy("lab/x:v1", "team/y:v1", root=root)
    assert hub.du("team/y:v1", root=root).shared in about(BYTES)
    assert hub.du("lab/x:v1", root=root).held == 0, "both read them"
    hub.delete("lab/x:v1", root=root)
    usage = hub.du("lab/x:v1", root=root)
    assert (usage.own, usage.shared, usage.logical) == (0, 0, 0)
    assert usage.held in about(BYTES)
    assert usage.holders == ("team/y",)


def test_blocks_of_a_deleted_table_that_a_reference_took_are_held(root):
    write_table("lab/t:v1", [noise(i) for i in range(3)], root)
    write_table("team/u:v1", [noise(0), noise(9), noise(1)], root, reference="lab/t:v1")
    usage = hub.du("team/u:v1", root=root)
    assert usage.own in about(BYTES)
    assert hub.delete("lab/t:v1", root=root) == ["team/u"]
    # The three blocks are one pack, which is held or not as a whole.
    assert hub.du("lab/t:v1", root=root).held in about(3 * BYTES)
    hub.delete("team/u:v1", root=root)
    assert hub.du("lab/t:v1", root=root).held == 0


def test_what_is_held_survives_a_collection_and_the_rest_does_not(root, monkeypatch):
    write_table("lab/t:v1", [noise(0)], root)
    write_table("lab/t:v2", [noise(5)], root)
    write_table("team/u:v1", [noise(0)], root, reference="lab/t:v1")
    for version in ("v1", "v2"):
        hub.delete(f"lab/t:{version}", root=root)
    hub.flush()
    folder = root.url.removeprefix("file://")
    for place, _, names in os.walk(folder):
        for name in names:
            os.utime(os.path.join(place, name), (1, 1))
    hub.collect_garbage("lab/t", root=root)
    assert np.array_equal(hub.load("team/u:v1", root=root)[0], noise(0))
    assert hub.du("lab/t:v1", root=root).held in about(BYTES)
