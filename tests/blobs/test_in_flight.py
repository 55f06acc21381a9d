"""One fetch for all who want the same: what those who wait for it get when it ends."""

import threading

import pytest

import hubarray as hub
from hubarray.blobs.in_flight import InFlight

NAME = ("pack", b"", 0)


@pytest.fixture
def in_flight():
    return InFlight()


def join(in_flight):
    mine = {}
    return mine, in_flight.join([(0, NAME)], mine)


def _waiting(in_flight):
    """Somebody who waits for the fetch that is under way, and what becomes of it."""
    ours, [(_, fetch)] = join(in_flight)
    assert not ours
    outcome = []

    def wait():
        try:
            outcome.append(in_flight.wait(fetch))
        except hub.HubError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, outcome


def test_who_comes_second_gets_the_bytes_of_the_first(in_flight):
    mine, theirs = join(in_flight)
    assert not theirs
    thread, outcome = _waiting(in_flight)
    in_flight.complete(mine[0], b"x")
    thread.join()
    assert outcome == [b"x"]
    assert in_flight.wait(mine[0]) == b"x"


@pytest.mark.parametrize(
    "error", [hub.errors.CorruptDataError("flipped"), KeyboardInterrupt(), hub.errors.UnavailableError("down")]
)
def test_who_waits_for_one_that_fails_fetches_for_itself(in_flight, error):
    mine, _ = join(in_flight)
    thread, outcome = _waiting(in_flight)
    in_flight.fail(mine.values(), error)
    thread.join()
    assert outcome == [None]
    again, theirs = join(in_flight)
    assert again
    assert not theirs


def test_who_has_waited_long_for_a_storage_that_does_not_answer_fails_with_the_one_that_asked(in_flight, monkeypatch):
    monkeypatch.setattr("hubarray.blobs.in_flight.FETCH_PATIENCE_SECONDS", 0)
    mine, _ = join(in_flight)
    thread, outcome = _waiting(in_flight)
    error = hub.errors.UnavailableError("s3://b/k: the server did not answer")
    in_flight.fail(mine.values(), error)
    thread.join()
    assert type(outcome[0]) is hub.errors.UnavailableError
    assert outcome[0].args == error.args
    assert outcome[0] is not error


def test_what_landed_before_a_failure_stays_landed(in_flight):
    mine, _ = join(in_flight)
    thread, outcome = _waiting(in_flight)
    in_flight.complete(mine[0], b"x")
    in_flight.fail(mine.values(), hub.errors.UnavailableError("down"))
    thread.join()
    assert outcome == [b"x"]
