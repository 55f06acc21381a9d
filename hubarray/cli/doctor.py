"""``hubarray doctor``: is everything there that hubarray needs, and what to do where it is not."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import hubarray as hub
from hubarray import config
from hubarray.cli.command import DONE, PROBLEMS, command
from hubarray.cli.look import require_root
from hubarray.cli.output import Output
from hubarray.errors import HubError, ObjectMissingError
from hubarray.history.log.probes import PROBE_FOLDER, require_atomic_create, store_time
from hubarray.storage.url import Root, resolve

_PACKAGES = ("numpy", "numcodecs", "zarr", "obstore", "fsspec", "s3fs", "gcsfs", "dask")
_CLOCK_SECONDS = 60.0
_LOW_SPACE_BYTES = 1 << 30


# The checks after these say nothing more where these fail.
_REST_ON = ("root", "write, read, delete")


class Trouble(Exception):
    """A check that failed, with what to do."""


@command(
    "doctor",
    "Check root, credentials, clock and cache, and say what to fix.",
    examples=("hubarray doctor", "hubarray doctor --root s3://bucket/hub"),
)
def doctor(arguments: Namespace, output: Output) -> int:
    """Run every check; 3 if one of them found something."""
    rows: list[dict[str, Any]] = []
    try:
        require_root(arguments.root)
        root = resolve(arguments.root)
    except HubError as error:
        output.table([{"check": "root", "ok": False, "says": str(error)}])
        return PROBLEMS
    checks: list[tuple[str, Callable[[], str]]] = [
        ("versions", _versions),
        ("root", lambda: _reached(root)),
        ("write, read, delete", lambda: _round_trip(root)),
        ("create if absent", lambda: _atomic(root)),
        ("clock", lambda: _clock(root)),
        ("cache folder", _cache),
    ]
    for name, check in checks:
        try:
            says, ok = check(), True
        except (Trouble, HubError, OSError) as error:
            says, ok = str(error), False
        rows.append({"check": name, "ok": ok, "says": says})
        if not ok and name in _REST_ON:
            break
    shown = [f"{'ok  ' if row['ok'] else 'BAD '} {row['check']}: {row['says']}" for row in rows]
    output.value(rows, shown)
    return DONE if all(row["ok"] for row in rows) else PROBLEMS


def _versions() -> str:
    package_versions = [f"{name} {metadata.version(name)}" for name in _PACKAGES]
    return f"hubarray {hub.__version__}, Python {sys.version.split()[0]}, {', '.join(package_versions)}"


def _reached(root: Root) -> str:
    with contextlib.suppress(ObjectMissingError):
        root.store.get(f"{PROBE_FOLDER}/{uuid.uuid4().hex}")
    return f"{root.url} can be reached"


def _round_trip(root: Root) -> str:
    if root.store.read_only:
        return "this root can only be read"
    key = f"{PROBE_FOLDER}/{uuid.uuid4().hex}"
    began = time.perf_counter()
    root.store.put(key, b"doctor")
    if bytes(root.store.get(key)) != b"doctor":
        raise Trouble(f"{root.url} gave back other bytes than were written: do not use it")
    root.store.delete([key])
    return f"took {(time.perf_counter() - began) * 1e3:.0f} ms"


def _atomic(root: Root) -> str:
    if root.store.read_only:
        return "not needed: this root can only be read"
    require_atomic_create(root.store)
    return "the store refuses to create a key twice, so commits are safe"


def _clock(root: Root) -> str:
    if root.store.read_only:
        return "not needed: this root can only be read"
    apart = store_time(root.store).timestamp() - time.time()
    if abs(apart) > _CLOCK_SECONDS:
        raise Trouble(
            f"this machine's clock is {-apart:+,.0f} s from the store's; set it right, or signatures are refused"
        )
    return f"within {abs(apart):.1f} s of the store's"


def _cache() -> str:
    settings = config.current()
    folder = Path(settings.cache_dir)
    if settings.disk_cache_bytes == 0:
        return "switched off"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Trouble(f"{folder} cannot be made ({error.strerror}); set HUBARRAY_CACHE_DIR to another folder") from None
    if not os.access(folder, os.W_OK):
        raise Trouble(f"{folder} cannot be written; set HUBARRAY_CACHE_DIR to another folder, or fix its permissions")
    free = shutil.disk_usage(folder).free
    if free < _LOW_SPACE_BYTES:
        raise Trouble(
            f"{folder}: only {free / 1e6:,.0f} MB are free; empty it with 'hubarray cache --clear', or move it"
        )
    return f"{folder}, {free / 1e9:,.0f} GB free"
