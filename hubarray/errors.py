"""Errors, grouped by what a handler would do about them.

::

    HubError
    ├── InvalidNameError      fix the name                  (also a ValueError)
    ├── ConfigError           fix a setting or an argument  (also a ValueError)
    ├── NotFoundError         create it, or ask for another (also a LookupError)
    │   └── TagNotFoundError  tag the commit, or mend the name (also an InvalidNameError)
    ├── AlreadyExistsError    open it, or overwrite=True    (also a ValueError)
    ├── ReadOnlyError         write somewhere else
    │   └── FrozenError       copy to a new version first
    ├── ConflictError         read again and try again; nothing was written
    ├── CommitOutcomeUnknown  look at the log before doing it again
    ├── UnsortedRowsError     sort the dataset              (also a NotImplementedError)
    ├── NoDataAvailableError  fewer shards, or other filters (also a ValueError)
    ├── ReaderStoppedError    make another reader           (also a RuntimeError)
    ├── CorruptDataError      restore the named object from elsewhere
    ├── FormatVersionError    upgrade hubarray
    └── StorageError          mend the storage              (also an OSError)
        ├── ObjectMissingError    a key is absent from the store
        ├── AccessDeniedError     mend the credentials
        ├── UnavailableError      try later; the server did not answer
        └── UnsafeStoreError      use a store that can create-if-absent
"""

from __future__ import annotations

from hubarray.redaction import shown_text


class HubError(Exception):
    """Base class of every error that hubarray raises on purpose.

    Its traceback ends with the command that explains it: ``hubarray explain ConflictError``.

    Attributes
    ----------
    remedy : str
        The way out, whatever the message; of the class.
    """

    remedy = "read the message, which names the key or the name, and says what to do"

    def __init__(self, *args: object) -> None:
        # A message has names from files, buckets and servers in it, and ends in a terminal.
        super().__init__(*(shown_text(one) if isinstance(one, str) else one for one in args))
        self.add_note(f"causes and remedies: hubarray explain {type(self).__name__}")


class InvalidNameError(HubError, ValueError):
    """A name is not written ``owner/name:version@commit``."""

    remedy = "mend the name"


class SourceError(HubError, ValueError):
    """A source cannot be read, is damaged, or changed meanwhile.

    Attributes
    ----------
    damaged_rows : range or None
        Rows of the source of which none can be read, where that is known.
    """

    damaged_rows: range | None = None

    remedy = "mend the source, and import again: what was sent is kept where the message says so"


class MissingPackageError(HubError, ImportError):
    """An optional package is not installed."""

    remedy = "the message has the command that installs it"


class ConfigError(HubError, ValueError):
    """A setting, option or argument is unknown or makes no sense."""

    remedy = "mend it; the message names it"


class NotFoundError(HubError, LookupError):
    """There is no such name, version or commit under this root, or it was deleted or has expired."""

    remedy = "look at hub.list() and hub.log(name); near names are in the message"


class TagNotFoundError(NotFoundError, InvalidNameError):
    """The version has no tag of the name after ``@``.

    Also an InvalidNameError: such a word is as likely a slip in a name.
    """

    remedy = "tag the commit, or mend the name"


class AlreadyExistsError(HubError, ValueError):
    """The name is taken by something else."""

    remedy = "open it with hub.load, choose another version, or overwrite=True"


class ReadOnlyError(HubError):
    """The handle is fixed to a commit, or the root can only be read."""

    remedy = "load the version, or write to another root"


class FrozenError(ReadOnlyError):
    """The version was frozen, which is final."""

    remedy = "hub.copy an array or a dataset to another version and write there; of a table, write another version"


class ConflictError(HubError):
    """Somebody else changed what this write depends on; nothing was written."""

    remedy = "read again and do it again: hub.retry does"


class CommitOutcomeUnknown(HubError):
    """The store stopped answering while the commit was on its way.

    The commit may or may not be in the log. Nothing was deleted. Read the log
    (``hub.log(name)``) and look for the commit id named in the message before
    doing the work again.
    """

    remedy = "look for the commit id in hub.log(name) before doing it again"


class CorruptDataError(HubError):
    """Stored bytes are missing, truncated, altered, or say what cannot be."""

    remedy = "hub.verify shows what else; hub.repair, or restore the named object from a copy"


class FormatVersionError(HubError):
    """Written by a newer hubarray, or with a codec or type that this machine has not."""

    remedy = "upgrade hubarray, or install the package that is named"


class StorageError(HubError, OSError):
    """The store refused or failed a request."""

    remedy = "mend the storage; the message has its answer"


class ObjectMissingError(StorageError):
    """A key is absent."""

    remedy = "as for CorruptDataError, if a commit named it"


class AccessDeniedError(StorageError):
    """The store refused the credentials, or there were none.

    Attributes
    ----------
    has_expired : bool
        Whether they have expired, or the server does not know them any more: new ones may be taken.
    """

    has_expired = False
    remedy = "check storage_options, and that listing is permitted"


class UnavailableError(StorageError):
    """The server could not be reached, or kept failing."""

    remedy = "try later; check network and endpoint"


class UnsafeStoreError(StorageError):
    """The store cannot create a key only if it is absent."""

    remedy = "write to a store that can"


class NoDataAvailableError(HubError, ValueError):
    """A reader would give nothing: there are no rows, or fewer than shards."""

    remedy = "use fewer shards, or other filters"


class UnsortedRowsError(HubError, NotImplementedError):
    """Rows that windows are made of are not sorted by their timestamp."""

    remedy = "sort the dataset by the timestamp when it is written, or sort the index of a table"


class ReaderStoppedError(HubError, RuntimeError):
    """A reader was used after it was stopped, or lost a worker."""

    remedy = "make another reader; load_state_dict goes on where the first was"
