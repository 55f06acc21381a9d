"""Storage options of S3 as users of s3fs write them, turned into what obstore and s3fs take.

Pure: nothing here opens a connection. An option that an engine cannot honour
is an error, never ignored. Values may be secrets, so messages show names only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hubarray.errors import ConfigError
from hubarray.redaction import has_user

_S3_NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
    "region": "region",
    "region_name": "region",
    "requester_pays": "request_payer",
}
# As users name them.
_OURS = {"access_key_id": "key", "secret_access_key": "secret", "session_token": "token", "endpoint": "endpoint_url"}
_FLAGS = ("skip_signature", "request_payer")
_PRINTABLE = re.compile(r"[!-~]+")
_CLIENT_NAMES = {"endpoint_url": "endpoint", "region_name": "region"}


def flatten_s3(options: Mapping[str, Any]) -> dict[str, Any]:
    """One flat dict: ``client_kwargs`` raised to the top, unknown options refused.

    Examples
    --------
    >>> flatten_s3({"anon": True, "client_kwargs": {"region_name": "eu-north-1"}})
    {'skip_signature': True, 'region': 'eu-north-1'}
    """
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if name == "client_kwargs":
            if not isinstance(value, Mapping):
                raise ConfigError("storage_options: client_kwargs is a mapping, such as {'endpoint_url': ...}")
            for inner, inner_value in dict(value).items():
                if inner not in _CLIENT_NAMES:
                    raise ConfigError(f"storage_options: client_kwargs[{inner!r}] is not supported on s3://")
                flat[_CLIENT_NAMES[inner]] = inner_value
        elif name == "profile":
            flat["profile"] = value
        elif name in _S3_NAMES:
            flat[_S3_NAMES[name]] = value
        else:
            known = ", ".join([*_S3_NAMES, "profile", "client_kwargs"])
            raise ConfigError(f"storage_options: {name!r} is not supported on s3://; supported are {known}")
    flat = {name: value for name, value in flat.items() if value is not None}
    for name, value in flat.items():
        if name in _FLAGS:
            continue
        # Clients put these into headers and URLs; what cannot stand there ends in a crash far below.
        if not isinstance(value, str) or not value or not _PRINTABLE.fullmatch(value):
            named = _OURS.get(name, name)
            raise ConfigError(
                f"storage_options: {named!r} is not text without spaces and line ends; was it read from a file?"
            )
    if "endpoint" in flat:
        checked_endpoint(flat["endpoint"])
    return flat


def checked_endpoint(url: Any) -> str:
    """An endpoint's URL, if it is one and has no credentials in it.

    Raises
    ------
    ConfigError
        The URL is not shown: it may hold a password.
    """
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not _PRINTABLE.fullmatch(url):
        raise ConfigError("storage_options: the endpoint is not a URL such as 'https://storage.example.com'")
    if has_user(url):
        raise ConfigError("storage_options: credentials do not belong in the endpoint's URL; pass them as options")
    return str(url)


def for_s3fs(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options as keyword arguments of ``s3fs.S3FileSystem``."""
    flat = flatten_s3(options)
    client = {
        name: flat[ours] for name, ours in (("endpoint_url", "endpoint"), ("region_name", "region")) if flat.get(ours)
    }
    arguments: dict[str, Any] = {
        "key": flat.get("access_key_id"),
        "secret": flat.get("secret_access_key"),
        "token": flat.get("session_token"),
        "anon": bool(flat.get("skip_signature", False)),
        "requester_pays": bool(flat.get("request_payer", False)),
        "client_kwargs": client,
    }
    if "profile" in flat:
        arguments["profile"] = flat["profile"]
    return arguments


def endpoint_from_environment() -> str | None:
    """The S3 endpoint that AWS's tools would take from the environment."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return checked_endpoint(url) if url else None
