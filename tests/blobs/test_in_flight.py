"""One fetch for all who want the same: what those who wait for it get when it ends."""

import threading

import pytest

import hubarray as hub
from hubarray.blobs.in_flight import Flights

NAME = ("pack", b"", 0)


@pytest.fixture
def flights():
    return Flights()


def _waiting(flights):
    """Somebody who waits for the flight that is under way, and what becomes of it."""
    ours, [(_, flight)] = flights.board([(0, NAME)])
    assert not ours
    outcome = []

    def wait():
        try:
            outcome.append(flights.wait(flight))
        except hub.HubError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, outcome


def test_who_comes_second_gets_the_bytes_of_the_first(flights):
    mine, theirs = flights.board([(0, NAME)])
    assert not theirs
    thread, outcome = _waiting(flights)
    flights.land(mine[0], b"x")
    thread.join()
    assert outcome == [b"x"]
    assert flights.wait(mine[0]) == b"x"


@pytest.mark.parametrize(
    "error", [hub.errors.CorruptDataError("flipped"), KeyboardInterrupt(), hub.errors.UnavailableError("down")]
)
def test_who_waits_for_one_that_fails_fetches_for_itself(flights, error):
    mine, _ = flights.board([(0, NAME)])
    thread, outcome = _waiting(flights)
    flights.give_up(mine.values(), error)
    thread.join()
    assert outcome == [None]
    again, theirs = flights.board([(0, NAME)])
    assert again
    assert not theirs


def test_who_has_waited_long_for_a_storage_that_does_not_answer_fails_with_the_one_that_asked(flights, monkeypatch):
    monkeypatch.setattr("hubarray.blobs.in_flight.FLIGHT_PATIENCE_SECONDS", 0)
    mine, _ = flights.board([(0, NAME)])
    thread, outcome = _waiting(flights)
    error = hub.errors.UnavailableError("s3://b/k: the server did not answer")
    flights.give_up(mine.values(), error)
    thread.join()
    assert type(outcome[0]) is hub.errors.UnavailableError
    assert outcome[0].args == error.args
    assert outcome[0] is not error


def test_what_landed_before_a_failure_stays_landed(flights):
    mine, _ = flights.board([(0, NAME)])
    thread, outcome = _waiting(flights)
    flights.land(mine[0], b"x")
    flights.give_up(mine.values(), hub.errors.UnavailableError("down"))
    thread.join()
    assert outcome == [b"x"]
