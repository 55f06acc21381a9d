"""Audio and video, frame by frame, through PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hubarray.errors import SourceError
from hubarray.extras import needed
from hubarray.interop.sources.base import MAX_ROW_BYTES, check_sizes, readable, stamp, whole_parts
from hubarray.sources.media_files import container_of, declared_bytes


class Media:
    """The first audio or video stream of a file: samples of shape (channels,), or frames of (height, width, 3).

    How many rows there are is known at its end.
    """

    def __init__(self, where: str, kind: str) -> None:
        self._av = needed("av", extra="media", why="importing audio and video")
        self.where = where
        self._kind = kind
        # One of few: FFmpeg would also read playlists, which lead to other files.
        with open(where, "rb") as raw:
            container = container_of(raw, where)
            declared, actual_bytes = declared_bytes(raw, container or ""), raw.seek(0, 2)
        if container is None:
            raise SourceError(f"{where}: is in no container of audio or video that is read")
        if declared is not None and declared > actual_bytes:
            raise SourceError(f"{where}: is cut short: it declares {declared:,} bytes, and has {actual_bytes:,}")
        self._format = container
        with readable(where), self._opened() as file:
            streams = getattr(file.streams, kind)
            if not streams:
                raise SourceError(f"{where}: has no {kind}")
            rate = streams[0].rate if kind == "audio" else streams[0].average_rate
            known = kind == "audio" and streams[0].duration and streams[0].time_base
            self._seconds = float(streams[0].duration * streams[0].time_base) if known else 0.0
            self._rate = float(rate)
            if kind == "video" and streams[0].width * streams[0].height * 3 > MAX_ROW_BYTES:
                raise SourceError(f"{where}: its frames are larger than is read at once")
            first = next(self._frames(file), None)
        if first is None:
            raise SourceError(f"{where}: its {kind} is empty")
        self.rows: int | None = None
        self.row_shape, self.dtype = first.shape[1:], first.dtype
        self.attrs: dict[str, Any] = {"sample_rate" if kind == "audio" else "frame_rate": float(rate)}
        self.dims: tuple[str | None, ...] | None = (
            ("sample", "channel") if kind == "audio" else ("frame", "y", "x", "c")
        )
        self.fingerprint: list[Any] | None = stamp(where)
        check_sizes(self, whole_rows=True)

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`. What lies before ``start`` is decoded and passed over."""
        held: list[np.ndarray] = []
        count = total = 0
        with readable(self.where), self._opened() as file:
            for rows in self._frames(file):
                if rows.shape[1:] != self.row_shape:
                    raise SourceError(f"{self.where}: a frame has shape {rows.shape[1:]}, the first {self.row_shape}")
                total += len(rows)
                passed = min(start, len(rows))
                start -= passed
                rows = rows[passed:]
                while count + len(rows) >= block_rows:
                    taken = block_rows - count
                    yield np.concatenate([*held, rows[:taken]])
                    rows, held, count = rows[taken:], [], 0
                if len(rows):
                    held.append(rows)
                    count += len(rows)
        if total < 0.99 * self._seconds * self._rate:
            raise SourceError(
                f"{self.where}: is cut short: it declares {self._seconds:.2f} s, and has {total / self._rate:.2f} s"
            )
        if held:
            yield np.concatenate(held)

    def _opened(self) -> Any:
        return self._av.open(self.where, format=self._format, options={"protocol_whitelist": "file"})

    def _frames(self, file: Any) -> Iterator[np.ndarray]:
        if self._kind == "video":
            for frame in file.decode(video=0):
                yield frame.to_ndarray(format="rgb24")[None]
            return
        for frame in file.decode(audio=0):
            values = frame.to_ndarray()
            channels = frame.layout.nb_channels
            yield np.ascontiguousarray(values.T if frame.format.is_planar else values.reshape(-1, channels))
