"""The header of a compressed tile says how much a decoder makes of it, and what hides that is refused."""

import contextlib
import struct

import imagecodecs
import numpy as np
import pytest

from hubarray.interop.sources.tile_sizes import declared_samples, needs_whole_tile

ENCODERS = {
    7: imagecodecs.jpeg_encode,
    34712: imagecodecs.jpeg2k_encode,
    34887: imagecodecs.lerc_encode,
    34933: imagecodecs.png_encode,
    34934: imagecodecs.jpegxr_encode,
    50001: imagecodecs.webp_encode,
    50002: imagecodecs.jpegxl_encode,
}


@pytest.mark.parametrize("compression", ENCODERS)
@pytest.mark.parametrize("shape", [(300, 200, 3), (256, 128, 3), (200, 200, 3), (1, 40, 3), (33, 7)])
def test_the_declared_samples_are_those_that_are_there(compression, shape):
    if compression == 50001 and len(shape) == 2:
        shape = (*shape, 3)
    values = np.random.default_rng(0).integers(0, 255, shape, "u1")
    data = bytes(ENCODERS[compression](values))
    header = data if needs_whole_tile(compression) else data[:4096]
    assert declared_samples(compression, header, shape[2] if len(shape) == 3 else 1) == values.size


@pytest.mark.parametrize("compression", ENCODERS)
def test_a_damaged_header_is_a_value_error_or_a_number(compression):
    rng = np.random.default_rng(compression)
    data = bytearray(ENCODERS[compression](np.zeros((30, 20, 3), "u1")))
    for _ in range(300):
        damaged = data.copy()
        for at in rng.integers(0, min(len(data), 200), 3):
            damaged[at] ^= 1 << rng.integers(8)
        damaged = bytes(damaged[: rng.integers(1, len(data) + 1)])
        with contextlib.suppress(ValueError):
            assert declared_samples(compression, damaged, 3) >= 0


def test_a_jpeg_that_hides_its_frame_is_refused():
    jpeg = bytes(imagecodecs.jpeg_encode(np.zeros((16, 16), "u1")))
    frame = b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 40_000, 40_000) + b"\x01\x01\x11\x00"
    hidden = jpeg[:2] + b"\xff\x00" + struct.pack(">H", 2 + len(frame)) + frame + jpeg[2:]
    with pytest.raises(ValueError, match="no frame header"):
        declared_samples(7, hidden, 1)
    with pytest.raises(ValueError, match="no frame header"):
        declared_samples(7, jpeg[:2] + b"\xff" * 20_000 + jpeg[2:], 1)


def test_a_size_in_another_box_of_jpeg_2000_is_not_believed():
    image = bytes(imagecodecs.jpeg2k_encode(np.zeros((64, 64), "u1"), codecformat="jp2"))
    small = bytes(imagecodecs.jpeg2k_encode(np.zeros((2, 2), "u1"), codecformat="j2k"))
    box = struct.pack(">I4s", 8 + len(small), b"xml ") + small
    assert declared_samples(34712, image[:12] + box + image[12:], 1) == 64 * 64


def test_precincts_that_cost_more_than_their_samples_are_refused():
    image = bytearray(imagecodecs.jpeg2k_encode(np.zeros((64, 64), "u1"), codecformat="j2k", resolutions=1))
    at = image.index(b"\xff\x52")
    (length,) = struct.unpack_from(">H", image, at + 2)
    image[at + 4] |= 1
    image[at + 2 : at + 4] = struct.pack(">H", length + 1)
    image.insert(at + 2 + length, 0x00)
    with pytest.raises(ValueError, match="precincts of less than 16"):
        declared_samples(34712, bytes(image), 1)


def test_every_band_of_lerc_counts():
    band = bytes(imagecodecs.lerc_encode(np.zeros((50, 40), "f4")))
    assert declared_samples(34887, band * 30, 1) == 30 * 50 * 40


def test_a_size_in_another_box_of_jpeg_xl_is_not_believed():
    image = bytes(imagecodecs.jpegxl_encode(np.zeros((64, 48, 3), "u1"), usecontainer=True))
    small = bytes(imagecodecs.jpegxl_encode(np.zeros((2, 2, 3), "u1"), usecontainer=False))
    box = struct.pack(">I4s", 8 + len(small), b"xml ") + small
    assert declared_samples(50002, image, 3) == 64 * 48 * 3
    assert declared_samples(50002, image[:12] + box + image[12:], 3) == 64 * 48 * 3


def test_a_jpeg_xl_that_moves_is_refused():
    frames = np.zeros((4, 32, 32, 3), "u1")
    with pytest.raises(ValueError, match="moves"):
        declared_samples(50002, bytes(imagecodecs.jpegxl_encode(frames)), 3)
