"""Cutting blobs out of a range of bytes as its pieces arrive: pure, so that nothing but the pieces is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hubarray.storage.base import Buffer


def cut(pieces: Iterable[Buffer], begins: Sequence[int], ends: Sequence[int]) -> Iterator[list[tuple[int, Buffer]]]:
    """For each piece, the blobs that it completes.

    Parameters
    ----------
    pieces : iterable of buffer
        A range of bytes, in order. It may turn out shorter than expected.
    begins, ends : sequence of int
        Where each blob lies in the range, in the order of ``begins``; blobs may overlap, or be the same.

    Yields
    ------
    list of (int, buffer)
        A blob's position in ``begins``, and its bytes: a view of a piece, or joined where several pieces have a part of
        it. Blobs that the range is too short for come last, with what there is of them.

    Examples
    --------
    >>> [[(n, bytes(blob)) for n, blob in some] for some in cut([b"abcd", b"ef"], [0, 1, 3], [1, 3, 6])]
    [[(0, b'a'), (1, b'bc')], [(2, b'def')]]
    """
    held: list[memoryview] = []
    first = stop = done = 0
    for piece in pieces:
        held.append(memoryview(piece))
        stop += len(piece)
        ready: list[tuple[int, Buffer]] = []
        while done < len(begins) and ends[done] <= stop:
            ready.append((done, _between(held, begins[done] - first, ends[done] - first)))
            done += 1
        while held and (done == len(begins) or first + len(held[0]) <= begins[done]):
            first += len(held.pop(0))
        if ready:
            yield ready
    if done < len(begins):
        yield [
            (n, _between(held, max(0, begins[n] - first), max(0, ends[n] - first))) for n in range(done, len(begins))
        ]


def _between(held: Sequence[memoryview], begin: int, end: int) -> Buffer:
    parts: list[memoryview] = []
    for piece in held:
        if begin < len(piece) and end > 0:
            parts.append(piece[max(0, begin) : end])
        begin, end = begin - len(piece), end - len(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)
