"""Settings: an argument beats an environment variable beats the config file beats the default.

The config file is TOML, ``~/.config/hubarray/config.toml`` on Linux or what
``HUBARRAY_CONFIG`` names, with the same keys as :func:`configure` takes.
"""

from __future__ import annotations

import functools
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from hubarray.errors import ConfigError
from hubarray.limits import DEFAULT_DECODED_BYTES

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Every setting, resolved.

    Attributes
    ----------
    root : str
        URL or folder that names without a root are looked up under.
    storage_options : Mapping
        Options for that root and for other URLs of its scheme, in the form
        that s3fs and gcsfs take. Never shown.
    cache_dir : str
        Folder of the disk cache.
    disk_cache_bytes, memory_cache_bytes : int
        Budgets; 0 turns a cache off.
    max_staleness_seconds : float
        How old an open array's view of the newest commit may be when it is read.
    author : str or None
        Who commits; None is ``user@host``.
    max_decoded_bytes : int
        What a row group or a chunk of a source that is read or imported may decode to.
    retry_timeout_seconds : float
        How long a server that asks to try later is asked again.
    offline : bool
        Whether stores beyond this machine are not asked at all.
    """

    root: str
    cache_dir: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    disk_cache_bytes: int = 16 * 1024 * MIB
    memory_cache_bytes: int = 512 * MIB
    max_staleness_seconds: float = 1.0
    author: str | None = None
    max_decoded_bytes: int = DEFAULT_DECODED_BYTES
    retry_timeout_seconds: float = 60.0
    offline: bool = False


def _text(value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"expected a string or path, not {type(value).__name__}")
    if not os.fspath(value):
        raise ValueError("expected a string or path that is not empty")
    return str(os.fspath(value))


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("expected a number of bytes")
    try:
        number = int(value)
    except ValueError:
        raise ValueError("expected a whole number of bytes, such as 1073741824") from None
    if number < 0:
        raise ValueError("expected a number of bytes, 0 or more")
    return number


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("expected a number of seconds")
    try:
        number = float(value)
    except ValueError:
        raise ValueError("expected a number of seconds, such as 2.5") from None
    if not number >= 0:
        raise ValueError("expected a number of seconds, 0 or more")
    return number


def _flag(value: object) -> bool:
    text = str(value).lower()
    if not isinstance(value, (bool, str)) or text not in _FLAGS:
        raise ValueError("expected true or false (in a variable also 1 or 0)")
    return _FLAGS[text]


def _options(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping (in a variable: a JSON object)")
    return dict(value)


_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_PARSERS: dict[str, Callable[[object], Any]] = {
    "root": _text,
    "storage_options": _options,
    "cache_dir": _text,
    "disk_cache_bytes": _bytes,
    "memory_cache_bytes": _bytes,
    "max_staleness_seconds": _seconds,
    "author": _text,
    "max_decoded_bytes": _bytes,
    "retry_timeout_seconds": _seconds,
    "offline": _flag,
}

_arguments: dict[str, Any] = {}


def configure(
    *,
    root: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    disk_cache_bytes: int | None = None,
    memory_cache_bytes: int | None = None,
    max_staleness_seconds: float | None = None,
    author: str | None = None,
    max_decoded_bytes: int | None = None,
    retry_timeout_seconds: float | None = None,
    offline: bool | None = None,
) -> None:
    """Change settings for what is opened afterwards; what is not given stays as it is.

    Parameters
    ----------
    root : str or path, optional
        Where names live: ``s3://bucket/hub``, ``gs://bucket/hub``, a folder,
        ``memory://hub``, or ``https://...`` (read-only). Also ``HUBARRAY_ROOT``.
    storage_options : mapping, optional
        Credentials and endpoint in the form s3fs and gcsfs take: ``key``,
        ``secret``, ``token``, ``endpoint_url``, ``anon``, ... Without them each
        cloud's standard chain is used. Also ``HUBARRAY_STORAGE_OPTIONS`` (JSON).
    cache_dir : str or path, optional
        Folder of the disk cache. Also ``HUBARRAY_CACHE_DIR``.
    disk_cache_bytes : int, optional
        Budget of what is kept of remote roots, encoded, by all processes of a user: 16 GiB unless told; 0: nothing.
    memory_cache_bytes : int, optional
        Budget of decoded chunks and manifest nodes in each process: 512 MiB unless told; 0: nothing.
    max_staleness_seconds : float, optional
        How long an open array may go on without looking for newer commits.
    author : str, optional
        Recorded in each commit; by default ``user@host``.
    max_decoded_bytes : int, optional
        What a row group or a chunk of a file that is read or imported may decode to: 1 GiB by default. A file of a few
        kilobytes may stand for terabytes, so more is refused before memory is allocated.
    retry_timeout_seconds : float, optional
        How long a server that asks to try later (SlowDown, 429, 500, 502, 503), or breaks off a reply, is asked again,
        after longer and longer waits: 60 s by default; 0: only as often as its client does by itself. One that gives no
        sign of life is an error within 30 s in any case.
    offline : bool, optional
        True: make no request, of what is open either. What the disk cache has of frozen versions, tags and numbered
        commits can be read; all else is an UnavailableError at once. Also ``HUBARRAY_OFFLINE=1``.

    Raises
    ------
    ConfigError
        A value is of the wrong kind. Nothing is changed then.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.configure(memory_cache_bytes=256 * 2**20)
    """
    given = {name: value for name, value in locals().items() if value is not None}
    _arguments.update({name: _parsed(name, value, "configure()") for name, value in given.items()})


def current() -> Settings:
    """Resolve every setting now."""
    defaults = Settings(
        root=platformdirs.user_data_dir("hubarray"),
        cache_dir=platformdirs.user_cache_dir("hubarray"),
    )
    values: dict[str, Any] = {}
    source = _file_path()
    for name, value in _file_values(source).items():
        values[name] = _parsed(name, value, str(source))
    for name in _PARSERS:
        variable = f"HUBARRAY_{name.upper()}"
        if os.environ.get(variable):
            values[name] = _parsed(name, os.environ[variable], variable)
    values.update(_arguments)
    return replace(defaults, **values)


def is_offline() -> bool:
    """Return whether requests to stores beyond this machine are forbidden.

    Each request asks, so the config file is read once, and its place is not looked for again.
    """
    if "offline" in _arguments:
        return bool(_arguments["offline"])
    variable = os.environ.get("HUBARRAY_OFFLINE")
    if variable:
        return bool(_parsed("offline", variable, "HUBARRAY_OFFLINE"))
    return _is_offline_by_file(os.environ.get("HUBARRAY_CONFIG"), os.environ.get("XDG_CONFIG_HOME"))


@functools.lru_cache(maxsize=8)
def _is_offline_by_file(*_places: str | None) -> bool:
    """Return what the config file says; the arguments are what its path depends on, for the cache."""
    path = _file_path()
    return bool(_parsed("offline", _file_values(path).get("offline", False), str(path)))


def max_decoded_bytes(given: object = None) -> int:
    """Return a limit on decoded bytes: the one that is given, or the setting.

    Raises
    ------
    ConfigError
        It is not a number of bytes above 0.
    """
    size = current().max_decoded_bytes if given is None else _parsed("max_decoded_bytes", given, "argument")
    if not size:
        raise ConfigError("max_decoded_bytes must be a number of bytes above 0")
    return int(size)


def retry_timeout(given: object) -> float | None:
    """Return how long a root's server is asked again, if that is given.

    Raises
    ------
    ConfigError
        It is not a number of seconds.
    """
    return None if given is None else float(_parsed("retry_timeout_seconds", given, "argument"))


def take(settings: Settings) -> None:
    """Set every setting as another process has them: in a worker of a reader, before anything is opened."""
    _arguments.update({name: getattr(settings, name) for name in _PARSERS if getattr(settings, name) is not None})


def _parsed(name: str, value: object, source: str) -> Any:
    try:
        return _PARSERS[name](value)
    except (ValueError, TypeError) as error:
        # The value itself may be a secret, so only the complaint is shown.
        complaint = "not valid JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        raise ConfigError(f"{source}: {name}: {complaint}") from None


def _file_path() -> Path:
    named = os.environ.get("HUBARRAY_CONFIG")
    return Path(named) if named else Path(platformdirs.user_config_dir("hubarray")) / "config.toml"


def _file_values(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if os.environ.get("HUBARRAY_CONFIG"):
            raise ConfigError(f"HUBARRAY_CONFIG names {path}, which does not exist") from None
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    unknown = sorted(set(values) - set(_PARSERS))
    if unknown:
        raise ConfigError(f"{path}: unknown setting {unknown[0]!r}; known are {', '.join(_PARSERS)}")
    return values
