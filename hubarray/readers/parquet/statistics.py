"""The least and the most of columns, as footers' statistics say them; a process of its own decodes them."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.process import python_command
from hubarray.readers.parquet import footer_subprocess

# Of each row group: the least value of a field, the most, and whether they prove nothing of single rows.
Ranges = list[dict[str, tuple[Any, Any, bool]]]


def ranges(footers: Sequence[pq.FileMetaData], fields: Sequence[str]) -> list[Ranges]:
    """Ranges of the fields of each footer's row groups; nothing, where Arrow cannot bear to look.

    A filter then reads rows, and a damaged chunk is reported when it is read.
    """
    known = [
        _ranges_of(table, fields) for table in _facts_of_footers((_bytes_of(footer) for footer in footers), fields)
    ]
    return known + [[{} for _ in range(footer.num_row_groups)] for footer in footers[len(known) :]]


def file_paths(footer: bytes) -> list[str] | None:
    """Return the data file of each row group of a ``_metadata`` file, or None if Arrow fails to read it."""
    for table in _facts_of_footers([footer], []):
        return [str(path) for path in table.column("file").to_pylist()]
    return None


def summed(footer: bytes, fields: Sequence[str]) -> list[tuple[str, dict[str, tuple[Any, Any, bool]]]]:
    """Return data files and ranges of the row groups of a ``_metadata`` file, or nothing if Arrow fails to read it."""
    for table in _facts_of_footers([footer], fields):
        paths = [str(path) for path in table.column("file").to_pylist()]
        return list(zip(paths, _ranges_of(table, fields), strict=True))
    return []


def _ranges_of(table: pa.Table, fields: Sequence[str]) -> Ranges:
    ranges: Ranges = [{} for _ in range(table.num_rows)]
    for number, name in enumerate(fields):
        if f"{number} low" not in table.column_names:
            continue
        low, high, loose = (table.column(f"{number} {what}").to_pylist() for what in ("low", "high", "loose"))
        for at in range(table.num_rows):
            if loose[at] is not None:
                ranges[at][name] = (low[at], high[at], loose[at])
    return ranges


def _bytes_of(footer: pq.FileMetaData) -> bytes:
    out = io.BytesIO()
    footer.write_metadata_file(out)
    return out.getvalue()


def _facts_of_footers(footers: Iterable[bytes], fields: Sequence[str]) -> Iterator[pa.Table]:
    """The facts of each footer that the process tells, until it ends."""
    try:
        process = subprocess.Popen(
            **python_command(footer_subprocess.__file__, json.dumps(list(fields))),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return
    assert process.stdin is not None
    assert process.stdout is not None
    sending = threading.Thread(target=_send, args=(process.stdin, footers), name="hubarray-footers", daemon=True)
    sending.start()
    try:
        while len(first := process.stdout.read(footer_subprocess.LENGTH.size)) == footer_subprocess.LENGTH.size:
            data = process.stdout.read(footer_subprocess.LENGTH.unpack(first)[0])
            with contextlib.suppress(pa.ArrowException):
                yield pa.ipc.open_stream(data).read_all()
                continue
            return
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
        sending.join()


def _send(stream: Any, footers: Iterable[bytes]) -> None:
    with contextlib.suppress(OSError, pa.ArrowException), stream:
        for data in footers:
            stream.write(footer_subprocess.LENGTH.pack(len(data)))
            stream.write(data)
