"""Taking turns: how long a writer waits so that others of the same version get theirs. Pure.

Without it, a writer that commits in a tight loop starves one whose commit takes
a little longer: by the time the other has read what it lost to and merged, the
number is taken again, for as long as the loop runs. There is no lock to queue
at, so writers are polite instead:

* after losing a race, a writer tries again the sooner the more often it lost;
* a writer that has met others lately leaves a gap after each commit of its own;
* one that has met nobody leaves a gap a few times a second, in case somebody
  waits whom it cannot see.
"""

from __future__ import annotations

import random
import threading

from hubarray import process

CONTENDED_SECONDS = 2.0
RUN_SECONDS = 0.3
LOOP_GAP_SECONDS = 0.05
MAX_PAUSE_SECONDS = 0.05
RETRY_SECONDS = 0.02


class Turns:
    """One process's knowledge of the traffic on a version; times are monotonic seconds."""

    def __init__(self) -> None:
        self._lost_at = self._won_at = self._run_began = float("-inf")
        self._commit_seconds = 0.002
        self._lock = threading.Lock()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def won(self, now: float, commit_seconds: float) -> None:
        """A commit of this process was made, and took so long."""
        with self._lock:
            if now - self._won_at > LOOP_GAP_SECONDS + commit_seconds:
                self._run_began = now
            self._won_at = now
            self._commit_seconds += 0.2 * (commit_seconds - self._commit_seconds)

    def lost(self, now: float) -> None:
        """A commit of another process came first."""
        with self._lock:
            self._lost_at = now

    def pause_seconds(self, now: float) -> float:
        """How long to wait before beginning the next commit; 0 for a writer that is alone and not in a loop."""
        with self._lock:
            if now - self._won_at > LOOP_GAP_SECONDS:
                return 0.0
            gap = min(MAX_PAUSE_SECONDS, random.uniform(1.5, 3.0) * self._commit_seconds)
            if now - self._lost_at < CONTENDED_SECONDS:
                return gap
            if now - self._run_began > RUN_SECONDS:
                self._run_began = now
                return gap
            return 0.0


def retry_seconds(attempt: int) -> float:
    """How long to wait after losing for the ``attempt``-th time: the more often, the shorter."""
    return random.uniform(0, RETRY_SECONDS / attempt)
