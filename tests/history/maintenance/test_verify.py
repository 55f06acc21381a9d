"""Everything that live commits reach is read and judged, past every cache, and one problem does not hide the next."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs.fetch import fetcher_for
from hubarray.errors import CorruptDataError
from hubarray.history.log.hints import encode_hint, hint_key
from hubarray.history.maintenance.verify import verify
from hubarray.names import parse
from tests.damage import DAMAGE, damage, keys, stored_array


@pytest.fixture(params=["local", "s3"])
def stored(request, make_root):
    return stored_array(make_root(request.param))


def test_it_finds_nothing_wrong_with_what_is_whole(any_root):
    array = hub.array((1500, 4), "t/x:v0", "i4", chunks=(1, 4), root=any_root)
    array[...] = np.arange(6000).reshape(1500, 4)
    array[7] = 1
    array.resize((1200, 9))
    hub.copy("t/x:v0", "t/y", root=any_root)[3] = 4
    hub.array((1500, 4), "t/x:v0", "i4", overwrite=True, root=any_root)
    hub.array(3, "t/x:v1", root=any_root)
    hub.delete("t/x:v1", root=any_root)
    hub.flush()
    for data in (True, False):
        report = hub.verify("t/x", data=data, root=any_root)
        assert report.problems == []
        assert report.records == 7
        assert report.blobs > 1500
        assert hub.verify("t/y:main", data=data, root=any_root).problems == []
    with pytest.raises(hub.errors.NotFoundError):
        hub.verify("t/x:v9", root=any_root)


@pytest.mark.parametrize("how", DAMAGE)
def test_it_names_each_damaged_object_and_goes_on(stored, how):
    assert hub.verify("t/x", root=stored).problems == []
    for folder in ("packs", "manifest", "log/v0"):
        for key in keys(stored, folder):
            good = bytes(stored.store.get(key))
            damage(stored, key, how)
            problems = hub.verify("t/x", root=stored).problems
            if key.endswith("head.json") and how == "deleted":
                assert problems == []
            else:
                assert key in {problem.key for problem in problems}, problems
            stored.store.put(key, good)
    assert hub.verify("t/x", root=stored).problems == []


def test_without_data_it_finds_packs_that_are_gone_or_cut_short(stored):
    first, second = keys(stored, "packs")[:2]
    damage(stored, first, "deleted")
    damage(stored, second, "truncated")
    assert {problem.key for problem in hub.verify("t/x", data=False, root=stored).problems} == {first, second}


def test_it_finds_a_record_that_was_exchanged_for_another_whole_one(stored, make_root):
    """An older fork of the log fits its place, but not its neighbours."""
    other = make_root("memory")
    fork = hub.array((2000, 10), "t/x:v0", "i4", chunks=(1, 10), root=other, fill_value=-1)
    fork[...] = 3
    key = "t/x/log/v0/0000000000000002.json"
    stored.store.put(key, bytes(other.store.get(key)))
    problems = hub.verify("t/x", root=stored).problems
    assert key in {problem.key for problem in problems}


def test_records_that_are_missing_are_named_however_far_the_hint_is_ahead(root):
    stored_array(root)
    root.store.delete(["t/x/log/v0/0000000000000002.json"])
    root.store.put(hint_key(parse("t/x:v0")), encode_hint(5))
    report = hub.verify("t/x", root=root)
    missing = {f"t/x/log/v0/000000000000000{number}.json" for number in (2, 4, 5)}
    assert {problem.key for problem in report.problems} == missing
    assert {problem.what for problem in report.problems} == {"the record is missing"}
    root.store.put(hint_key(parse("t/x:v0")), encode_hint(10**15))
    problems = hub.verify("t/x", root=root).problems
    assert len(problems) < 1100
    assert any("999,999,999,998,997 records before it" in problem.what for problem in problems)


def test_nothing_is_taken_from_a_cache(s3_root):
    stored_array(s3_root)
    expected = hub.load("t/x:v0@2", root=s3_root)[...]
    record, (pack, *_) = "t/x/log/v0/0000000000000002.json", keys(s3_root, "packs")
    for key in (record, pack):
        damage(s3_root, key, "flipped")
    assert np.array_equal(hub.load("t/x:v0@2", root=s3_root)[...], expected)
    assert {problem.key for problem in hub.verify("t/x", root=s3_root).problems} >= {record, pack}


def test_only_what_live_commits_reach_is_looked_at(root):
    stored_array(root)
    old = set(keys(root, "packs"))
    hub.load("t/x:v0", root=root)[...] = 5
    root.store.delete(old)
    result = hub.verify("t/x", root=root)
    assert {problem.key for problem in result.problems} == old
    assert result.blobs == 4001
    hub.expire("t/x:v0", keep_last=1, root=root)
    result = hub.verify("t/x", root=root)
    assert result.problems == []
    assert result.blobs == 2000


def test_a_name_that_reads_anothers_data_without_protection_is_told(root):
    stored_array(root)
    hub.copy("t/x:v0", "t/y", root=root)
    (referrer,) = root.store.list("t/x/referrers/")
    root.store.delete([referrer.key])
    (problem,) = hub.verify("t/y", root=root).problems
    assert str(problem) == "t/x/referrers/: nothing there protects the data that t/y reads"


def test_a_description_that_its_kind_cannot_read_is_a_problem_of_the_record(root):
    stored_array(root)

    def check(record):
        if record.head.number == 2:
            raise CorruptDataError("no such dtype")

    report = verify(fetcher_for(root), [parse("t/x:v0")], data=False, check=check)
    assert [str(problem) for problem in report.problems] == ["t/x/log/v0/0000000000000002.json: no such dtype"]
