"""How long files of audio and video say that they are: of real files, of unfinished ones, and of nonsense."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.sources.media_files import container_of, declared_bytes
from tests.optional import Optional

av = Optional("av")


def recorded(name, container):
    with av.open(str(name), "w", format={"matroska": "matroska", "mov": "mp4"}.get(container, container)) as file:
        if container in ("wav", "flac"):
            stream = file.add_stream("flac" if container == "flac" else "pcm_s16le", rate=8000, layout="mono")
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), "i2"), "s16", "mono")
            frame.sample_rate = 8000
        else:
            stream = file.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            frame = av.VideoFrame(64, 48, "yuv420p")
        for packet in [*stream.encode(frame), *stream.encode()]:
            file.mux(packet)
    return name.read_bytes()


@pytest.mark.parametrize("container", ["wav", "avi", "matroska", "mov"])
def test_a_whole_file_is_as_long_as_it_says(tmp_path, container):
    data = recorded(tmp_path / "x", container)
    assert container_of(io.BytesIO(data), "x.wav") == container
    assert declared_bytes(io.BytesIO(data), container) == len(data)
    assert declared_bytes(io.BytesIO(data[:-1]), container) == len(data)


def test_flac_says_no_length_in_bytes(tmp_path):
    data = recorded(tmp_path / "x", "flac")
    assert container_of(io.BytesIO(data), "x") == "flac"
    assert declared_bytes(io.BytesIO(data), "flac") is None


@pytest.mark.parametrize(
    ("data", "container"),
    [
        (b"RIFF\xff\xff\xff\xffWAVE", "wav"),
        (b"RIFF\0\0\0\0AVI ", "avi"),
        (b"\x1aE\xdf\xa3\x80\x18S\x80g\x01\xff\xff\xff\xff\xff\xff\xff", "matroska"),
    ],
)
def test_a_recording_that_was_not_finished_says_none(data, container):
    assert container_of(io.BytesIO(data), "x") == container
    assert declared_bytes(io.BytesIO(data), container) is None


def test_a_last_box_may_go_to_the_end():
    data = b"\0\0\0\x10ftypisom" + bytes(4) + b"\0\0\0\0mdat" + bytes(90)
    assert declared_bytes(io.BytesIO(data), "mov") == len(data)


@given(st.binary(max_size=60), st.sampled_from(["wav", "avi", "matroska", "mov", "ogg"]))
def test_nonsense_is_a_number_or_none(data, container):
    result = declared_bytes(io.BytesIO(data), container)
    assert result is None or result >= 0
    assert container_of(io.BytesIO(data), "x") in (None, "wav", "avi", "matroska", "mov", "ogg", "flac", "mp3")
