"""How text that is not ours is shown: URLs without secrets, and text without what a terminal would obey. Pure."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = "***"
# In a query whatever is no blank may be part of a secret.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s'\"<>?]+(?:\?\S*)?")
_PORT = re.compile(r"(?:[^:@]*\.[^:@]*|localhost|\[[0-9A-Fa-f:.]+\]):\d{1,5}", re.IGNORECASE)
# Letters and marks of no width that change the order of what stands beside them, or cannot be seen.
_OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def shown_url(url: str) -> str:
    """A URL fit to be shown, stored and logged: without user, password, the values of its query, and its fragment.

    Text that is not a URL does not change. The only way by which a URL gets into a message.

    Examples
    --------
    >>> shown_url("https://me:pa/ss@host/x.zarr?X-Amz-Signature=abc&part=1")
    'https://***@host/x.zarr?X-Amz-Signature=***&part=***'
    >>> shown_url("s3://bucket/hub/lab/scans:v1@paper")
    's3://bucket/hub/lab/scans:v1@paper'
    >>> shown_url("zip://a.npy::https://me:secret@host/a.zip?token=1")
    'zip://a.npy::https://***@host/a.zip?token=***'
    """
    return "::".join(map(_shown_link, url.split("::")))


def _shown_link(url: str) -> str:
    scheme, slashes, rest = _split(url)
    if not slashes:
        return url
    path, mark, query = _without_user(rest).partition("#")[0].partition("?")
    # What stands alone in a query, as some tokens do, is a value too.
    parts = [f"{part.partition('=')[0]}={_HIDDEN}" if "=" in part else _HIDDEN for part in re.split("[&;]", query)]
    return f"{scheme}{slashes}{path}?{'&'.join(parts)}" if mark and query else f"{scheme}{slashes}{path}"


def has_user(url: str) -> bool:
    """Whether a URL names a user or password, also one with a ``/`` in it.

    Examples
    --------
    >>> has_user("s3://key:se/cret@bucket/x"), has_user("https://host.org:8080/lab/x@3")
    (True, False)
    """
    _, slashes, rest = _split(url)
    return bool(slashes) and _without_user(rest) != rest


def hidden_urls(text: str) -> str:
    """Text of others, such as a client's error, with each URL in it as :func:`shown_url` shows it.

    Examples
    --------
    >>> hidden_urls("cannot reach https://me:secret@host/a?token=1, given up")
    'cannot reach https://***@host/a?token=***, given up'
    """
    return _URL.sub(lambda match: _punctuated(match.group()), text)


def shown_text(text: str) -> str:
    """Text from a bucket, a source or a server on one line, with control and invisible characters escaped.

    Examples
    --------
    >>> shown_text("fine \\x1b[31mred\\nforged line")
    'fine \\\\x1b[31mred\\\\nforged line'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(letter) if unicodedata.category(letter) in _OBEYED else letter for letter in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _split(url: str) -> tuple[str, str, str]:
    scheme, slashes, rest = url.partition("://")
    return (scheme, slashes, rest) if slashes else (url, "", "")


def _without_user(rest: str) -> str:
    """The part after ``//``; a user reaches up to the last ``@`` where the text before the first ``/`` is no host."""
    url_rest = rest
    while "@" in url_rest:
        authority = re.split("[/?#]", url_rest, maxsplit=1)[0]
        if "@" in authority:
            url_rest = url_rest[len(authority.rpartition("@")[0]) + 1 :]
        elif ":" in authority and not _PORT.fullmatch(authority):
            url_rest = url_rest.rpartition("@")[2]
        else:
            break
    return rest if url_rest == rest else f"{_HIDDEN}@{url_rest}"


def _punctuated(url: str) -> str:
    body = url.rstrip(".,;:)]}")
    return shown_url(body) + url[len(body) :]


def counted(number: int, noun: str, *, plural: str | None = None) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(20_000, "row"), counted(2, "axis", plural="axes")
    ('1 row', '20,000 rows', '2 axes')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def named_type(value: object) -> str:
    """The type of a value, with its article.

    Examples
    --------
    >>> named_type(1), named_type("1"), named_type(None)
    ('an int', 'a str', 'None')
    """
    return "None" if value is None else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun after the article that its first letter asks for, which is right for the names of types.

    Examples
    --------
    >>> with_article("int64"), with_article("uint8"), with_article("ndarray")
    ('an int64', 'a uint8', 'an ndarray')
    """
    return f"{'an' if noun[:1] in 'AEIOaeio' or noun.startswith('nd') else 'a'} {noun}"


def shown_line(text: str) -> str:
    """The first line of what a client or a server says, without secrets and control characters.

    Examples
    --------
    >>> shown_line("cannot reach https://me:secret@host/a, given up\\nat line 3")
    'cannot reach https://***@host/a, given up'
    """
    lines = text.strip().splitlines() or [""]
    return shown_text(hidden_urls(lines[0][:600]))[:300]
