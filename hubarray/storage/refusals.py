"""Credentials that a server does not take: whether that is why it refuses, and what to do about it."""

from __future__ import annotations

from hubarray.errors import AccessDeniedError

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
        Of its answer, where that is known.
    reason : str
        What it said, without secrets.
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
    told = f"{code} {reason}"
    found = next((one for one in _ADVICE if one in told), None)
    if found is None and status not in _SAYS_NOTHING_ELSE:
        return None
    said = reason if not code or code in reason else f"{code}, {reason}"
    error = AccessDeniedError(
        f"{where}: the server refused the credentials ({said}): {_ADVICE.get(found or '', _WRONG)}"
    )
    error.has_expired = status == _UNAUTHORIZED or found in _MAY_HAVE_EXPIRED
    return error
