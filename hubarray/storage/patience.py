"""Servers that ask to try later, or break off: a call is made again until its time is up."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from hubarray import config
from hubarray.errors import UnavailableError
from hubarray.threads import ending

T = TypeVar("T")

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS, _LONGEST_RETRY_AFTER_SECONDS = 0.1, 5.0, 30.0
_LIFELESS_SECONDS = 9.0

log = logging.getLogger("hubarray.storage")


def unanswered(
    where: str, reason: str, *, is_alive: bool = False, retry_after_seconds: float = 0.0
) -> UnavailableError:
    """The error of every engine for a server that is down, or answers what no handler could use.

    Parameters
    ----------
    where, reason : str
    is_alive : bool
        Whether it gave a sign of life, such as a request to try later, or a reply that broke off: then it is asked
        again for as long as the setting ``retry_timeout_seconds`` says, and else for some seconds.
    retry_after_seconds : float
        How long the server itself asks to wait.
    """
    message = (
        f"{where}: the server asked to try later, or broke off its reply ({reason}), for as long as "
        "retry_timeout_seconds allows; try again later, or allow more"
        if is_alive
        else f"{where}: the server did not answer as it should ({reason}); "
        "try again, and check that it runs and that the root names the right endpoint"
    )
    return UnansweredError(message, is_alive=is_alive, retry_after_seconds=retry_after_seconds)


class UnansweredError(UnavailableError):
    """A call that may be made again, as :func:`unanswered` says; the verbs of a :class:`Store` do that themselves."""

    # With defaults, as a pickled error is made anew of its message.
    def __init__(self, message: str, *, is_alive: bool = False, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.is_alive, self.retry_after_seconds = is_alive, retry_after_seconds


def retried(call: Callable[[], T], where: str, timeout_seconds: float | None = None) -> T:
    """Make a call, and again, after longer and longer waits, while it raises :class:`UnansweredError`.

    Parameters
    ----------
    call : callable
    where : str
        The server, for the log.
    timeout_seconds : float, optional
        By default the setting ``retry_timeout_seconds``.

    Raises
    ------
    UnavailableError
        The time is up.
    """
    began, attempt = time.monotonic(), 0
    while True:
        try:
            return call()
        except UnansweredError as error:
            allowed = config.current().retry_timeout_seconds if timeout_seconds is None else timeout_seconds
            # A server that is gone is to be named soon, but may only be starting anew.
            allowed = allowed if error.is_alive else min(allowed, _LIFELESS_SECONDS)
            asked, message = min(error.retry_after_seconds, _LONGEST_RETRY_AFTER_SECONDS), error.args
            is_alive = error.is_alive
        # In the handler, the error would keep alive what it was raised in.
        left = allowed - (time.monotonic() - began)
        if left <= asked:
            raise UnavailableError(*message)
        wait = random.uniform(0.5, 1.0) * min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**attempt)
        # As long as it waits, the last attempt may take.
        if is_alive and 2 * wait > left:
            raise UnavailableError(*message)
        # Of a server that is gone, the last attempt is made when the time is up.
        wait = max(asked, min(wait, left))
        log.debug("%s: no answer yet; the next attempt is in %.1f s", where, wait)
        if ending.wait(wait):
            raise UnavailableError(*message)
        attempt += 1
