"""Taking turns: how long a writer waits so that others of the same version get theirs. Pure.

Without it, a writer that commits in a tight loop starves one whose commit takes a little longer: by the time the other
has read what it lost to and merged, the number is taken again, for as long as the loop runs. Writers of one machine
queue (``commit_queue.py``). Between machines there is nothing to queue at, so they are polite instead:

* after losing a race, a writer waits for up to four commits, and the shorter the more often it lost;
* a machine that has met others lately makes a few commits in a row, and then leaves a gap of about twice their time: in
  a row it wins nearly every race, and what others try meanwhile is lost;
* one that has met nobody leaves a gap a few times a second, in case somebody waits whom it cannot see.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass

CONTENDED_SECONDS = 2.0
RUN_SECONDS = 0.3
RUN_COMMITS = 4
"""How many commits in a row a machine makes while it meets others."""
LOOP_GAP_SECONDS = 0.05
MAX_PAUSE_SECONDS = 0.15
RETRY_COMMITS = 4

_STATE = struct.Struct("<4d")
STATE_BYTES = _STATE.size


@dataclass
class ContentionStats:
    """A version's traffic, as the writers of one machine know it; times are monotonic seconds.

    Attributes
    ----------
    lost_at, won_at : float
        When a commit of another machine came first, and when one of this machine was made.
    run_began : float
        When the commits in a row began; infinite where none was made since the last gap.
    commit_seconds : float
        How long a commit takes, on average.
    """

    lost_at: float = -math.inf
    won_at: float = -math.inf
    run_began: float = -math.inf
    commit_seconds: float = 0.002

    @classmethod
    def decoded(cls, data: bytes) -> ContentionStats:
        """The state that :meth:`encoded` gave; as new where that cannot be.

        Examples
        --------
        >>> ContentionStats.decoded(ContentionStats(lost_at=3.0).encoded()).lost_at
        3.0
        >>> ContentionStats.decoded(b"?")
        ContentionStats(lost_at=-inf, won_at=-inf, run_began=-inf, commit_seconds=0.002)
        """
        if len(data) != STATE_BYTES:
            return cls()
        values = _STATE.unpack(data)
        if any(math.isnan(value) for value in values):
            return cls()
        return cls(*values)

    def encoded(self) -> bytes:
        """All of it in 32 bytes."""
        return _STATE.pack(self.lost_at, self.won_at, self.run_began, self.commit_seconds)

    def add_win(self, now: float, commit_seconds: float) -> None:
        """A commit of this machine was made, and took so long."""
        if math.isinf(self.run_began) or now - self.won_at > LOOP_GAP_SECONDS + commit_seconds:
            self.run_began = now
        self.won_at = now
        self.commit_seconds += 0.2 * (commit_seconds - self.commit_seconds)

    def add_loss(self, now: float) -> None:
        """A commit of another machine came first."""
        self.lost_at = now

    def pause_seconds(self, now: float) -> float:
        """How long to wait before beginning the next commit; 0 for a writer that is alone and not in a loop."""
        if now < self.won_at or now - self.won_at > LOOP_GAP_SECONDS:
            return 0.0
        took = min(max(self.commit_seconds, 0.0), MAX_PAUSE_SECONDS)
        contended = 0 <= now - self.lost_at < CONTENDED_SECONDS
        if now - self.run_began <= (RUN_COMMITS * took if contended else RUN_SECONDS):
            return 0.0
        commits = RUN_COMMITS if contended else 1
        gap = min(MAX_PAUSE_SECONDS, random.uniform(1.5, 3.0) * commits * took)
        # It begins with its first commit: whoever loses at first would have no time left for a row.
        self.run_began = math.inf
        return gap


def retry_seconds(attempt: int, commit_seconds: float) -> float:
    """How long to wait after losing for the ``attempt``-th time, where a commit takes so long."""
    most = min(MAX_PAUSE_SECONDS, RETRY_COMMITS * max(commit_seconds, 0.0))
    return random.uniform(0, most / attempt)
