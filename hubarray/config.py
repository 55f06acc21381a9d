"""Settings: an argument overrides an environment variable, which overrides the config file and the default.

The config file is TOML, ``~/.config/hubarray/config.toml`` on Linux or the file that ``HUBARRAY_CONFIG`` names. It has
the same keys as :func:`configure`.
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
        URL or folder of names without a root.
    storage_options : Mapping
        Options for that root and for other URLs of its scheme, in the form of s3fs and gcsfs. Never shown.
    cache_dir : str
        Folder of the disk cache.
    disk_cache_bytes, memory_cache_bytes : int
        Budgets; 0 turns a cache off.
    max_staleness_seconds : float
        After this time, an open array looks for newer commits when it is read.
    author : str or None
        The author of commits; None means ``user@host``.
    max_decoded_bytes : int
        How many bytes a row group or chunk of a source may decode to.
    retry_timeout_seconds : float
        How long to retry a server that asks to try later.
    offline : bool
        Whether to make no requests to stores on other machines.
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
    """Change settings for everything that is opened afterwards. Settings that you do not pass keep their values.

    Parameters
    ----------
    root : str or path, optional
        The root of names: ``s3://bucket/hub``, ``gs://bucket/hub``, a folder, ``memory://hub``, or ``https://...``
        (read-only). Also ``HUBARRAY_ROOT``.
    storage_options : mapping, optional
        Credentials and endpoint in the form of s3fs and gcsfs: ``key``, ``secret``, ``token``, ``endpoint_url``,
        ``anon``, ... Without them, the standard credentials of each cloud are used. Also ``HUBARRAY_STORAGE_OPTIONS``
        (JSON).
    cache_dir : str or path, optional
        Folder of the disk cache. Also ``HUBARRAY_CACHE_DIR``.
    disk_cache_bytes : int, optional
        Budget of the disk cache for encoded data of remote roots, shared by all processes of a user: 16 GiB by default.
        0 turns it off.
    memory_cache_bytes : int, optional
        Budget of the memory cache for decoded chunks and manifest nodes in each process: 512 MiB by default. 0 turns it
        off.
    max_staleness_seconds : float, optional
        After this time, an open array looks for newer commits when it is read.
    author : str, optional
        The author of each commit; ``user@host`` by default.
    max_decoded_bytes : int, optional
        How many bytes a row group or chunk of a file may decode to: 1 GiB by default. A file of a few kilobytes can
        decode to terabytes, so larger ones are refused before memory is allocated.
    retry_timeout_seconds : float, optional
        How long to retry a server that asks to try later (SlowDown, 429, 500, 502, 503) or breaks off a reply, with
        increasing waits: 60 s by default. With 0, only the client itself retries. A server that gives no sign of life
        is an error within 30 s in any case.
    offline : bool, optional
        With True, nothing makes a request, including open arrays. You can read what the disk cache has of frozen
        versions, tags and numbered commits. Everything else raises UnavailableError at once. Also
        ``HUBARRAY_OFFLINE=1``.

    Raises
    ------
    ConfigError
        A value has the wrong type. No setting has changed.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.configure(memory_cache_bytes=256 * 2**20)
    """
    changed = {name: value for name, value in locals().items() if value is not None}
    _arguments.update({name: _parsed(name, value, "configure()") for name, value in changed.items()})


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

    Every request calls this, so the config file is read only once.
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


def max_decoded_bytes(value: object = None) -> int:
    """Return the limit on decoded bytes: the argument, or the setting.

    Raises
    ------
    ConfigError
        The limit is not a positive number of bytes.
    """
    size = current().max_decoded_bytes if value is None else _parsed("max_decoded_bytes", value, "argument")
    if not size:
        raise ConfigError("max_decoded_bytes must be a number of bytes above 0")
    return int(size)


def retry_timeout(value: object) -> float | None:
    """Return how long to retry the server of a root, if that is set.

    Raises
    ------
    ConfigError
        The value is not a number of seconds.
    """
    return None if value is None else float(_parsed("retry_timeout_seconds", value, "argument"))


def take(settings: Settings) -> None:
    """Take over the settings of another process, in the worker of a reader, before anything is opened."""
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
