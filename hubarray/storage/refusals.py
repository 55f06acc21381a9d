"""Credentials that a server does not take: whether that is why it refuses, and what to do about it."""

from __future__ import annotations

import re

from hubarray.errors import AccessDeniedError
from hubarray.redaction import shown_line

_EXPIRED = "they have expired; get new ones, such as by `aws sso login`, or give storage_options of a longer session"
_CLOCK = "the clock of this computer is not the server's; set it, such as by a time server (NTP)"
_REGION = "check the region in storage_options, and that of the bucket"
_WRONG = "check storage_options"
# Source: docs.aws.amazon.com, "Error responses" of S3 and "Common errors" of STS. Some of them come with status 400.
_ADVICE = {
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "RequestInTheFuture": _CLOCK,
    "AuthorizationHeaderMalformed": _REGION,
    "InvalidToken": "the session token is not one that it knows; check storage_options",
    "InvalidAccessKeyId": _WRONG,
    "InvalidClientTokenId": _WRONG,
    "UnrecognizedClient": _WRONG,
    "SignatureDoesNotMatch": _WRONG,
    "InvalidSecurity": _WRONG,
    "CredentialsNotSupported": _WRONG,
    "MissingSecurityHeader": _WRONG,
    "MissingAuthenticationToken": _WRONG,
    "AuthorizationQueryParametersError": _WRONG,
}
_STATUS_IN_TEXT = re.compile(r"(?:\bcode:? |\bstatus(?:=|: ?| ))(\d{3})\b|\((\d{3})\)|^(\d{3}),")
_STATUSES = (400, 401, 403)
_SAYS_NOTHING_ELSE = (401, 403)
_UNAUTHORIZED = 401
# Servers of temporary keys say of one that has expired that they do not know it.
_MAY_HAVE_EXPIRED = (
    "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId", "InvalidClientTokenId",
    "UnrecognizedClient",
)  # fmt: skip


def refused(where: str, status: int | None, reason: str, *, code: str = "") -> AccessDeniedError | None:
    """The error for credentials that a server does not take; None for whatever else it says.

    Parameters
    ----------
    where : str
        The key's URL and the server.
    status : int or None
        The status of the reply, if known.
    reason : str
        The text of the reply, without secrets.
    code : str, optional
        Its own name for that, where ``reason`` does not have it.

    Examples
    --------
    >>> print(refused("s3://bkt/x", 400, "ExpiredToken"))  # doctest: +ELLIPSIS
    s3://bkt/x: the server refused the credentials (ExpiredToken): they have expired; get new ones, ...
    >>> refused("s3://bkt/x", 400, "InvalidArgument"), refused("s3://bkt/x", 500, "ExpiredToken")
    (None, None)
    """
    if status is not None and status not in _STATUSES:
        return None
    # Arrow writes EXPIRED_TOKEN.
    words = f"{code} {reason}".replace("_", "").lower()
    advice = next((advice for advice in _ADVICE if advice.lower() in words), None)
    if advice is None and status not in _SAYS_NOTHING_ELSE:
        return None
    said = reason if not code or code in reason else f"{code}, {reason}"
    error = AccessDeniedError(
        f"{where}: the server refused the credentials ({said}): {_ADVICE.get(advice or '', _WRONG)}"
    )
    error.has_expired = status == _UNAUTHORIZED or advice in _MAY_HAVE_EXPIRED
    return error


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception of fsspec or Arrow tells, if it does."""
    # s3fs raises an OSError of its own making, with botocore's error as the cause.
    response = getattr(error.__cause__, "response", None) or {}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if status:
        return int(status)
    for attribute in ("status", "code"):
        value = getattr(error, attribute, None)
        if isinstance(value, int):
            return value
    match = _STATUS_IN_TEXT.search(str(error))
    return int(next(group for group in match.groups() if group)) if match else None


def code_of(error: BaseException) -> str:
    """The server's name for a failure: of s3fs the cause has it, and the text is the server's."""
    code = (getattr(error.__cause__, "response", None) or {}).get("Error", {}).get("Code")
    return shown_line(str(code)) if code else ""
