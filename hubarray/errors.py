"""What can go wrong, grouped by what a handler would do about it.

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
    ├── CorruptDataError      restore the named object from elsewhere
    ├── FormatVersionError    upgrade hubarray
    └── StorageError          mend the storage              (also an OSError)
        ├── ObjectMissingError    a key is absent from the store
        ├── AccessDeniedError     mend the credentials
        ├── UnavailableError      try later; the server did not answer
        └── UnsafeStoreError      use a store that can create-if-absent
"""

from __future__ import annotations


class HubError(Exception):
    """Base class of every error that hubarray raises on purpose."""


class InvalidNameError(HubError, ValueError):
    """A name, version or commit number is not written as names are written."""


class SourceError(HubError, ValueError):
    """What is imported cannot be read, is damaged, or changed meanwhile; nothing was imported."""


class MissingPackageError(HubError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class ConfigError(HubError, ValueError):
    """A setting, storage option or argument is unknown or makes no sense."""


class NotFoundError(HubError, LookupError):
    """The name, version or commit does not exist under this root."""


class TagNotFoundError(NotFoundError, InvalidNameError):
    """What stands after ``@`` is no tag of this version.

    Also an InvalidNameError: such a word is as likely a slip in a name.
    """


class AlreadyExistsError(HubError, ValueError):
    """The name is taken by an array of another description."""


class ReadOnlyError(HubError):
    """This handle or root can be read but not written."""


class FrozenError(ReadOnlyError):
    """The version was frozen, which is final."""


class ConflictError(HubError):
    """Somebody else changed what this write depends on; nothing was written."""


class CommitOutcomeUnknown(HubError):
    """The store stopped answering while a commit record was on its way.

    The commit may or may not be in the log. Nothing was deleted. Read the log
    (``hub.log(name)``) and look for the commit id named in the message before
    doing the work again.
    """


class CorruptDataError(HubError):
    """Stored bytes are missing, truncated or altered. They are never returned."""


class FormatVersionError(HubError):
    """A record was written by a newer hubarray than this one."""


class StorageError(HubError, OSError):
    """The storage below refused or failed a request."""


class ObjectMissingError(StorageError):
    """A key is absent from the store."""


class AccessDeniedError(StorageError):
    """The store refused the credentials, or there were none."""


class UnavailableError(StorageError):
    """The server could not be reached, or kept failing, within the retry budget."""


class UnsafeStoreError(StorageError):
    """The store cannot create a key only if it is absent, so commits are refused."""
