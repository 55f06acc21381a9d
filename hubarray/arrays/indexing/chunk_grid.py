"""A grid of chunks laid over an array: what lies where. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence


def clipped(coords: Sequence[int], shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """The shape of the part of a chunk that lies within the array.

    Examples
    --------
    >>> clipped((2, 0), (10, 3), (4, 4))
    (2, 3)
    """
    return tuple(min(chunk, length - coord * chunk) for coord, length, chunk in zip(coords, shape, chunks, strict=True))


def region_of(coords: Sequence[int], shape: Sequence[int], chunks: Sequence[int]) -> tuple[slice, ...]:
    """The slices of the array that a chunk covers.

    Examples
    --------
    >>> region_of((2, 0), (10, 3), (4, 4))
    (slice(8, 10, None), slice(0, 3, None))
    """
    return tuple(
        slice(coord * chunk, min((coord + 1) * chunk, length))
        for coord, length, chunk in zip(coords, shape, chunks, strict=True)
    )


def merged_boxes(coords: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Distinct chunk coordinates as few boxes ``(start, stop)``, merged axis by axis from the last.

    Examples
    --------
    >>> merged_boxes([(0, 0), (0, 1), (1, 0), (1, 1), (3, 0)])
    [((0, 0), (2, 2)), ((3, 0), (4, 1))]
    """
    boxes = sorted((tuple(c), tuple(i + 1 for i in c)) for c in coords)
    ndim = len(boxes[0][0]) if boxes else 0
    for axis in reversed(range(ndim)):
        boxes.sort(key=lambda box: (_without(box[0], axis), _without(box[1], axis), box[0][axis]))
        merged: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for start, stop in boxes:
            if merged:
                before, after = merged[-1]
                same = _without(before, axis) == _without(start, axis) and _without(after, axis) == _without(stop, axis)
                if same and after[axis] == start[axis]:
                    merged[-1] = (before, stop)
                    continue
            merged.append((start, stop))
        boxes = merged
    return sorted(boxes)


def _without(values: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return values[:axis] + values[axis + 1 :]
