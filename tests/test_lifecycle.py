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
    with pytest.raises(hub.NotFoundError, match="since it was created"):
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
        with pytest.raises(hub.ConflictError, match="load it again"):
            handle[0]
    hub.delete("t/x:v0")
    back = hub.restore("t/x:v0", 2)
    assert back[...].tolist() == [1] * 3
    assert hub.list("t") == ["t/x:v0"]
    back[0] = 9
    with pytest.raises(hub.NotFoundError, match="deletion"):
        hub.restore("t/x:v0", 5)


def test_restoring_needs_a_commit_and_a_version_that_is_not_frozen():
    hub.array(3, "t/x:v0", "i8")[:] = 1
    for wrong in (0, -1, 1.0, True, None):
        with pytest.raises(hub.ConfigError, match="commit"):
            hub.restore("t/x:v0", wrong)
    with pytest.raises(hub.InvalidNameError):
        hub.restore("t/x:v0", "2")
    with pytest.raises(hub.TagNotFoundError):
        hub.restore("t/x:v0", "two")
    with pytest.raises(hub.NotFoundError):
        hub.restore("t/x:v0", 9)
    hub.freeze("t/x:v0")
    with pytest.raises(hub.FrozenError):
        hub.restore("t/x:v0", 1)


def test_undo_never_takes_back_what_somebody_else_just_committed(root, other_machine, monkeypatch):
    from hubarray.history.operations import Restore

    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[0] = 1
    draft = Restore.draft

    def overtaken(self, base):
        made = draft(self, base)
        monkeypatch.setattr(Restore, "draft", draft)
        other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(1, 5))
        return made

    monkeypatch.setattr(Restore, "draft", overtaken)
    with pytest.raises(hub.ConflictError, match="nothing was written"):
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
    with pytest.raises(hub.ConfigError, match="older_than"):
        hub.expire("t/x:v0", older_than="yesterday")


def test_names_that_are_not_there_come_with_those_that_are():
    hub.array(3, "t/x:v0")
    for use in (lambda: hub.restore("t/x:v9", 1), lambda: hub.undo("t/x:v9"), lambda: hub.tags("t/x:v9")):
        with pytest.raises(hub.NotFoundError, match="t/x has the versions v0"):
            use()


def test_a_root_that_was_removed_is_noticed_by_whoever_opens_the_name_again(tmp_path):
    import shutil

    root = hub.Root(tmp_path / "root")
    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[:] = 7
    hub.flush()
    shutil.rmtree(tmp_path / "root")
    with pytest.raises(hub.NotFoundError):
        hub.load("t/x:v0", root=root)
    again = hub.array(3, "t/x:v0", "i8", root=root)
    assert again.commit == 1
    again[0] = 1
    assert again[:].tolist() == [1, 0, 0]
    assert hub.verify("t/x", root=root).problems == []
