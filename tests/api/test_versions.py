import numpy as np
import pytest

import hubarray as hub


def test_an_old_state_becomes_the_newest_and_nothing_in_between_is_lost(any_root):
    array = hub.array((50, 4), "t/x:v0", "i4", chunks=(1, 4), attrs={"a": 1}, root=any_root)
    array[...] = 1
    array.attrs["a"] = 2
    array.resize((10, 9))
    array[3] = 7
    restored = hub.restore("t/x:v0", 2, root=any_root, message="back")
    assert restored.commit == 6
    assert (restored[...] == np.ones((50, 4))).all()
    assert dict(array.attrs) == {"a": 1}
    assert (array[...] == np.ones((50, 4))).all()
    array[0] = 5
    assert hub.load("t/x:v0@5", root=any_root)[3].tolist() == [7] * 9
    assert hub.load("t/x:v0@6", root=any_root)[0].tolist() == [1] * 4
    assert hub.verify("t/x", root=any_root).problems == []
    assert next(hub.log("t/x:v0@6", root=any_root)).message == "back"


def test_undo_takes_back_one_commit_and_undo_again_redoes_it():
    array = hub.array(3, "t/x:v0", "i8")
    with pytest.raises(hub.errors.NotFoundError, match="since it was created"):
        hub.undo("t/x:v0")
    array[:] = 1
    array[:] = 2
    assert hub.undo("t/x:v0")[...].tolist() == [1] * 3
    assert hub.undo("t/x:v0")[...].tolist() == [2] * 3


def test_restoring_across_an_overwrite_or_a_deletion_is_another_array():
    old = hub.array(3, "t/x:v0", "i8")
    old[:] = 1
    new = hub.array((2, 2), "t/x:v0", "f4", overwrite=True)
    assert hub.restore("t/x:v0", 2)[...].tolist() == [1] * 3
    for handle in (old, new):
        with pytest.raises(hub.errors.ConflictError, match="load it again"):
            handle[0]
    hub.delete("t/x:v0")
    back = hub.restore("t/x:v0", 2)
    assert back[...].tolist() == [1] * 3
    assert hub.list("t") == ["t/x:v0"]
    back[0] = 9
    with pytest.raises(hub.errors.NotFoundError, match="deletion"):
        hub.restore("t/x:v0", 5)


def test_restoring_needs_a_commit_and_a_version_that_is_not_frozen():
    hub.array(3, "t/x:v0", "i8")[:] = 1
    for wrong in (0, -1, 1.0, True, None):
        with pytest.raises(hub.errors.ConfigError, match="commit"):
            hub.restore("t/x:v0", wrong)
    with pytest.raises(hub.errors.InvalidNameError):
        hub.restore("t/x:v0", "2")
    with pytest.raises(hub.errors.TagNotFoundError):
        hub.restore("t/x:v0", "two")
    with pytest.raises(hub.errors.NotFoundError):
        hub.restore("t/x:v0", 9)
    hub.freeze("t/x:v0")
    with pytest.raises(hub.errors.FrozenError):
        hub.restore("t/x:v0", 1)


def test_undo_never_takes_back_what_somebody_else_just_committed(root, other_machine, monkeypatch):
    from hubarray.history.commits.operations import Restore

    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[0] = 1
    draft = Restore.draft

    def overtaken(self, base):
        made = draft(self, base)
        monkeypatch.setattr(Restore, "draft", draft)
        other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(1, 5))
        return made

    monkeypatch.setattr(Restore, "draft", overtaken)
    with pytest.raises(hub.errors.ConflictError, match="nothing was written"):
        hub.undo("t/x:v0", root=root)
    assert array.refresh()[...].tolist() == [1, 5, 0]


def test_undo_passes_over_commits_that_changed_nothing(root):
    array = hub.array((40, 5), "t/x:v0", "i8", chunks=(1, 5), root=root)
    for i in range(20):
        array[i] = i + 1
    hub.tag("t/x:v0@3", "paper", root=root)
    assert hub.compact("t/x:v0", root=root).chunks
    hub.expire("t/x:v0", keep_last=30, root=root)
    assert hub.undo("t/x:v0", root=root)[19].tolist() == [0] * 5
    assert hub.undo("t/x:v0", root=root)[19].tolist() == [20] * 5


def test_numbers_may_be_of_numpys_types():
    array = hub.array(3, "t/x:v0", "i8")
    array[:] = 1
    assert hub.restore("t/x:v0", np.int64(1))[0] == 0
    assert hub.expire("t/x:v0", keep_last=np.int64(2)) == 1
    with pytest.raises(hub.errors.ConfigError, match="older_than"):
        hub.expire("t/x:v0", older_than="yesterday")


def test_names_that_are_not_there_come_with_those_that_are():
    hub.array(3, "t/x:v0")
    for use in (lambda: hub.restore("t/x:v9", 1), lambda: hub.undo("t/x:v9"), lambda: hub.tags("t/x:v9")):
        with pytest.raises(hub.errors.NotFoundError, match="t/x has :v0"):
            use()


def test_a_root_that_was_removed_is_noticed_by_whoever_opens_the_name_again(tmp_path):
    import shutil

    root = hub.Root(tmp_path / "root")
    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[:] = 7
    hub.flush()
    shutil.rmtree(tmp_path / "root")
    with pytest.raises(hub.errors.NotFoundError):
        hub.load("t/x:v0", root=root)
    again = hub.array(3, "t/x:v0", "i8", root=root)
    assert again.commit == 1
    again[0] = 1
    assert again[:].tolist() == [1, 0, 0]
    assert hub.verify("t/x", root=root).problems == []


def test_copies_share_data_and_then_live_apart(any_root):
    source = hub.array((40, 30), "t/x:v0", "i4", chunks=(7, 30), root=any_root, attrs={"a": 1})
    source[...] = np.arange(1200).reshape(40, 30)
    before = any_root.store.stats.counts()
    copy = hub.copy("t/x:v0", "other/y:v9", root=any_root, message="for a test")
    counts = any_root.store.stats.counts() - before
    assert counts["written_bytes"] < 3000
    assert not list(any_root.store.list("other/y/packs/"))
    copy[0] = -1
    source[1] = -2
    assert (copy[0] == -1).all()
    assert copy[1, 0] == 30
    assert (source[0] == np.arange(30)).all()
    assert dict(copy.attrs) == {"a": 1}
    commits = [(c.number, c.source) for c in hub.log("other/y:v9", root=any_root)]
    assert commits == [(2, None), (1, "t/x:v0@2")]
    assert len(list(any_root.store.list("t/x/referrers/"))) == 1
    third = hub.copy("other/y:v9", "third/z", root=any_root)
    assert np.array_equal(third[...], copy[...])
    assert len(list(any_root.store.list("t/x/referrers/"))) == 2
    assert len(list(any_root.store.list("other/y/referrers/"))) == 1
    old = hub.copy("t/x:v0@1", "t/x:empty", root=any_root)
    assert not old[...].any()


def test_a_copy_needs_a_source_and_a_free_target():
    hub.array(3, "t/x:v0")
    hub.array(3, "t/x:v1")
    with pytest.raises(hub.errors.AlreadyExistsError, match="t/x:v1"):
        hub.copy("t/x:v0", "t/x:v1")
    with pytest.raises(hub.errors.NotFoundError):
        hub.copy("t/nothing", "t/y")
    with pytest.raises(hub.errors.InvalidNameError):
        hub.copy("t/x:v0", "t/y:v0@3")


def test_a_copy_to_another_root_takes_the_data_along(make_root):
    first, second = make_root("local"), make_root("memory")
    source = hub.array((600, 5), "t/x:v0", "i4", chunks=(1, 5), root=first)
    source[...] = np.arange(3000).reshape(600, 5)
    source[5] = 0
    hub.configure(root=second.url)
    copied = hub.copy(f"{first.url}/t/x:v0", "t/x:v1")
    first.store.delete([info.key for info in first.store.list("t/x/packs/")])
    expected = np.arange(3000).reshape(600, 5)
    expected[5] = 0
    assert np.array_equal(copied[...], expected)


def test_a_frozen_version_refuses_every_change():
    array = hub.array((3, 2), "t/x:v0")
    array[...] = 1
    hub.freeze("t/x:v0")
    hub.freeze("t/x:v0")
    assert array.frozen
    changes = [
        lambda: array.__setitem__(0, 2),
        lambda: array.append(np.ones((1, 2))),
        lambda: array.resize((4, 2)),
        lambda: array.attrs.update(a=1),
        lambda: hub.array((3, 2), "t/x:v0", overwrite=True),
    ]
    for change in changes:
        with pytest.raises(hub.errors.FrozenError, match="t/x:v0"):
            change()
    assert array.commit == 3
    assert hub.copy("t/x:v0", "t/x:v1").frozen is False


def test_deleting_a_version_or_a_name_leaves_what_only_begins_the_same():
    for name in ("t/a:v0", "t/a:v1", "t/ab:v0", "t/a.b"):
        hub.array(3, name)[0] = 1
    handle = hub.load("t/a:v0")
    hub.delete("t/a:v0")
    assert hub.list("t") == ["t/a.b:main", "t/a:v1", "t/ab:v0"]
    for use in (
        lambda: handle[0],
        lambda: handle.__setitem__(0, 1),
        lambda: hub.load("t/a:v0"),
        lambda: hub.delete("t/a:v0"),
    ):
        with pytest.raises(hub.errors.NotFoundError, match="t/a:v0"):
            use()
    assert hub.load("t/a:v0@2")[0] == 1
    hub.array(3, "t/a:v2")
    hub.delete("t/a")
    assert hub.list("t") == ["t/a.b:main", "t/ab:v0"]
    with pytest.raises(hub.errors.NotFoundError):
        hub.delete("t/a")


def test_creating_again_continues_the_numbers_and_is_another_line():
    old = hub.array(3, "t/x:v0")
    old[0] = 1
    hub.delete("t/x:v0")
    new = hub.array(5, "t/x:v0")
    assert new.commit == 4
    assert new[...].tolist() == [0] * 5
    with pytest.raises(hub.errors.NotFoundError, match="created again"):
        old[0]
    with pytest.raises(hub.errors.NotFoundError, match="created again"):
        old[0] = 1
    assert [commit.kind for commit in hub.log("t/x:v0")] == ["array", "deleted", "array", "array"]


@pytest.mark.parametrize("kinds", [("local", "local"), ("memory", "local"), ("local", "s3")], ids=str)
def test_a_copy_between_roots_has_the_same_elements_however_many_requests_it_takes(kinds, make_root):
    source, target = map(make_root, kinds)
    array = hub.array((3000, 2000), "t/x:v0", "u1", chunks=(1, 2000), codec="none", root=source)
    array[...] = np.random.default_rng(0).integers(1, 255, (3000, 2000), "u1")
    for i in range(0, 3000, 100):
        array[i] = i % 250
    hub.configure(root=target.url, storage_options=target._options or None)
    copied = hub.copy(f"{source.url}/t/x:v0", "t/y:v0")
    assert np.array_equal(copied[...], array[...])
    assert hub.verify("t/y", root=target).problems == []
