"""Errors, grouped by what a handler would do about them.

::

    HubError
    ├── InvalidNameError      fix the name                  (also a ValueError)
    ├── ConfigError           fix a setting or an argument  (also a ValueError)
    ├── NotFoundError         create it, or ask for another (also a LookupError)
    │   └── TagNotFoundError  tag the commit, or fix the name (also an InvalidNameError)
    ├── AlreadyExistsError    open it, or overwrite=True    (also a ValueError)
    ├── ReadOnlyError         write somewhere else
    │   └── FrozenError       copy to a new version first
    ├── ConflictError         read again and try again; nothing was written
    ├── CommitOutcomeUnknown  look at the log before you repeat the write
    ├── UnsortedRowsError     sort the dataset              (also a NotImplementedError)
    ├── NoDataAvailableError  fewer shards, or other filters (also a ValueError)
    ├── ReaderStoppedError    make another reader           (also a RuntimeError)
    ├── CorruptDataError      restore the named object from elsewhere
    ├── FormatVersionError    upgrade hubarray
    └── StorageError          fix the storage               (also an OSError)
        ├── ObjectMissingError    a key is absent from the store
        ├── AccessDeniedError     fix the credentials
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
        What to do about errors of this class.
    """

    remedy = "read the message, which names the key or the name, and says what to do"

    def __init__(self, *args: object) -> None:
        # A message has names from files, buckets and servers in it, and ends in a terminal.
        super().__init__(*(shown_text(arg) if isinstance(arg, str) else arg for arg in args))
        self.add_note(f"causes and remedies: hubarray explain {type(self).__name__}")


class InvalidNameError(HubError, ValueError):
    """A name is not written ``owner/name:version@commit``."""

    remedy = "fix the name"


class SourceError(HubError, ValueError):
    """A source cannot be read, is damaged, or has changed during the operation.

    Attributes
    ----------
    damaged_rows : range or None
        The unreadable rows of the source, if they are known.
    """

    damaged_rows: range | None = None

    remedy = "fix the source, and import again; data that was sent is kept if the message says so"


class MissingPackageError(HubError, ImportError):
    """An optional package is not installed."""

    remedy = "the message has the command that installs it"


class ConfigError(HubError, ValueError):
    """A setting, option or argument is unknown or invalid."""

    remedy = "fix what the message names"


class NotFoundError(HubError, LookupError):
    """The name, version or commit does not exist under this root, was deleted, or has expired and was collected."""

    remedy = "look at hub.list() and hub.log(name); the message lists other names of the owner, or other owners"


class TagNotFoundError(NotFoundError, InvalidNameError):
    """The version has no tag with the name after ``@``.

    This is also an InvalidNameError, because it may be a typing error in a name.
    """

    remedy = "tag the commit, or fix the name"


class AlreadyExistsError(HubError, ValueError):
    """The name is taken by something else."""

    remedy = "open it with hub.load, choose another version, or pass overwrite=True"


class ReadOnlyError(HubError):
    """The handle is pinned to a commit, or the root is read-only."""

    remedy = "load the version, or write to another root"


class FrozenError(ReadOnlyError):
    """The version is frozen, which cannot be undone."""

    remedy = "hub.copy an array or a dataset to another version and write there; for a table, write another version"


class ConflictError(HubError):
    """Somebody else has changed what this write depends on; nothing was written."""

    remedy = "read again and repeat the write, as hub.retry does"


class CommitOutcomeUnknown(HubError):
    """The store stopped answering during the commit.

    The commit may or may not be in the log. Nothing was deleted. Before you repeat the work, look for the commit id
    of the message in the log (``hub.log(name)``).
    """

    remedy = "look for the commit id in hub.log(name) before you repeat the write"


class CorruptDataError(HubError):
    """Stored bytes are missing, truncated, altered or impossible."""

    remedy = "hub.verify shows other damage; run hub.repair, or restore the named object from a copy"


class FormatVersionError(HubError):
    """The data was written by a newer hubarray, or with a codec or type that this machine does not have."""

    remedy = "upgrade hubarray, or install the package in the message"


class StorageError(HubError, OSError):
    """The store refused a request, or failed."""

    remedy = "fix the storage; the message has its answer"


class ObjectMissingError(StorageError):
    """A key does not exist in the store."""

    remedy = "if a commit needs it, same as for CorruptDataError"


class AccessDeniedError(StorageError):
    """The store refused the credentials, or there are none.

    Attributes
    ----------
    has_expired : bool
        Whether the credentials have expired, or the server no longer knows them, so that new ones may work.
    """

    has_expired = False
    remedy = "check storage_options, and that listing is permitted"


class UnavailableError(StorageError):
    """The server cannot be reached, or keeps failing."""

    remedy = "try again later; check the network and the endpoint"


class UnsafeStoreError(StorageError):
    """The store cannot create a key on the condition that it does not exist."""

    remedy = "use a store that can"


class NoDataAvailableError(HubError, ValueError):
    """A reader would give no rows: there are none, or fewer than shards."""

    remedy = "use fewer shards, or other filters"


class UnsortedRowsError(HubError, NotImplementedError):
    """The rows of windows are not sorted by their timestamp."""

    remedy = "sort the dataset by the timestamp when you write it, or sort the index of a table"


class ReaderStoppedError(HubError, RuntimeError):
    """A reader was used after it was stopped, or has lost a worker."""

    remedy = "make another reader; load_state_dict continues from the state of the first"
