"""What is damaged comes back from wherever the same bytes still are; what does not is named."""

import numpy as np
import pytest

import hubarray as hub
from tests.ageing import age
from tests.damage import DAMAGE, damage, keys


def _values(seed=0):
    return np.random.default_rng(seed).integers(1, 9, (1500, 10), "i4")


@pytest.fixture(params=["local", "s3"])
def twice(request, make_root, forget):
    """Two versions that wrote the same chunks, each for itself."""
    root = make_root(request.param)
    for version in ("v0", "v1"):
        array = hub.array((1500, 10), f"t/x:{version}", "i4", chunks=(1, 10), root=root)
        array[...] = _values()
        array[5] = 7
    hub.flush()
    forget()
    return root


# On a server one of what changes bytes and one of what takes them: how a chunk is damaged is no matter of the store.
@pytest.mark.parametrize(
    ("twice", "how"), [*(("local", how) for how in DAMAGE), ("s3", "flipped"), ("s3", "deleted")], indirect=["twice"]
)
def test_chunks_come_back_from_another_version_that_holds_them(twice, forget, how):
    expected = _values()
    expected[5] = 7
    for key in keys(twice, "packs"):
        damage(twice, key, how)
        mended = hub.repair("t/x", root=twice)
        assert {problem.key for problem in mended.repaired} == {key}
        assert mended.problems == []
    forget()
    for version in ("v0", "v1", "v0@2"):
        loaded = hub.load(f"t/x:{version}", root=twice)[...]
        assert np.array_equal(loaded, expected if "@" not in version else _values())
    assert hub.verify("t/x", root=twice).problems == []


def test_chunks_come_back_from_a_name_that_shares_data_and_to_all_that_share_them(twice, forget):
    hub.copy("t/x:v0", "t/y:v0", root=twice)
    hub.copy("t/x:v1", "t/z:v0", root=twice)
    hub.delete("t/x", root=twice)
    for key in keys(twice, "packs")[:1]:
        damage(twice, key, "deleted")
    assert hub.repair("t/y", root=twice).problems == []
    assert hub.repair("t/z", root=twice).problems == []
    forget()
    for name in ("t/y:v0", "t/z:v0"):
        assert (hub.load(name, root=twice)[5] == 7).all()
        assert hub.verify(name, root=twice).problems == []


def test_what_nobody_else_holds_is_named_and_the_rest_comes_back(root, forget):
    array = hub.array((40, 1000), "t/x:v0", "u1", chunks=(1, 1000), codec="none", root=root)
    copy = hub.array((40, 1000), "t/x:v1", "u1", chunks=(1, 1000), codec="none", root=root)
    array[...] = np.arange(1, 41, dtype="u1")[:, None]
    copy[:30] = array[:30]
    largest = max(root.store.list("t/x/packs/"), key=lambda info: info.size_bytes).key
    root.store.delete([largest])
    forget()
    mended = hub.repair("t/x", root=root)
    assert {problem.key for problem in mended.problems} == {largest}
    assert len(mended.problems) == 10
    assert "from a copy of the bucket" in str(mended.problems[0])
    assert (hub.load("t/x:v0", root=root)[:30] == array[:30]).all()
    with pytest.raises(hub.errors.CorruptDataError, match=largest):
        hub.load("t/x:v0", root=root)[30:]


def test_a_damaged_hint_is_written_anew(twice):
    twice.store.put("t/x/log/v0/head.json", b"?")
    mended = hub.repair("t/x", root=twice)
    assert [problem.key for problem in mended.repaired] == ["t/x/log/v0/head.json"]
    assert hub.verify("t/x", root=twice).problems == []
    assert bytes(twice.store.get("t/x/log/v0/head.json")).startswith(b'{"hubarray": 1, "number": 3')


def test_the_loss_of_the_newest_record_is_said_and_nothing_takes_its_place(twice, forget):
    key = "t/x/log/v0/0000000000000003.json"
    twice.store.delete([key])
    forget()
    mended = hub.repair("t/x", root=twice)
    assert [problem.key for problem in mended.problems] == [key]
    assert hub.copy("t/x:v0@2", "t/x:saved", root=twice)[...].any()
    with pytest.raises(hub.errors.CorruptDataError):
        hub.load("t/x:v0", root=twice)


def test_nodes_chunks_and_records_come_back_from_the_disk_cache(make_root, forget):
    root = make_root("s3")
    array = hub.array((1500, 10), "t/x:v0", "i4", chunks=(1, 10), root=root)
    array[...] = _values()
    array[3] = 3
    hub.flush()
    forget()
    assert (hub.load("t/x:v0@2", root=root)[...] == _values()).all()
    hub.load("t/x:v0", root=root)[...]
    for key in [*keys(root, "packs"), "t/x/log/v0/0000000000000002.json"]:
        damage(root, key, "flipped")
    assert len(hub.verify("t/x", root=root).problems) == 3
    assert hub.repair("t/x", root=root).problems == []
    for key in keys(root, "manifest"):
        damage(root, key, "deleted")
    hub.repair("t/x", root=root)
    forget()
    assert hub.verify("t/x", root=root).problems == []
    assert hub.verify("t/x", root=root).blobs == 1501
    assert (hub.load("t/x:v0", root=root)[3] == 3).all()


def test_repair_is_for_a_name_with_all_its_versions(root):
    with pytest.raises(hub.errors.NotFoundError):
        hub.repair("t/nothing", root=root)
    hub.array(3, "t/x:v0", root=root)
    with pytest.raises(hub.errors.ConfigError, match="all versions"):
        hub.repair("t/x:v0", root=root)


def test_a_lost_referrer_is_noticed_and_written_anew(root):
    array = hub.array(400, "t/x:v1", "i8", chunks=100, grace_seconds=1000, root=root)
    array[:] = 1
    copy = hub.copy("t/x:v1", "t/y:v1", root=root)
    root.store.delete([info.key for info in root.store.list("t/x/referrers/")])
    assert [problem.key for problem in hub.verify("t/y", root=root).problems] == ["t/x/referrers/"]
    assert hub.repair("t/y", root=root).problems == []
    assert hub.verify("t/y", root=root).problems == []
    array[:] = 2
    hub.expire("t/x:v1", keep_last=1, root=root)
    age(root, 1001)
    hub.collect_garbage("t/x", root=root)
    assert (copy[:] == 1).all()
    assert hub.verify("t/y", root=root).problems == []


def test_a_damaged_referrer_is_named_with_what_to_do(root):
    hub.array(4, "t/x:v1", "i8", root=root)[:] = 1
    hub.copy("t/x:v1", "t/y:v1", root=root)
    key = next(root.store.list("t/x/referrers/")).key
    root.store.put(key, b"{")
    assert key in {problem.key for problem in hub.verify("t/x", root=root).problems}
    with pytest.raises(hub.errors.CorruptDataError, match=r"hub\.repair the names"):
        hub.collect_garbage("t/x", root=root)
    hub.repair("t/y", root=root)
    root.store.delete([key])
    hub.collect_garbage("t/x", root=root)
    assert hub.verify("t/y", root=root).problems == []


def _dataset(root):
    ds = hub.dataset(
        {"x": hub.ArraySpec((0, 8), "i4", chunks=(4, 8)), "y": hub.ArraySpec(0, "i8")}, "t/d:v1", root=root
    )
    ds.append({"x": np.arange(80).reshape(10, 8)})
    ds.append({"y": np.arange(10)})
    return lambda: {name: hub.load("t/d:v1", root=root)[name][...].tolist() for name in ("x", "y")}


def _table(root):
    schema = hub.Schema({"i": hub.Field("i8", index=True), "x.v": hub.Field("u1", (3000,)), "y.s": hub.Field(str)})
    with hub.table_writer("t/d:v1", schema, root=root) as w:
        for key in "ab":
            with w.partition(key) as p:
                p.extend([{"i": i, "x.v": np.full(3000, i, "u1"), "y.s": f"{key} {i}"} for i in range(6)])
    return lambda: [(row["i"], row["x.v"].tolist(), row["y.s"]) for row in hub.load("t/d:v1", root=root)]


@pytest.mark.parametrize("make", [_dataset, _table])
@pytest.mark.parametrize("damage", ["lost", "flipped", "cut"])
def test_packs_of_datasets_and_tables_are_put_back_from_the_disk_cache(make_root, forget, make, damage):
    root = make_root("s3")
    read = make(root)
    forget()
    expected = read()
    hub.flush()
    for key in [item.key for item in root.store.list("t/d/packs/")]:
        data = bytearray(root.store.get(key))
        data[len(data) // 2] ^= 1
        root.store.delete([key])
        if damage != "lost":
            root.store.put(key, data if damage == "flipped" else data[: len(data) // 2])
    assert hub.verify("t/d", root=root).problems
    hub.repair("t/d", root=root)
    forget()
    assert read() == expected
