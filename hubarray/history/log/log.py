"""The log of one version: reading records, finding the newest, creating the next."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from hubarray import config
from hubarray.blobs.verified import whole_object
from hubarray.errors import (
    AccessDeniedError,
    CommitOutcomeUnknown,
    CorruptDataError,
    NotFoundError,
    ObjectMissingError,
    StorageError,
    UnavailableError,
)
from hubarray.history.log import search
from hubarray.history.log.hints import MAX_HINT_BYTES, decode_hint, hint_key
from hubarray.history.records.head import HEAD_READ_BYTES, Head, decode_head
from hubarray.history.records.json_fields import MAX_NUMBER
from hubarray.history.records.long_descriptions import LongDescription
from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.record import MAX_RECORD_BYTES, Record, decode, encode, record_key
from hubarray.names import Name
from hubarray.storage.base import Buffer, Store

_OUTCOME_ATTEMPTS = 4

log = logging.getLogger("hubarray.history")


class Log:
    """The numbered records of a version.

    Parameters
    ----------
    store : Store
    name : Name
        Its commit number is ignored.
    load : callable, optional
        Gives the verified bytes of a node that has a long description; by default from the store.
    """

    def __init__(self, store: Store, name: Name, load: Callable[[NodeRef], Buffer] | None = None) -> None:
        self.store = store
        self._load = load or partial(_node, store)
        self.name = Name(name.owner, name.name, name.version)

    def read(self, number: int) -> Record:
        """One record, whole: one request.

        Raises
        ------
        ObjectMissingError, CorruptDataError, FormatVersionError, StorageError
        """
        return self.decode(self.store.get(record_key(self.name, number), 0, MAX_RECORD_BYTES), number)

    def decode(self, data: Buffer, number: int) -> Record:
        """A record's bytes, checked. A long description is read when it is needed."""
        record = decode(data, self.name, number, self._where(number))
        if isinstance(record.described, LongDescription):
            record = replace(record, described=record.described.loaded_by(self._load, self.store.where))
        return record

    def read_head(self, number: int) -> Head:
        """One record's head: one request of 1 KiB, or two when the message is long."""
        key = record_key(self.name, number)
        head = decode_head(self.store.get(key, 0, HEAD_READ_BYTES), self.name, number, self._where(number))
        return head or self.read(number).head

    def exists(self, number: int) -> bool:
        """Whether a record is there: one request.

        Raises
        ------
        AccessDeniedError
            The store hides whether the key is absent or forbidden.
        """
        try:
            self.store.head(record_key(self.name, number))
        except ObjectMissingError:
            return False
        except AccessDeniedError as error:
            raise AccessDeniedError(
                f"{error}. Opening a version has to tell an absent record from a forbidden one: the credentials "
                "need permission to list the bucket (s3:ListBucket), or read a fixed commit as name@number"
            ) from None
        return True

    def newest(self) -> Record:
        """The newest record: the hint, the record it names, and a probe beyond; more if the hint is stale.

        A hint d behind costs at most 2 log2(d) + 2 more requests. Where only
        plain GETs are possible, the hint is taken at its word.

        Raises
        ------
        NotFoundError
            The version does not exist.
        CorruptDataError
            The hint names a record that is not there.
        """
        try:
            hinted = decode_hint(self.store.get(hint_key(self.name), 0, MAX_HINT_BYTES + 1))
            if hinted is None:
                log.warning(
                    "%s: not a hint; looking for the newest commit without it", self.store.where(hint_key(self.name))
                )
        except ObjectMissingError:
            hinted = None
        if not hinted:
            if self.store.read_only:
                raise NotFoundError(f"{self.name}: there is no such version under {self.store.url}")
            return self.newest_after(None)
        try:
            record = self.read(hinted)
        except ObjectMissingError:
            raise CorruptDataError(
                f"{self._where(hinted)}: the hint {self.store.where(hint_key(self.name))} names this record and "
                "it is gone: commits were lost; restore the record from a copy"
            ) from None
        return record if self.store.read_only else self.newest_after(record)

    def newest_after(self, known: Record | None) -> Record:
        """The newest record at or after a known one: one probe if nothing is newer.

        Raises
        ------
        NotFoundError
            Nothing is known, and the first record does not exist.
        """
        start = known.head.number if known else 0
        try:
            number = search.newest_from(start, self.exists, MAX_NUMBER)
        except ValueError as error:
            raise CorruptDataError(
                f"{self.store.where(f'{self.name.home}/log/{self.name.version}/')}: the store reports more records "
                f"than there can be ({error}); check what serves this root"
            ) from None
        if known is not None and number == start:
            return known
        if number == 0:
            raise NotFoundError(f"{self.name}: there is no such version under {self.store.url}")
        return self.read(number)

    def read_if_made(self, number: int) -> Record:
        """As :meth:`read`, but tells a record that was lost from one that was never made, by a search for the newest.

        Raises
        ------
        NotFoundError
            The commit does not exist yet.
        CorruptDataError, FormatVersionError, StorageError
            Also where there are later records than one that is gone.
        """
        with contextlib.suppress(ObjectMissingError):
            return self.read(number)
        try:
            newest = self.newest().head.number
        except NotFoundError:
            newest = 0
        if number > newest:
            known = f"; the newest is {newest}" if newest else ""
            raise NotFoundError(f"{self.name.at(number)}: there is no such commit under {self.store.url}{known}")
        try:
            # It may have been made since it was looked for.
            return self.read(number)
        except ObjectMissingError:
            raise self._gap(number) from None

    def heads(self, newest: Head) -> Iterator[Head]:
        """Heads from the newest back to the first, read as they are asked for."""
        yield newest
        for number in range(newest.number - 1, 0, -1):
            try:
                yield self.read_head(number)
            except ObjectMissingError:
                raise self._gap(number) from None

    def create(self, record: Record) -> tuple[Record, bool]:
        """Create a record at its number if that is free: the moment of commit.

        Returns
        -------
        (record, ours)
            This record with its digest, or the one that holds the number.
            ``ours`` also when an earlier attempt of this very commit, whose
            reply was lost, had succeeded.

        Raises
        ------
        CommitOutcomeUnknown
            The store stopped answering before the outcome was known.
        """
        data, record = encode(record)
        number = record.head.number
        key = record_key(self.name, number)
        for attempt in range(_OUTCOME_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
            try:
                if self.store.put_if_absent(key, data):
                    return record, True
                stored = self.read(number)
                return stored, stored.head.id == record.head.id
            except StorageError as error:
                # Only a create that never reached the store is known to have failed.
                may_have_arrived = isinstance(error, (UnavailableError, ObjectMissingError)) and not config.is_offline()
                if not attempt and not may_have_arrived:
                    raise
                failure = error
        raise CommitOutcomeUnknown(
            f"{self.store.where(key)}: the store stopped answering while commit {record.head.id} was on its way, so it "
            f"may or may not be in the log; look with hub.log({str(self.name)!r}) before writing again ({failure})"
        )

    def _gap(self, number: int) -> CorruptDataError:
        return CorruptDataError(f"{self._where(number)}: the log has a gap; restore the record from a copy")

    def _where(self, number: int) -> str:
        return self.store.where(record_key(self.name, number))


def _node(store: Store, node: NodeRef) -> Buffer:
    return whole_object(store, node.key, node.length, node.digest)
