"""Chunk files: blocks of one column group laid back to back, closed at a size that the rows alone decide. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hubarray.storage.base import Buffer

CHUNK_FILE_BYTES = 16 << 20
# Smaller blocks are joined: a piece of its own costs some hundred bytes of memory, more than a copy of them.
_JOINED_BLOCK_BYTES = 4 << 10
_JOINED_BYTES = 1 << 20


@dataclass
class ChunkFile:
    """A chunk file that is being filled.

    Attributes
    ----------
    pieces : list of bytes
        Its content, in pieces that follow each other.
    size : int
        Bytes so far.
    blocks : int
        Blocks so far.
    """

    pieces: list[Buffer] = field(default_factory=list)
    size: int = 0
    blocks: int = 0

    def takes(self, block_bytes: int) -> bool:
        """Whether a block may be added: one that would go far beyond the size is a chunk file by itself."""
        return not self.blocks or self.size + block_bytes <= CHUNK_FILE_BYTES

    def add(self, block: Sequence[Buffer], block_bytes: int) -> int:
        """Add a block; returns its offset."""
        offset = self.size
        if block_bytes < _JOINED_BLOCK_BYTES:
            last = self.pieces[-1] if self.pieces else None
            if not isinstance(last, bytearray) or len(last) >= _JOINED_BYTES:
                last = bytearray()
                self.pieces.append(last)
            for piece in block:
                last += piece
        else:
            self.pieces += block
        self.size += block_bytes
        self.blocks += 1
        return offset
