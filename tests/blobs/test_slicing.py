import itertools

from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs.slicing import cut

BLOBS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 90)), max_size=30).map(sorted)
SIZES = st.lists(st.integers(0, 70), min_size=1, max_size=40).filter(any)


def _cut_up(data, sizes):
    """The data in pieces of these sizes, over and over; some may be empty, but not all."""
    pieces, at = [], 0
    again = itertools.cycle(sizes)
    while at < len(data):
        size = next(again)
        pieces.append(data[at : at + size])
        at += size
    return pieces


@given(BLOBS, SIZES, st.integers(0, 400))
def test_every_blob_comes_once_and_as_one_slice_would_give_it(blobs, sizes, length):
    data = bytes(i * 7 % 251 for i in range(length))
    result = [
        item
        for some in cut(_cut_up(data, sizes), [at for at, _ in blobs], [at + size for at, size in blobs])
        for item in some
    ]
    assert [n for n, _ in result] == list(range(len(blobs)))
    assert [bytes(blob) for _, blob in result] == [data[at : at + size] for at, size in blobs]


@given(BLOBS, SIZES)
def test_a_blob_comes_as_soon_as_its_last_byte_and_those_before_it_are_there(blobs, sizes):
    arrived = [0]

    def arriving():
        for piece in _cut_up(bytes(400), sizes):
            arrived[0] += len(piece)
            yield piece

    ends = [at + size for at, size in blobs]
    for some in cut(arriving(), [at for at, _ in blobs], ends):
        last = some[-1][0]
        assert max(ends[: last + 1]) <= arrived[0]
        assert last + 1 == len(ends) or ends[last + 1] > arrived[0]


def test_a_blob_within_one_piece_is_not_copied():
    piece = bytearray(b"abcdef")
    [[(_, whole)], [(_, across)]] = cut([piece, b"gh"], [1, 4], [3, 7])
    piece[1:6] = b"?????"
    assert bytes(whole) == b"??"
    assert bytes(across) == b"efg"
