"""One version's log: how the newest record is found at what cost, and what is said of records that are gone."""

import itertools
from dataclasses import replace

import pytest

import hubarray as hub
from hubarray.errors import AccessDeniedError, CorruptDataError, NotFoundError, ObjectMissingError, UnavailableError
from hubarray.history.log.hints import encode_hint, hint_key
from hubarray.history.log.log import Log
from hubarray.history.records.record import record_key
from hubarray.names import parse
from hubarray.storage.base import Store
from tests import servers

NAME = parse("t/x:v0")


@pytest.fixture
def log(root, forget):
    """The log of a version of five commits, with a current hint."""
    array = hub.array(3, "t/x:v0", "i8", root=root)
    for i in range(4):
        array[0] = i + 1
    forget()
    return Log(root.store, NAME)


def _requests(log, function):
    before = log.store.stats.requests
    function()
    return log.store.stats.requests - before


def _hint(log, number):
    log.store.put(hint_key(NAME), encode_hint(number))


def _lose(log, *numbers):
    log.store.delete([record_key(NAME, number) for number in numbers])


def _next(log, **changes):
    newest = log.newest()
    head = replace(newest.head, number=newest.head.number + 1, parent=newest.digest, id="5" * 32, **changes)
    return replace(newest, head=head, digest="")


def test_the_name_of_a_commit_has_the_log_of_its_version(root):
    assert str(Log(root.store, parse("t/x:v0@3", commit_allowed=True)).name) == "t/x:v0"


def test_a_record_is_read_with_one_request_and_so_is_its_head(log):
    assert [log.read(number).head.number for number in (1, 5)] == [1, 5]
    assert _requests(log, lambda: log.read(3)) == 1
    assert log.read_head(3) == log.read(3).head
    assert _requests(log, lambda: log.read_head(3)) == 1


def test_a_head_with_a_long_message_takes_a_second_request(log):
    _, ours = log.create(_next(log, message="m" * 2000))
    assert ours
    assert log.read_head(6).message == "m" * 2000
    assert _requests(log, lambda: log.read_head(6)) == 2


@pytest.mark.parametrize("behind", [0, 1, 2, 4])
def test_the_newest_is_found_from_a_hint_that_is_behind_in_two_log_two_requests_more(log, behind):
    _hint(log, 5 - behind)
    assert log.newest().head.number == 5
    most = 3 + (2 * behind.bit_length() + 2 if behind else 0)
    assert _requests(log, log.newest) <= most


@pytest.mark.parametrize("hint", [None, b"", b"no hint", encode_hint(2)[:-1]])
def test_the_newest_is_found_without_a_hint_or_with_a_damaged_one(log, hint, caplog):
    if hint is None:
        log.store.delete([hint_key(NAME)])
    else:
        log.store.put(hint_key(NAME), hint)
    assert log.newest().head.number == 5
    assert ("not a hint" in caplog.text) == (hint is not None)


def test_a_hint_at_a_record_that_is_gone_means_lost_commits(log):
    _lose(log, 5)
    with pytest.raises(CorruptDataError, match=r"0000000000000005\.json: the hint .*head\.json names this record"):
        log.newest()


def test_nothing_newer_than_a_known_record_costs_one_probe(log):
    known = log.read(5)
    assert log.newest_after(known) is known
    assert _requests(log, lambda: log.newest_after(known)) == 1
    assert log.newest_after(log.read(2)).head.number == 5


def test_a_version_that_was_never_made_is_not_there(root):
    log = Log(root.store, parse("t/y:v0"))
    for look in (log.newest, lambda: log.newest_after(None), lambda: log.read_if_made(1)):
        with pytest.raises(NotFoundError, match="t/y:v0"):
            look()
    assert not log.exists(1)


def test_a_store_that_has_every_key_is_said_to_have_records_without_end(log, monkeypatch):
    monkeypatch.setattr(Store, "head", lambda store, key: None)
    with pytest.raises(CorruptDataError, match="more records than there can be"):
        log.newest_after(log.read(5))


def test_a_store_that_hides_whether_a_record_is_there_says_which_permission_is_needed(log, monkeypatch):
    def denied(store, key):
        raise AccessDeniedError(f"{key}: 403")

    monkeypatch.setattr(type(log.store), "head", denied)
    with pytest.raises(AccessDeniedError, match=r"0000000000000006\.json: 403.*s3:ListBucket.*name@number"):
        log.exists(6)


def test_a_number_beyond_the_newest_was_never_given_and_one_below_it_is_a_gap(log):
    with pytest.raises(NotFoundError, match=r"t/x:v0@6: there is no such commit .*the newest is 5"):
        log.read_if_made(6)
    _lose(log, 2)
    with pytest.raises(CorruptDataError, match=r"0000000000000002\.json: the log has a gap"):
        log.read_if_made(2)
    assert log.read_if_made(3).head.number == 3


def test_a_commit_that_is_made_while_it_is_looked_for_is_read(log, monkeypatch):
    real, asked = Log.read, []

    def read(self, number):
        asked.append(number)
        if asked == [2]:
            raise ObjectMissingError("not yet")
        return real(self, number)

    monkeypatch.setattr(Log, "read", read)
    assert log.read_if_made(2).head.number == 2
    assert asked.count(2) == 2


def test_heads_come_newest_first_and_are_read_as_they_are_asked_for(log):
    newest = log.read(5).head
    assert [head.number for head in log.heads(newest)] == [5, 4, 3, 2, 1]
    assert _requests(log, lambda: list(itertools.islice(log.heads(newest), 3))) == 2
    _lose(log, 3)
    heads = log.heads(newest)
    assert [next(heads).number for _ in range(2)] == [5, 4]
    with pytest.raises(CorruptDataError, match=r"0000000000000003\.json: the log has a gap"):
        next(heads)


def test_a_record_is_created_where_its_number_is_free_and_else_the_one_there_is_told(log):
    record = _next(log)
    created, ours = log.create(record)
    assert ours
    assert created.digest == log.read(6).digest
    other, ours = log.create(replace(record, head=replace(record.head, id="6" * 32)))
    assert not ours
    assert other.head.id == "5" * 32


@pytest.mark.parametrize("arrived", [False, True])
def test_a_create_whose_reply_was_lost_is_ours_whether_it_arrived_or_not(log, monkeypatch, arrived):
    monkeypatch.setattr("hubarray.history.log.log.time.sleep", lambda seconds: None)
    real, failures = type(log.store).put_if_absent, [UnavailableError("reset")]

    def lossy(store, key, data):
        created = real(store, key, data) if arrived or not failures else False
        if failures:
            raise failures.pop()
        return created

    monkeypatch.setattr(type(log.store), "put_if_absent", lossy)
    created, ours = log.create(_next(log))
    assert ours
    assert log.read(6).digest == created.digest


def test_a_create_that_never_reached_the_store_failed_and_one_that_nobody_can_tell_of_is_unknown(log, monkeypatch):
    monkeypatch.setattr("hubarray.history.log.log.time.sleep", lambda seconds: None)
    record, tries = _next(log), []

    def failing(error):
        def put(store, key, data):
            tries.append(key)
            raise error

        monkeypatch.setattr(type(log.store), "put_if_absent", put)

    failing(AccessDeniedError("no"))
    with pytest.raises(AccessDeniedError):
        log.create(record)
    assert len(tries) == 1
    failing(UnavailableError("silence"))
    with pytest.raises(hub.errors.CommitOutcomeUnknown, match=rf"0000000000000006\.json.*{record.head.id}.*silence"):
        log.create(record)
    assert len(tries) == 5
    assert not log.exists(6)


def test_a_hint_is_taken_at_its_word_where_only_plain_gets_are_possible(log):
    _hint(log, 4)
    with servers.static_http(log.store.folder) as url:
        plain = Log(hub.Root(url).store, NAME)
        assert plain.newest().head.number == 4
        assert _requests(plain, plain.newest) == 2
        log.store.delete([hint_key(NAME)])
        with pytest.raises(NotFoundError, match=r"t/x:v0: there is no such version"):
            plain.newest()
