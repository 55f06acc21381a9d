"""A version as a process knows it: shared by all handles, never going back, looked up as rarely as is allowed."""

import pytest

import hubarray as hub
from hubarray.errors import NotFoundError, TagNotFoundError, UnavailableError
from hubarray.history.log.version import version_of
from hubarray.names import parse
from tests.ageing import age

NAME = parse("t/x:v0")


@pytest.fixture
def array(root):
    array = hub.array(4, "t/x:v0", "i8", chunks=2, root=root)
    array[0] = 1
    array[0] = 2
    return array


@pytest.fixture
def version(array, root):
    return version_of(root, NAME)


def _others(root, other_machine, value):
    other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(0, value))


def _requests(version, function):
    before = version.store.stats.requests
    function()
    return version.store.stats.requests - before


def test_there_is_one_in_a_process_for_each_root_and_version(version, root):
    assert version_of(root, parse("t/x:v0@2", commit_allowed=True)) is version
    assert version_of(hub.Root(root.url), NAME) is version
    assert version_of(root, parse("t/x:v1")) is not version
    assert str(version.name) == "t/x:v0"


def test_what_is_committed_here_is_known_without_a_request(version, array):
    array[1] = 5
    assert version.last_seen.head.number == 4
    assert _requests(version, lambda: version.current(60)) == 0


def test_the_newest_record_known_never_moves_back(version):
    newest, older = version.last_seen, version.log.read(1)
    assert version.observe(older) is newest
    assert version.last_seen is newest


def test_others_commits_are_seen_after_the_allowed_staleness(version, root, other_machine):
    _others(root, other_machine, 7)
    assert version.current(60).head.number == 3
    assert version.current(-1).head.number == 4
    assert _requests(version, version.refresh) == 1


def test_a_frozen_version_is_not_looked_up_again(version, root):
    hub.freeze("t/x:v0", root=root)
    version.refresh()
    assert _requests(version, lambda: version.current(-1)) == 0


def test_a_log_that_was_taken_away_is_noticed_by_a_new_handle(version, root, array):
    assert version.reopen().head.number == 3
    assert version.newest().head.number == 3
    root.store.delete([info.key for info in root.store.list("t/x/log/")])
    assert version.newest() is None
    with pytest.raises(NotFoundError):
        version.reopen()


def test_one_commit_is_read_once_and_then_from_the_disk_cache(s3_root):
    array = hub.array(4, "t/x:v0", "i8", chunks=2, root=s3_root)
    array[0] = 1
    array[0] = 2
    version = version_of(s3_root, NAME)
    assert _requests(version, lambda: version.cached(3)) == 0
    assert _requests(version, lambda: version.cached(2)) == 1
    assert _requests(version, lambda: version.cached(2)) == 0
    assert version.cached(2).head == version.uncached(2).head


def test_a_commit_that_expired_or_was_never_made_is_not_there(version, root):
    with pytest.raises(NotFoundError, match=r"t/x:v0@9.*the newest is 3"):
        version.uncached(9)
    record = version.cached(1)
    assert not version.has_expired(record)
    hub.tag("t/x:v0@2", "kept", root=root)
    hub.expire("t/x:v0", keep_last=1, root=root)
    for look in (version.uncached, version.base_record):
        assert look(2).head.number == 2
    assert version.has_expired(record)
    assert not version.has_expired(version.uncached(2))
    with pytest.raises(NotFoundError, match=r"t/x:v0@1: this commit has expired"):
        version.base_record(1)


def test_a_tag_is_the_number_of_its_commit(version, root):
    with pytest.raises(TagNotFoundError, match="it has no tags"):
        version.tagged("paper")
    hub.tag("t/x:v0@2", "paper", root=root)
    assert version.tagged("paper") == 2
    with pytest.raises(TagNotFoundError, match=r"@pape: there is no such tag; its tags are paper"):
        version.tagged("pape")


def test_what_was_before_a_deletion_can_be_built_on_for_half_the_grace_period(version, root):
    hub.delete("t/x:v0", root=root)
    assert version.base_record(3).head.number == 3
    grace_seconds = version.last_seen.head.grace_seconds
    age(root, grace_seconds / 2 - 60)
    assert not version.deleted_long_ago(version.refresh())
    age(root, 120)
    assert version.deleted_long_ago(version.refresh())
    with pytest.raises(NotFoundError, match=r"t/x:v0@3: the version was deleted longer than half its grace period ago"):
        version.base_record(3)


@pytest.mark.parametrize("frozen", [True, False])
def test_only_a_frozen_version_opens_from_the_disk_cache_when_the_store_is_silent(
    s3_root, monkeypatch, other_machine, frozen
):
    array = hub.array(4, "t/x:v0", "i8", chunks=2, root=s3_root)
    array[0] = 7
    if frozen:
        hub.freeze("t/x:v0", root=s3_root)
    version_of(s3_root, NAME).refresh()
    newest = next(array.log()).number

    def silent(*_, **__):
        raise UnavailableError("silence")

    for verb in ("get", "head", "list"):
        monkeypatch.setattr(type(s3_root.store), verb, silent)

    def reopened():
        version = version_of(s3_root, NAME)
        if not frozen:
            with pytest.raises(UnavailableError, match="silence"):
                version.reopen()
        else:
            assert version.reopen().head.number == newest

    other_machine(reopened)
