"""A frozen version's newest record in the disk cache, so that it opens without a network."""

from __future__ import annotations

from hubarray.blobs.fetch import Fetcher
from hubarray.errors import CorruptDataError, FormatVersionError
from hubarray.history.log import Log
from hubarray.history.record import Record, encode

_NUMBER_BYTES = 16


class FrozenCopy:
    """The copy that the disk cache keeps of one version's newest record.

    Its key is the only one of the cache whose bytes are replaced: a version deleted and frozen again has another
    newest record.

    Parameters
    ----------
    fetcher : Fetcher
        Of the version's root.
    log : Log
    """

    def __init__(self, fetcher: Fetcher, log: Log) -> None:
        self._disk, self._log = fetcher.disk, log
        self._key = f"{fetcher.identity} {log.name} newest, if frozen"

    def note(self, record: Record) -> None:
        """Keep the newest record of a version if it is frozen, else keep none."""
        if self._disk is None:
            return
        if not record.head.frozen:
            self._disk.forget(self._key)
            return
        kept = self.record()
        if kept is None or kept.head.number < record.head.number:
            number = b"%0*d" % (_NUMBER_BYTES, record.head.number)
            self._disk.put(self._key, number + encode(record)[0], replace=True)

    def record(self) -> Record | None:
        """The record that is kept; None if there is none, or it is not whole."""
        cached = None if self._disk is None else self._disk.get(self._key)
        if cached is None or not cached[:_NUMBER_BYTES].isdigit():
            return None
        try:
            return self._log.decode(cached[_NUMBER_BYTES:], int(cached[:_NUMBER_BYTES]))
        except (CorruptDataError, FormatVersionError):
            return None
