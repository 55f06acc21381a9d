"""Commits: an operation is applied to the newest record until its result is in the log.

The order of writes is what keeps data safe (``docs/FORMAT.md``, "Write
order"): packs, then manifest nodes, then the record, by one atomic
create-if-absent. A writer that loses the race for a number applies its
operation again, to the newest record whole.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.pools import pools
from hubarray.blobs.ref import new_id
from hubarray.errors import (
    ConfigError,
    ConflictError,
    CorruptDataError,
    FormatVersionError,
    FrozenError,
    NotFoundError,
    ObjectMissingError,
)
from hubarray.history.commits.build_record import build_record
from hubarray.history.commits.draft import Draft
from hubarray.history.log.backoff import retry_seconds
from hubarray.history.log.commit_queue import CommitTicket
from hubarray.history.log.probes import require_atomic_create
from hubarray.history.log.version import Version
from hubarray.history.records.json_fields import MAX_NUMBER
from hubarray.history.records.record import (
    MAX_MESSAGE_BYTES,
    Record,
    encode,
)
from hubarray.process import uptime_seconds
from hubarray.storage.base import Buffer

SMALL_BYTES = 1 << 20
"""Maximum size of the values of a small operation."""


class Operation(Protocol):
    """A change that can be applied to any record of its version, again and again.

    ``apply`` may upload blobs through the pack writer, and should remember
    what it uploaded, so that applying again uploads only what differs.

    Attributes
    ----------
    allowed_when_frozen : bool
        Whether it may follow the record that froze the version.
    is_small : bool
        Whether it has so little to encode and upload that writers of this machine can wait for each other. A small
        operation starts when it is its turn. Others upload first.
    """

    allowed_when_frozen: bool
    is_small: bool

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """The changes to ``base``; None when it is so already.

        Raises
        ------
        ConflictError
            The base changed in a way this operation cannot be applied to.
        """


def commit(
    version: Version,
    operation: Operation,
    *,
    base: Record,
    message: str | None = None,
    packs: PackWriter | None = None,
    began: float | None = None,
) -> Record:
    """Apply an operation and return the record it is in.

    Costs the packs, one record, and nodes when the overlay is full; a lost
    race costs reading the winner, a probe, and what the operation must redo.

    Parameters
    ----------
    version : Version
    operation : Operation
    base : Record
        The record to try first, normally the newest known.
    message : str, optional
        For the log; by default the operation says what it did.
    packs, began : PackWriter and float, optional
        Of an operation that uploaded before: where, and when it began (by :func:`~hubarray.process.uptime_seconds`).

    Raises
    ------
    ConflictError
        Nothing was written.
    FrozenError, NotFoundError
        The version was frozen or deleted.
    CommitOutcomeUnknown
        The store stopped answering at the last moment.
    """
    began = uptime_seconds() if began is None else began
    line, generation = base.head.line, base.head.generation
    if uptime_seconds() - version.checked_at > base.head.grace_seconds / 4:
        # What this would build on was the newest too long ago to be sure that it still exists.
        base = version.refresh()
    check_message(message)
    packs = packs or PackWriter(version.store, version.name.home)
    proof: Future[None] = Future()
    if version.store.proven_create:
        proof.set_result(None)
    else:
        # The probe runs while the first packs are encoded and uploaded.
        proof = pools.io.submit(require_atomic_create, version.store)
    commit_id = new_id()
    tried = False
    attempt = 0
    turn = version.queue.turn()
    handing: Callable[[], bytes] | None = None
    try:
        if operation.is_small:
            turn.take()
        time.sleep(turn.traffic.pause_seconds(time.monotonic()))
        base, proof_of_base = _handed_base(turn, version, base)
        while True:
            attempt_began = time.monotonic()
            try:
                check_writable(base, operation)
                if (base.head.line, base.head.generation) != (line, generation):
                    raise ConflictError(
                        f"{version.name}: was created again by somebody else in the meantime; load it again"
                    )
                draft = operation.apply(base, version, packs)
            except Exception:
                if proof_of_base is None or (proven := _proven(version, base, proof_of_base)) is base:
                    raise
                base, proof_of_base = proven, None
                continue
            if proof_of_base is not None:
                proven, proof_of_base = _proven(version, base, proof_of_base), None
                if proven is not base:
                    base = proven
                    continue
            if draft is None:
                # "So already" holds only against the newest record, looked for during this call.
                newest = version.refresh()
                if newest.head.number == base.head.number:
                    return base
                base = newest
                continue
            packs.finish()
            proof.result()
            # What is uploaded holds up nobody.
            turn.take()
            with version.commit_lock:
                known = version.last_seen
                if known is not None and known.head.number > base.head.number:
                    base = known
                    continue
                record = build_record(version, base, draft, commit_id, message)
                check_age(version, base.head.grace_seconds, began)
                tried = True
                stored, is_ours = version.log.create(record)
                if is_ours:
                    version.committed(stored)
                    turn.traffic.add_win(time.monotonic(), time.monotonic() - attempt_began)
                    if version.store.remote:
                        handing = functools.partial(_handed_over, version, stored, packs.small)
                    return stored
                version.observe(stored)
            attempt += 1
            turn.traffic.add_loss(time.monotonic())
            time.sleep(retry_seconds(attempt, turn.traffic.commit_seconds))
            base = version.refresh()
    except BaseException:
        if not tried:
            packs.abandon()
        raise
    finally:
        turn.end(version.last_seen.head.number if version.last_seen else 0, handing)


def _handed_over(version: Version, record: Record, small: tuple[str, list[Buffer]] | None) -> bytes:
    """A record that was just created, for this machine's next writer, which finds a small pack in the disk cache."""
    if small is not None:
        version.fetcher.keep(*small)
    return encode(record)[0]


def _handed_base(turn: CommitTicket, version: Version, base: Record) -> tuple[Record, Future[Record] | None]:
    """The record that another writer of this machine says is the newest, if it is there; else the base.

    A record from the queue's file is only a hint, because anybody may have written it. It comes with a future of the
    one that the log has, which is read while the operation is applied.
    """
    if not base.head.number < turn.newest <= MAX_NUMBER:
        return base, None
    if turn.handed:
        with contextlib.suppress(CorruptDataError, FormatVersionError):
            record = version.log.decode(turn.handed, turn.newest)
            if (record.head.line, record.head.generation) == (base.head.line, base.head.generation):
                return record, pools.io.submit(version.log.read, turn.newest)
    try:
        # From the log, and not from a cache: what is built on has to be there.
        return version.observe(version.log.read(turn.newest)), None
    except ObjectMissingError:
        return base, None


def _proven(version: Version, handed: Record, proof: Future[Record]) -> Record:
    """The record that was handed over, if the log has the same one; else the newest one of the log."""
    try:
        proven = proof.result()
    except (ObjectMissingError, CorruptDataError, FormatVersionError):
        return version.refresh()
    if proven.digest != handed.digest:
        return version.refresh()
    version.observe(handed)
    return handed


def create_version(
    version: Version,
    draft: Draft,
    *,
    base: Record | None,
    message: str | None,
    began: float | None = None,
    **head: Any,
) -> tuple[Record, bool]:
    """Write the first record of a line: of a new version, of one that had been deleted, or of a copy.

    Parameters
    ----------
    version : Version
    draft : Draft
        With its kind.
    base : Record or None
        The deletion, if the version existed before; numbers continue after it.
    began : float, optional
        When what it builds on was read, in :func:`~hubarray.process.uptime_seconds`.
    **head
        Fields of the head that differ from a plain creation's, such as ``source``.

    Returns
    -------
    (record, ours)
        The created one, or the one that somebody else wrote first.
    """
    check_message(message)
    began = uptime_seconds() if began is None else began
    require_atomic_create(version.store)
    if base is not None:
        # Somebody may rely on the longer one: callers may only lengthen it.
        head["grace_seconds"] = max(base.head.grace_seconds, head.get("grace_seconds", 0.0))
    if base is not None and version.deleted_long_ago(base):
        # A collector may be at work on what was before the deletion, so that must not come to life again.
        draft = replace(draft, expired_to=base.head.number)
    with version.commit_lock:
        record = build_record(version, base, draft, new_id(), message, **head)
        check_age(version, record.head.grace_seconds, began)
        stored, ours = version.log.create(record)
        if ours:
            version.committed(stored)
        else:
            version.observe(stored)
    return stored, ours


def check_writable(base: Record, operation: Operation) -> None:
    """Refuse what can never be written."""
    if base.head.kind == "deleted":
        raise NotFoundError(f"{base.name.at(None)}: was deleted at commit {base.head.number}; create it again first")
    if base.head.frozen and not operation.allowed_when_frozen:
        raise FrozenError(
            f"{base.name.at(None)}: is frozen, which is final; copy an array or a dataset to another version and write "
            "there; for a table, write another version with hub.table_writer(reference=...) or hub.write_index"
        )


def check_age(version: Version, grace_seconds: float, began: float) -> None:
    """Refuse a commit whose base or packs the collector may soon take for abandoned."""
    age = uptime_seconds() - began
    if age > grace_seconds / 2:
        raise ConflictError(
            f"{version.name}: this write took {age:.0f} s, more than half its grace period of "
            f"{grace_seconds:.0f} s, so its parts may be collected; write it again in smaller pieces"
        )


def check_message(message: str | None) -> None:
    """Refuse messages that are not text, or are too long."""
    if message is not None and not isinstance(message, str):
        raise ConfigError(f"a commit message is a string, not {type(message).__name__}")
    if message is not None and len(message.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        raise ConfigError(f"a commit message has at most {MAX_MESSAGE_BYTES} bytes")
