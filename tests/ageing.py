"""Time that passes for what is stored, without waiting: tests of grace periods need not be faster than a busy machine."""

import contextlib
import os
from pathlib import Path

import hubarray as hub


def age(root: hub.Root, seconds: float) -> None:
    """Make everything in a local root that much older, by the times of its files."""
    for path in Path(root.store.folder).rglob("*"):
        # A hint may be on its way, in a file that is about to get its name.
        with contextlib.suppress(FileNotFoundError):
            modified_ns = path.stat().st_mtime_ns - int(seconds * 1e9)
            os.utime(path, ns=(modified_ns, modified_ns))
