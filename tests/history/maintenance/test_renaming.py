"""A version under another name: everything of it is there, nothing moved, and a kill at any call is gone on from."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.history.maintenance import renaming
from tests.ageing import age


@pytest.fixture
def filled(any_root):
    array = hub.array((50, 4), "lab/old:v1", "i4", chunks=(1, 4), root=any_root, attrs={"unit": "mm"}, message="begin")
    array[...] = 1
    array[3] = 2
    hub.tag("lab/old:v1@2", "ones", root=any_root)
    array[4] = 3
    return any_root


def _state(name, root):
    array = hub.load(name, root=root)
    commits = [(c.number, c.id, c.time, c.message, c.author, c.tags) for c in hub.log(name, root=root)]
    return array[...].tolist(), dict(array.attrs), commits, hub.tags(name, root=root), array.frozen


@pytest.mark.parametrize("to", ["lab/new:v1", "lab/old:v2", "other/new"])
@pytest.mark.parametrize("frozen", [False, True])
def test_everything_is_under_the_new_name_and_nothing_under_the_old(filled, to, frozen):
    if frozen:
        hub.freeze("lab/old:v1", root=filled)
    before = _state("lab/old:v1", filled)
    packs = {info.key for info in filled.store.list("lab/old/packs/")}
    array = hub.rename("lab/old:v1", to, root=filled)
    assert _state(to, filled) == before
    assert not hub.exists("lab/old:v1", root=filled)
    assert {info.key for info in filled.store.list("lab/old/packs/")} == packs
    assert (hub.load(f"{to}@ones", root=filled)[...] == 1).all()
    assert hub.verify(to.partition(":")[0], root=filled).problems == []
    assert next(hub.log("lab/old:v1", root=filled)).message.startswith("renamed to")
    if not frozen:
        array[0] = 9
        assert hub.undo(to, root=filled)[...].tolist() == before[0]


def test_what_was_copied_before_is_merged_after(root):
    hub.array(6, "lab/old:v1", "i4", root=root)[:] = 1
    hub.copy("lab/old:v1", "lab/old:try", root=root)[0] = 9
    hub.rename("lab/old:v1", "lab/new:v1", root=root)
    assert hub.merge_version("lab/old:try", into="lab/new:v1", root=root)[...].tolist() == [9, 1, 1, 1, 1, 1]
    hub.rename("lab/old:try", "lab/tried:v1", root=root)[1] = 8
    assert hub.merge_version("lab/tried:v1", into="lab/new:v1", root=root)[...].tolist() == [9, 8, 1, 1, 1, 1]
    hub.array(6, "lab/other:v1", "i4", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="no commit in common"):
        hub.merge_version("lab/other:v1", into="lab/new:v1", root=root)


def test_two_that_rename_the_same_come_to_one_end(root, monkeypatch):
    array = hub.array(6, "lab/old:v1", "i4", root=root)
    array[:] = 1
    real = renaming.read_log
    other = []

    def late(store, name):
        if str(name) == "lab/old:v1" and not other:
            other.append(hub.Root(root.url))
            array[0] = 5
            hub.rename("lab/old:v1", "lab/new:v1", root=other[0])
        return real(store, name)

    monkeypatch.setattr(renaming, "read_log", late)
    assert hub.rename("lab/old:v1", "lab/new:v1", root=root)[...].tolist() == [5, 1, 1, 1, 1, 1]
    assert hub.rename("lab/old:v1", "lab/new:v1", root=root).commit == 3


def test_the_collector_of_the_old_folder_leaves_what_the_new_name_needs(root):
    hub.array((50, 4), "lab/old:v1", "i4", chunks=(1, 4), root=root, grace_seconds=60)[...] = 5
    hub.rename("lab/old:v1", "lab/new:v1", root=root)
    age(root, seconds=3600)
    hub.collect_garbage("lab/old", root=root)
    assert (hub.load("lab/new:v1", root=root)[...] == 5).all()
    assert hub.verify("lab/new", root=root).problems == []


@pytest.mark.parametrize("calls", range(1, 14))
def test_what_is_broken_off_at_any_write_is_gone_on_from(root, monkeypatch, calls):
    array = hub.array((5, 4), "lab/old:v1", "i4", root=root)
    for i in range(4):
        array[i] = i
    before = _state("lab/old:v1", root)
    store, count = type(root.store), [0]
    real = {verb: getattr(store, verb) for verb in ("put", "put_if_absent")}

    def broken(verb):
        def call(self, *args, **options):
            count[0] += 1
            if count[0] == calls:
                raise KeyboardInterrupt
            return real[verb](self, *args, **options)

        return call

    with monkeypatch.context() as patch:
        for verb in real:
            patch.setattr(store, verb, broken(verb))
        try:
            hub.rename("lab/old:v1", "lab/new:v1", root=root)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        assert hub.exists("lab/old:v1", root=root) or hub.exists("lab/new:v1", root=root)
    hub.rename("lab/old:v1", "lab/new:v1", root=root)
    assert _state("lab/new:v1", root) == before
    assert not hub.exists("lab/old:v1", root=root)


def test_what_others_commit_meanwhile_comes_along(root, monkeypatch):
    from hubarray.history.maintenance import renaming

    array = hub.array((5, 4), "lab/old:v1", "i4", root=root)
    real, done = renaming.write_anew, []

    def and_somebody_commits(source, target):
        made = real(source, target)
        if not done:
            array[0] = 7
        done.append(made)
        return made

    monkeypatch.setattr(renaming, "write_anew", and_somebody_commits)
    assert (hub.rename("lab/old:v1", "lab/new:v1", root=root)[0] == 7).all()
    assert len(done) == 2


def test_a_name_that_is_or_was_taken_is_refused_and_nothing_changes(root):
    hub.array(3, "lab/old:v1", root=root)[...] = 5
    hub.array(3, "lab/taken:v1", root=root)
    for to in ("lab/taken:v1", "lab/gone:v1"):
        if to == "lab/gone:v1":
            hub.array(3, to, root=root)
            hub.delete(to, root=root)
        with pytest.raises(hub.errors.AlreadyExistsError):
            hub.rename("lab/old:v1", to, root=root)
    assert hub.load("lab/old:v1", root=root)[...].tolist() == [5, 5, 5]
    with pytest.raises(hub.errors.ConfigError, match="already its name"):
        hub.rename("lab/old:v1", "lab/old:v1", root=root)
    with pytest.raises(hub.errors.NotFoundError):
        hub.rename("lab/nothing:v1", "lab/x:v1", root=root)


def test_a_handle_on_the_old_name_says_that_it_is_gone(root):
    array = hub.array(3, "lab/old:v1", root=root)
    hub.rename("lab/old:v1", "lab/new:v1", root=root)
    with pytest.raises(hub.errors.NotFoundError):
        array[0] = np.float64(1)
