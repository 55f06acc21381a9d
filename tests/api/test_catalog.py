import datetime
import time

import numpy as np
import pytest

import hubarray as hub


def test_the_same_array_is_opened_and_another_one_refused_with_both_shown():
    first = hub.array((10, 4), "t/x:v0", "f4", fill_value=1, attrs={"a": 1})
    first[0] = 5
    again = hub.array((10, 4), "t/x:v0", "float32", fill_value=1.0, attrs={"b": 2})
    assert (again[0] == 5).all()
    assert dict(again.attrs) == {"a": 1}
    assert again.commit == 2
    hub.array((10, 4), "t/x:v0", "f4", fill_value=1, chunks=first.chunks, codec=first.codec)
    others = [{"shape": (10, 5)}, {"dtype": "f8"}, {"fill_value": 0}, {"chunks": (1, 4)}, {"codec": "zstd"}]
    for other in others:
        with pytest.raises(
            hub.errors.AlreadyExistsError, match=r"^[^\n\\]*it has .*\(10, 4\).*the arguments say.*overwrite=True"
        ):
            hub.array(**({"shape": (10, 4), "name": "t/x:v0", "dtype": "f4", "fill_value": 1} | other))


def test_overwriting_begins_a_new_generation_and_keeps_the_history():
    old = hub.array((10, 4), "t/x:v0", "f4")
    old[...] = 3
    new = hub.array((2, 2), "t/x:v0", "i8", overwrite=True)
    assert new.commit == 3
    assert np.array_equal(new[...], np.zeros((2, 2), "i8"))
    assert (hub.load("t/x:v0@2")[...] == 3).all()
    for use in (lambda: old.shape, lambda: old[0], lambda: old.__setitem__(0, 1), lambda: old.refresh()):
        with pytest.raises(hub.errors.ConflictError, match=r"overwritten.*load it again"):
            use()


def test_a_name_is_found_by_every_spelling(root):
    hub.array(3, "t/x:v0", root=root)[0] = 5
    for name, at in (
        ("t/x:v0", root),
        ("t/x:v0@2", root.url),
        (f"{root.url}/t/x:v0", None),
        (f"{root.url}/t/x:v0@2", None),
    ):
        assert hub.load(name, root=at)[0] == 5
    with pytest.raises(hub.errors.ConfigError, match="root"):
        hub.load(f"{root.url}/t/x:v0", root=root)


def test_what_is_missing_is_said_with_what_is_near():
    for name in ("scans", "scan-2", "photos"):
        hub.array(3, f"lab/{name}:v1")
    with pytest.raises(hub.errors.NotFoundError, match=r"lab/photos, lab/scan-2, lab/scans"):
        hub.load("lab/nothing")
    with pytest.raises(hub.errors.NotFoundError, match=r"lab/scans has :v1"):
        hub.load("lab/scans:v2")
    with pytest.raises(hub.errors.NotFoundError, match=r"no such commit"):
        hub.load("lab/scans:v1@99")
    for i in range(6):
        hub.array(3, f"lab/other{i}")
    with pytest.raises(hub.errors.NotFoundError) as caught:
        hub.load("lab/scan:v1")
    assert "lab/scans" in str(caught.value)
    assert "lab/photos" not in str(caught.value)
    with pytest.raises(hub.errors.NotFoundError, match="no such version"):
        hub.load("nobody/nothing")


def test_lists_are_sorted_and_take_an_owner_or_a_beginning():
    for name in ("b/y:v1", "b/y:v0", "a/x", "ab/x", "b/yz:main"):
        hub.array(3, name)
    assert hub.list() == ["a/x:main", "ab/x:main", "b/y:v0", "b/y:v1", "b/yz:main"]
    assert hub.list("a") == ["a/x:main"]
    assert hub.list("b/y") == ["b/y:v0", "b/y:v1", "b/yz:main"]
    assert hub.list("b/y:v1") == ["b/y:v1"]
    assert hub.list("c") == []
    hub.delete("b/y:v1")
    assert hub.list("b/y") == ["b/y:v0", "b/yz:main"]


def test_the_log_is_newest_first_and_says_who_when_and_what():
    hub.configure(author="ada")
    array = hub.array(3, "t/x:v0", message="begin")
    array[0] = 1
    array.append([1, 2], message="two more")
    array.resize(2)
    commits = list(hub.log("t/x:v0"))
    assert [c.number for c in commits] == [4, 3, 2, 1]
    assert [c.message for c in commits] == ["resize (5,) to (2,)", "two more", "set elements in 1 chunk", "begin"]
    assert {c.author for c in commits} == {"ada"}
    assert len({c.id for c in commits}) == 4
    assert [c.time for c in commits] == sorted((c.time for c in commits), reverse=True)
    assert list(array.log()) == commits
    assert [c.number for c in hub.log("t/x:v0@2")] == [2, 1]


def test_the_commit_of_a_moment_can_be_loaded():
    array = hub.array(1, "t/x:v0", "i8")
    times = []
    for i in range(1, 6):
        time.sleep(0.01)
        array[0] = i
        times.append(next(array.log()).time)
    for i, moment in enumerate(times, 1):
        assert hub.load("t/x:v0", at=moment)[0] == i
        assert hub.load("t/x:v0", at=moment.isoformat())[0] == i
    assert hub.load("t/x:v0", at="2999-01-01").commit == 6
    with pytest.raises(hub.errors.NotFoundError, match="did not exist"):
        hub.load("t/x:v0", at="2001-01-01")
    for wrong in ("yesterday", 5, ""):
        with pytest.raises(hub.errors.ConfigError, match="at="):
            hub.load("t/x:v0", at=wrong)
    with pytest.raises(hub.errors.ConfigError, match="not both"):
        hub.load("t/x:v0@1", at=datetime.datetime.now())


def test_a_diff_names_chunks_and_regions_from_refs_alone(any_root):
    array = hub.array((100, 50), "t/x:v0", "f4", chunks=(10, 10), root=any_root)
    array[...] = np.random.default_rng(0).random((100, 50))
    array[15:35, 5:8] = 1
    array.append(np.ones((5, 50)))
    diff = hub.diff("t/x:v0@2", "t/x:v0@3", root=any_root)
    assert diff.chunks == ((1, 0), (2, 0), (3, 0))
    assert diff.regions == ((slice(10, 40), slice(0, 10)),)
    assert diff.bytes > 0
    grown = hub.diff("t/x:v0@2", "t/x:v0", root=any_root)
    assert grown.shapes == ((100, 50), (105, 50))
    assert grown.regions[-1] == (slice(100, 105), slice(0, 50))
    assert not hub.diff("t/x:v0", "t/x:v0", root=any_root)
    hub.copy("t/x:v0", "t/y", root=any_root)
    assert not hub.diff("t/x:v0", "t/y", root=any_root)
    hub.array((100, 50), "t/other", "f8", root=any_root)
    with pytest.raises(hub.errors.ConfigError, match="cannot be compared"):
        hub.diff("t/x:v0", "t/other", root=any_root)


def test_a_diff_of_large_manifests_reads_only_what_they_do_not_share(make_root, forget):
    root = make_root("memory")
    array = hub.array((20_000, 2), "t/x:v0", "u1", chunks=(1, 2), root=root)
    array[...] = 1
    for start in range(300):
        array[start * 7] = 2
    forget()
    before = root.store.stats.counts()
    diff = hub.diff("t/x:v0@2", "t/x:v0", root=root)
    assert len(diff.chunks) == 300
    assert (root.store.stats.counts() - before)["get"] < 15


@pytest.mark.parametrize("name", ["../x", "", "a:b:c", "naïve", "x" * 300, "x@0", "x@-b", "a/b/c"])
def test_bad_names_are_refused_everywhere(name):
    for call in (
        lambda: hub.array(3, name),
        lambda: hub.load(name),
        lambda: hub.delete(name),
        lambda: hub.exists(name),
        lambda: hub.copy(name, "a"),
        lambda: hub.log(name),
    ):
        with pytest.raises(hub.errors.InvalidNameError):
            call()


@pytest.mark.parametrize(
    "given",
    [{"shape": -1}, {"shape": 1.5}, {"shape": (2**62, 4)}, {"dtype": object}, {"dtype": "nonsense"}, {"chunks": (1, 1)}, {"chunks": 0}, {"codec": "x"}, {"fill_value": "x"}, {"attrs": {"a": len}}, {"grace_seconds": 0}, {"message": 5}],
    ids=str,
)  # fmt: skip
def test_bad_descriptions_are_refused_and_nothing_is_made(given, root):
    with pytest.raises(hub.errors.ConfigError):
        hub.array(**({"shape": 3, "name": "t/x", "root": root} | given))
    assert list(root.store.list("")) == []


def test_a_root_that_is_a_plain_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(hub.errors.StorageError, match="is a file"):
        hub.array(3, "t/x", root=tmp_path / "file")
