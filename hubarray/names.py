"""Names: ``owner/name:version@commit``, with the root's URL in front where one is given.

Pure string work, no I/O. The grammar::

    reference = [root-url "/"] [owner "/"] name [":" version] ["@" commit]
    part      = [A-Za-z0-9][A-Za-z0-9._-]{0,127}      (ASCII only)
    commit    = a positive decimal number, or a tag
    tag       = [A-Za-z][A-Za-z0-9._-]{0,127}

Without an owner the owner is ``public``; without a version the version is
``main``. Neither is ever guessed from the login name or from what exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hubarray.errors import InvalidNameError
from hubarray.redaction import shown_url

DEFAULT_OWNER = "public"
DEFAULT_VERSION = "main"

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,127}", re.ASCII)
_RULE = "letters, digits, '.', '_' and '-', beginning with a letter or digit, 128 at most"


@dataclass(frozen=True, slots=True)
class Name:
    """A parsed name.

    Attributes
    ----------
    owner, name, version : str
        The three parts; a version that was not given is ``main``.
    commit : int or None
        The commit number after ``@``.
    version_given : bool
        Whether the text named a version. ``hub.delete`` and ``hub.log`` tell
        a name from a version by it.
    tag : str or None
        The tag after ``@``, where that is not a number.
    """

    owner: str
    name: str
    version: str = DEFAULT_VERSION
    commit: int | None = None
    version_given: bool = True
    tag: str | None = None

    @property
    def home(self) -> str:
        """``owner/name``: the folder under the root that holds all of the name's versions."""
        return f"{self.owner}/{self.name}"

    def at(self, commit: int | None) -> Name:
        """The same version at another commit, or at none."""
        return replace(self, commit=commit, tag=None)

    def __str__(self) -> str:
        text = f"{self.owner}/{self.name}:{self.version}"
        at = self.commit or self.tag
        return f"{text}@{at}" if at else text


def parse(text: str, *, commit_allowed: bool = False) -> Name:
    """Read a name without a root in front.

    Parameters
    ----------
    text : str
        ``name``, ``owner/name``, ``owner/name:version`` or, where something is
        read, ``owner/name:version@12`` or ``owner/name:version@tag``.
    commit_allowed : bool
        Whether ``@commit`` or ``@tag`` may follow.

    Raises
    ------
    InvalidNameError
        For anything else.

    Examples
    --------
    >>> str(parse("digits"))
    'public/digits:main'
    >>> str(parse("lab/scans:v1@12", commit_allowed=True))
    'lab/scans:v1@12'
    """
    if not isinstance(text, str):
        raise InvalidNameError(f"a name is a string such as 'owner/name:v1', not {type(text).__name__}")
    rest, at, commit_text = text.partition("@")
    commit = tag = None
    if at:
        if not commit_allowed:
            raise InvalidNameError(f"{_shown(text)}: '@' names a past commit, which can only be read")
        if _NUMBER.fullmatch(commit_text):
            commit = int(commit_text)
        elif _TAG.fullmatch(commit_text):
            tag = commit_text
        else:
            raise InvalidNameError(
                f"{_shown(text)}: after '@' comes a commit number, 1 or more, or a tag, which begins with a letter"
            )
    path, colon, version = rest.partition(":")
    parts = path.split("/")
    if len(parts) > 2:
        raise InvalidNameError(f"{_shown(text)}: a name is 'owner/name:version', with one '/' at most")
    owner, name = parts if len(parts) == 2 else (DEFAULT_OWNER, parts[0])
    for what, part in (("owner", owner), ("name", name), ("version", version if colon else DEFAULT_VERSION)):
        if not _PART.fullmatch(part):
            raise InvalidNameError(f"{_shown(text)}: the {what} {_shown(part)} is not allowed: use {_RULE}")
    return Name(owner, name, version if colon else DEFAULT_VERSION, commit, bool(colon), tag)


def parse_home(text: str) -> str:
    """Read ``owner/name`` and nothing else: what a record, a node or a referrer calls a home.

    Raises
    ------
    InvalidNameError
    """
    owner, slash, name = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash or not is_part(owner) or not is_part(name):
        raise InvalidNameError(f"{_shown(str(text))}: is not 'owner/name'")
    return text


def is_part(text: str) -> bool:
    """Whether text may be an owner, a name or a version."""
    return _PART.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Whether text may be a tag."""
    return _TAG.fullmatch(text) is not None


def checked_tag(text: str) -> str:
    """A tag as it may stand after ``@``.

    Raises
    ------
    InvalidNameError
        It is not a letter followed by at most 127 letters, digits, ``.``, ``_`` and ``-``.
    """
    if not isinstance(text, str) or not _TAG.fullmatch(text):
        shown = _shown(text) if isinstance(text, str) else repr(text)
        raise InvalidNameError(f"the tag {shown} is not allowed: use {_RULE.replace(' or digit', '')}")
    return text


def split_root(text: str) -> tuple[str | None, str]:
    """Split ``<root url>/owner/name:version`` into the root's URL and the name.

    Text without ``://`` has no root in it: ``(None, text)``.

    Examples
    --------
    >>> split_root("s3://bucket/hub/lab/scans:v1")
    ('s3://bucket/hub', 'lab/scans:v1')
    """
    if not isinstance(text, str) or "://" not in text:
        return None, text
    scheme, _, path = text.partition("://")
    pieces = path.rsplit("/", 2)
    if len(pieces) < 3 or (not pieces[0] and scheme != "memory"):
        raise InvalidNameError(f"{_shown(text)}: a full URL is '<root url>/owner/name:version'")
    return f"{scheme}://{pieces[0]}", f"{pieces[1]}/{pieces[2]}"


def parse_prefix(text: str) -> tuple[str, str]:
    """Read what ``hub.list`` takes: nothing, an owner, or ``owner/beginning-of-name``.

    Returns
    -------
    (owner, beginning)
        Either may be empty.

    Examples
    --------
    >>> parse_prefix(""), parse_prefix("lab"), parse_prefix("lab/sc")
    (('', ''), ('lab', ''), ('lab', 'sc'))
    """
    if not isinstance(text, str):
        raise InvalidNameError(f"a prefix is a string, not {type(text).__name__}")
    owner, slash, beginning = text.partition("/")
    for part in (owner, beginning.partition(":")[0], beginning.partition(":")[2]):
        if part and not _PART.fullmatch(part):
            raise InvalidNameError(f"{_shown(text)}: a prefix is an owner, or 'owner/name' and its beginnings")
    if slash and not owner:
        raise InvalidNameError(f"{_shown(text)}: the owner before '/' is empty")
    return owner, beginning


def _shown(text: str) -> str:
    shown = ascii(shown_url(text))
    return shown if len(shown) <= 80 else shown[:77] + "..."
