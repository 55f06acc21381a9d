"""Where contenders keep their data: a local folder, or a bucket of a SeaweedFS on loopback with its read cache."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests import servers


@dataclass(frozen=True)
class Place:
    """One contender's own corner of a folder or bucket; ``server`` is the process that serves the bucket."""

    kind: str
    folder: Path
    endpoint: str = ""
    bucket: str = ""
    prefix: str = ""
    server: int | None = None

    @property
    def url(self) -> str:
        """The place's URL."""
        return f"s3://{self.bucket}/{self.prefix}" if self.kind == "s3" else self.folder.as_uri()

    @property
    def options(self) -> dict[str, object]:
        """As s3fs takes them."""
        if self.kind != "s3":
            return {}
        return {"key": servers.ACCESS_KEY, "secret": servers.SECRET_KEY, "endpoint_url": self.endpoint}

    def corner(self, name: str) -> Place:
        """A fresh place below this one."""
        label = f"{name}-{uuid.uuid4().hex[:8]}"
        return replace(self, folder=self.folder / label, prefix=f"{self.prefix}/{label}".strip("/"))


@contextlib.contextmanager
def local() -> Iterator[Place]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="hubarray-bench-") as folder:
        yield Place("local", Path(folder))


@contextlib.contextmanager
def s3(cache_megabytes: int = 2048) -> Iterator[Place]:
    """A bucket of a real S3 server that keeps what it served in memory."""
    with (
        tempfile.TemporaryDirectory(prefix="hubarray-bench-") as folder,
        servers.seaweedfs(Path(folder) / "s3", cache_megabytes=cache_megabytes) as server,
    ):
        yield Place("s3", Path(folder), server.endpoint, servers.BUCKET, "bench", server.process.pid)
