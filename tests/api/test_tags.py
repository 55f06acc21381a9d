import numpy as np
import pytest

import hubarray as hub
from hubarray.history.maintenance import garbage
from hubarray.history.records.head import Head
from hubarray.history.records.record import Record
from tests.ageing import age


def _array(root=None, **options):
    array = hub.array(4, "t/x:v0", "i8", chunks=2, root=root, **options)
    array[:] = 1
    array[:] = 2
    return array


def test_a_tag_names_a_commit_wherever_one_is_read(any_root, forget):
    array = _array(any_root)
    assert hub.tag("t/x:v0@2", "paper", root=any_root) == 2
    assert hub.tag("t/x:v0", "newest", root=any_root) == 4
    array[:] = 3
    forget()
    tagged = hub.load("t/x:v0@paper", root=any_root)
    assert tagged[:].tolist() == [1] * 4
    assert tagged.commit == 2
    with pytest.raises(hub.errors.ReadOnlyError):
        tagged[0] = 1
    assert hub.tags("t/x:v0", root=any_root) == {"newest": 4, "paper": 2}
    assert hub.exists("t/x:v0@paper", root=any_root)
    assert not hub.exists("t/x:v0@pape", root=any_root)
    assert [commit.tags for commit in hub.log("t/x:v0", root=any_root)] == [(), (), ("newest",), (), ("paper",), ()]
    assert [commit.number for commit in hub.log("t/x:v0@paper", root=any_root)] == [2, 1]
    assert hub.copy("t/x:v0@paper", "t/x:v1", root=any_root)[:].tolist() == [1] * 4
    assert hub.tags("t/x:v1", root=any_root) == {}
    assert hub.diff("t/x:v0@paper", "t/x:v0@newest", root=any_root).chunks == ((0,), (1,))
    assert hub.restore("t/x:v0", "paper", root=any_root)[:].tolist() == [1] * 4


def test_a_tag_stays_where_it_is():
    _array()
    hub.tag("t/x:v0@2", "paper")
    before = next(hub.log("t/x:v0")).number
    assert hub.tag("t/x:v0@2", "paper") == 2
    assert next(hub.log("t/x:v0")).number == before
    with pytest.raises(hub.errors.AlreadyExistsError, match=r"names commit 2 already"):
        hub.tag("t/x:v0@3", "paper")


def test_an_unknown_tag_is_an_error_that_lists_those_there_are():
    _array()
    with pytest.raises(hub.errors.TagNotFoundError, match="it has no tags"):
        hub.load("t/x:v0@banana")
    hub.tag("t/x:v0", "paper")
    with pytest.raises(hub.errors.TagNotFoundError, match="its tags are paper") as result:
        hub.load("t/x:v0@banana")
    assert isinstance(result.value, hub.errors.NotFoundError)
    assert isinstance(result.value, hub.errors.InvalidNameError)
    with pytest.raises(hub.errors.TagNotFoundError, match="t/x has :v0"):
        hub.load("t/x:v9@paper")
    with pytest.raises(hub.errors.InvalidNameError, match="only be read"):
        hub.delete("t/x:v0@paper")
    for wrong in ("", "1", "a b", None):
        with pytest.raises(hub.errors.InvalidNameError):
            hub.tag("t/x:v0", wrong)
    with pytest.raises(hub.errors.NotFoundError):
        hub.tag("t/x:v0@99", "nothing")


def test_what_is_frozen_can_be_tagged():
    _array()
    hub.freeze("t/x:v0")
    assert hub.tag("t/x:v0", "final") == 4
    assert hub.load("t/x:v0@final").frozen


def test_tags_of_two_writers_both_stay(root, other_machine):
    _array(root)
    hub.tags("t/x:v0", root=root)
    other_machine(lambda: hub.tag("t/x:v0@2", "theirs", root=root))
    hub.tag("t/x:v0@3", "ours", root=root)
    assert hub.tags("t/x:v0", root=root) == {"ours": 3, "theirs": 2}


def test_a_tagged_commit_neither_expires_nor_is_collected(root, monkeypatch):
    array = _array(root, grace_seconds=1000)
    for i in range(3, 7):
        array[:] = i
    hub.tag("t/x:v0@2", "paper", root=root)
    assert hub.expire("t/x:v0", keep_last=1, root=root) == 7
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.tag("t/x:v0@3", "late", root=root)
    age(root, 1001)
    garbage_ = hub.collect_garbage("t/x", root=root)
    assert garbage_.commits == 6
    assert hub.load("t/x:v0@paper", root=root)[:].tolist() == [1] * 4
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.load("t/x:v0@3", root=root)
    assert hub.verify("t/x", root=root).problems == []
    assert hub.restore("t/x:v0", "paper", root=root)[:].tolist() == [1] * 4
    assert hub.copy("t/x:v0@paper", "t/y:v0", root=root)[:].tolist() == [1] * 4


def test_deleting_a_version_ends_its_tags_unless_it_is_restored():
    _array()
    hub.tag("t/x:v0@2", "paper")
    hub.delete("t/x:v0")
    assert hub.restore("t/x:v0", 3)[:].tolist() == [2] * 4
    assert hub.tags("t/x:v0") == {"paper": 2}
    hub.delete("t/x:v0")
    hub.array(4, "t/x:v0", "i8", chunks=2)
    assert hub.tags("t/x:v0") == {}
    hub.array(5, "t/x:v0", "i8", overwrite=True)
    hub.tag("t/x:v0", "paper")
    hub.array(6, "t/x:v0", "i8", overwrite=True)
    assert hub.load("t/x:v0@paper").shape == (5,)


def _record(number, *, kind="array", expired_to=0, tags=()):
    head = Head("t", "x", "v0", number, "i", "l", "g", kind, "2026-01-01", "a", expired_to=expired_to)
    return Record(head, tags=dict(tags))


@pytest.mark.parametrize(
    ("last", "old", "dead"),
    [
        (_record(4, expired_to=3), {1, 2, 3, 4}, {1, 3}),
        (_record(4, expired_to=3), {1, 2, 3}, set()),
        (_record(4, expired_to=3, kind="deleted"), {1, 2, 3, 4}, {1, 2, 3}),
        (_record(4, expired_to=4), {1, 2, 3, 4}, {1, 3}),
    ],
)
def test_the_dead_are_what_expired_longer_than_the_grace_period_ago_and_is_not_tagged(last, old, dead):
    records = {number: _record(number) for number in (1, 2)} | {3: _record(3, tags=[("paper", 2)])}
    last = Record(last.head, tags={"paper": 2} if last.head.kind == "array" else {})
    assert garbage.dead_numbers(records | {4: last}, old) == dead


def test_a_tag_that_ended_within_the_grace_period_still_protects():
    records = {
        1: _record(1),
        2: _record(2),
        3: _record(3, tags=[("paper", 1)]),
        4: _record(4, expired_to=2, tags=[("paper", 1)]),
        5: _record(5, expired_to=2),
    }
    assert garbage.dead_numbers(records, {1, 2, 3, 4}) == {2}
    assert garbage.dead_numbers(records, {1, 2, 3, 4, 5}) == {1, 2}


def test_a_record_keeps_its_tags_on_the_way_to_the_bucket_and_back():
    array = _array()
    for i in range(20):
        hub.tag("t/x:v0", f"tag{i}")
    assert len(hub.tags("t/x:v0")) == 20
    assert np.array_equal(array[:], hub.load("t/x:v0@tag19")[:])


def test_what_only_a_tag_kept_goes_after_the_grace_period(root):
    array = hub.array(3, "t/x:v0", "i8", root=root, grace_seconds=1000)
    array[...] = 1
    array[...] = 2
    hub.tag("t/x:v0@2", "kept", root=root)
    hub.expire("t/x:v0", keep_last=1, root=root)
    age(root, seconds=5000)
    hub.collect_garbage("t/x", root=root)
    assert hub.load("t/x:v0@kept", root=root)[0] == 1
    hub.untag("t/x:v0", "kept", root=root)
    assert hub.collect_garbage("t/x", root=root).packs == 0
    age(root, seconds=5000)
    assert hub.collect_garbage("t/x", root=root).packs == 1
    with pytest.raises(hub.errors.NotFoundError):
        hub.load("t/x:v0@2", root=root)
    assert hub.load("t/x:v0", root=root)[0] == 2
