"""Running a function again when its transaction met a conflict."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from hubarray.errors import ConfigError, ConflictError
from hubarray.redaction import named_type

T = TypeVar("T")

_FIRST_BACKOFF_SECONDS = 0.005
_MAX_BACKOFF_SECONDS = 1.0


def retry(fn: Callable[[], T], *, timeout_seconds: float = 60.0) -> T:
    """Call ``fn`` until it does not raise ConflictError, with jittered backoff.

    Only ConflictError is retried, because only then is it sure that nothing
    was written. CommitOutcomeUnknown in particular is not.

    Parameters
    ----------
    fn : callable
        Typically begins a transaction, reads, computes and writes.
    timeout_seconds : float
        After this long the last ConflictError is raised.

    Returns
    -------
    What ``fn`` returned.

    Examples
    --------
    >>> import hubarray as hub
    >>> counter = hub.array((), "docs/counter:v0", dtype="int64")
    >>> def count():
    ...     with counter.transaction("count") as t:
    ...         t[()] = t[()] + 1
    >>> hub.retry(count)
    >>> int(counter[()])
    1
    """
    if not callable(fn):
        raise ConfigError(
            f"retry takes a function that reads and writes, not {named_type(fn)}; give one without arguments, such as "
            "a lambda"
        )
    deadline = time.monotonic() + timeout_seconds
    backoff = _FIRST_BACKOFF_SECONDS
    while True:
        try:
            return fn()
        except ConflictError:
            if time.monotonic() + backoff > deadline:
                raise
        time.sleep(random.uniform(0, backoff))
        backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)
