"""Encoded images as chunks: what comes back, what is refused, and that others read them."""

import asyncio
import contextlib
import pickle
import tracemalloc
from dataclasses import dataclass, field

import google_crc32c
import imagecodecs
import imagecodecs.numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import register_codec

import hubarray as hub
from hubarray.arrays.codecs.codec_chains import chain_of
from hubarray.arrays.codecs.codecs import codec_for
from hubarray.arrays.codecs.dtypes import dtype_to_json
from hubarray.arrays.codecs.image_codecs import IMAGE_CODECS
from hubarray.errors import ConfigError, CorruptDataError

LOSSLESS = ["png", "webp", "jpegxl"]
KINDS = [
    (name, dtype, channels)
    for name, item in IMAGE_CODECS.items()
    for dtype in item.dtypes
    for channels in (*([None, 1] if item.grey else []), *item.channels)
]


def made(codec, dtype, chunks):
    dtype = np.dtype(dtype)
    return codec_for(chain_of(codec, dtype, chunks), dtype_to_json(dtype), dtype, chunks)


def noise(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def smooth(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([y * 2, x * 2, (x + y)], -1).astype("u1")


@pytest.mark.parametrize(("name", "dtype", "channels"), [item for item in KINDS if item[0] in LOSSLESS])
@settings(max_examples=20)
@given(data=st.data())
def test_images_without_loss_come_back_bit_for_bit(name, dtype, channels, data):
    sides = data.draw(st.tuples(st.integers(2 if channels else 1, 40), st.integers(2 if channels else 1, 40)))
    shape = (*data.draw(st.sampled_from([(), (1,), (1, 1)])), *sides, *([] if channels is None else [channels]))
    chunk = noise(shape, dtype, data.draw(st.integers(0, 9))) * data.draw(st.sampled_from([0, 1]))
    chunk = np.ascontiguousarray(chunk, dtype)
    codec, out = made(name, dtype, shape), np.empty(shape, dtype)
    codec.decode(codec.encode(chunk), out)
    np.testing.assert_array_equal(out, chunk)


@pytest.mark.parametrize("codec", ["jpeg", *({"name": name, "quality": 80} for name in ("jpeg", "webp", "jpegxl"))])
def test_images_with_a_quality_come_back_alike_and_smaller_and_say_so(root, codec):
    array = hub.array((3, 64, 96, 3), "lab/photos:v1", "u1", codec=codec, root=root)
    image = smooth(64, 96)
    array[1] = image
    assert np.abs(array[1].astype(int) - image).mean() < 4
    assert (array[0] == 0).all()
    assert "(lossy)" in array._repr_html_()
    assert "(lossy)" not in hub.array((3, 64, 96, 3), "lab/exact:v1", "u1", codec="webp", root=root)._repr_html_()


@pytest.mark.parametrize("name", LOSSLESS)
def test_arrays_of_images_are_arrays(root, name):
    values = noise((5, 20, 30, 3), "u1")
    array = hub.array((0, 20, 30, 3), "lab/photos:v1", "u1", codec=name, root=root)
    array.append(values[:3])
    array.append(values[3:])
    array[2, 4:9, ::2] = 7
    values[2, 4:9, ::2] = 7
    again = hub.load("lab/photos:v1", root=root)
    np.testing.assert_array_equal(again[...], values)
    np.testing.assert_array_equal(again[::-2, 3, :, 1], values[::-2, 3, :, 1])
    assert (
        again.codec == hub.array(1, "lab/other:v1", "u1", 1, codec=again.codec, root=root).codec if name == "png" else 1
    )


@pytest.mark.parametrize(
    ("codec", "shape", "chunks"),
    [
        ("png", (100, 48, 64, 3), (1, 48, 64, 3)),
        ("png", (100, 48, 64), (1, 48, 64)),
        ("jpeg", (2, 3, 48, 64), (1, 1, 48, 64)),
        ("png", (0, 48, 64, 1), (1, 48, 64, 1)),
        ("jpegxl", (48, 64), (48, 64)),
        ("png", (7,), (7,)),
        ("webp", (3, 20_000, 40, 3), (1, 1024, 40, 3)),
        ("jpeg", (3, 30_000, 30_000), (1, 1024, 1024)),
    ],
)
def test_a_chunk_is_an_image_unless_that_is_huge(codec, shape, chunks):
    assert hub.ArraySpec(shape, "uint8", codec=codec).metadata().chunks == chunks


@pytest.mark.parametrize(
    ("codec", "dtype", "chunks"),
    [
        ("png", "float32", (1, 8, 8)),
        ("jpeg", "uint16", (1, 8, 8)),
        ("webp", "uint8", (1, 8, 8)),
        ("webp", "uint8", (1, 8, 8, 4)),
        ("jpeg", "uint8", (1, 8, 8, 4)),
        ("png", "uint8", (2, 8, 8, 3)),
        ("png", "uint8", (4, 8, 8)),
        ("webp", "uint8", (1, 16_384, 2, 3)),
        ("jpeg", "uint8", (65_501, 2)),
        ({"name": "png", "quality": 3}, "uint8", (8, 8)),
        ({"name": "jpeg", "quality": 0}, "uint8", (8, 8)),
        ({"name": "jpeg", "quality": True}, "uint8", (8, 8)),
        ({"name": "jpeg", "level": 3}, "uint8", (8, 8)),
        ({"name": "zstd"}, "uint8", (8, 8)),
        ([{"name": "imagecodecs_png"}, {"name": "crc32c"}], "uint8", (8, 8)),
        ([{"name": "imagecodecs_png", "configuration": {"level": 99}}], "uint8", (8, 8)),
        ([{"name": "imagecodecs_jpeg", "configuration": {"tables": "AAAA"}}], "uint8", (8, 8)),
        ([{"name": "sharding_indexed", "configuration": {"chunk_shape": [4, 4], "codecs": [{"name": "imagecodecs_png"}],
           "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}], "uint8", (8, 8)),
    ],
)  # fmt: skip
def test_what_is_no_image_or_no_codec_of_one_is_refused(codec, dtype, chunks):
    with pytest.raises(ConfigError):
        chain_of(codec, np.dtype(dtype), chunks)


@pytest.mark.parametrize("name", IMAGE_CODECS)
def test_an_image_of_another_size_kind_or_depth_is_refused_before_room_is_made_for_it(name):
    codec, shape = made(name, "u1", (20, 30, 3)), (20, 30, 3)
    huge = getattr(imagecodecs, f"{IMAGE_CODECS[name].functions}_encode")(np.zeros((900, 900, 3), "u1"))
    right = bytes(codec.encode(noise(shape, "u1")))
    deep = imagecodecs.png_encode(noise(shape, "u2"))
    grey = imagecodecs.png_encode(noise((20, 30), "u1"))
    for wrong in (huge, deep, grey, b"", b"\x00", right[:20], right[: len(right) // 2], b"\xff" * 400):
        out = np.empty(shape, "u1")
        tracemalloc.start()
        try:
            with pytest.raises(CorruptDataError):
                codec.decode(wrong, out)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("name", IMAGE_CODECS)
@settings(max_examples=20)
@given(data=st.data())
def test_flipped_bits_never_break_more_than_their_chunk(name, data):
    codec, around = made(name, "u1", (20, 30, 3)), np.full((22, 30, 3), 7, "u1")
    out = around[1:-1]
    blob = bytearray(codec.encode(smooth(20, 30)))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(CorruptDataError):
        codec.decode(bytes(blob), out)
    assert (around[[0, -1]] == 7).all()


@dataclass(frozen=True)
class Numcodecs(ArrayBytesCodec):
    """A codec of imagecodecs for numcodecs, as imagecodecs-zarr, which needs Python 3.12, wraps it for Zarr v3."""

    configuration: dict = field(default_factory=dict)
    name = ""
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data):
        return cls(data.get("configuration", {}))

    def to_dict(self):
        return {"name": self.name, "configuration": self.configuration}

    async def _decode_single(self, data, spec):
        named = {"imagecodecs_png": "Png", "imagecodecs_jpeg": "Jpeg", "imagecodecs_webp": "Webp"}
        kind = getattr(imagecodecs.numcodecs, named.get(self.name, "Jpegxl"))
        image = await asyncio.to_thread(kind(**self.configuration).decode, data.to_bytes())
        return spec.prototype.nd_buffer.from_numpy_array(image.reshape(spec.shape))

    def compute_encoded_size(self, length, spec):
        raise NotImplementedError


# Zarr has no function that removes a codec. The underscores are fewer since Zarr 3.4.
CODEC_REGISTRIES = next(
    registry for name, registry in vars(zarr.registry).items() if name.strip("_") == "codec_registries"
)


@pytest.fixture
def zarr_codecs():
    """Zarr decodes as others do, whether or not it has our codecs too."""
    chosen = {}
    for item in IMAGE_CODECS.values():
        made = type(item.stored_name, (Numcodecs,), {"name": item.stored_name})
        register_codec(item.stored_name, made, qualname=f"others.{item.stored_name}")
        chosen[item.stored_name] = f"others.{item.stored_name}"
    with zarr.config.set({"codecs": {**zarr.config.get("codecs", {}), **chosen}}):
        yield
    for name, qualname in chosen.items():
        del CODEC_REGISTRIES[name][qualname]


@pytest.mark.usefixtures("zarr_codecs")
@pytest.mark.parametrize("sharded", [False, True])
def test_images_of_an_imported_zarr_are_bounded_whoever_elses_codec_it_would_have(root, tmp_path, sharded):
    values = smooth(16, 16)
    name = IMAGE_CODECS["png"].stored_name
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=(16, 16, 3), chunks=(16, 16, 3), shards=(16, 16, 3) if sharded else None,
        dtype="u1", compressors=None, serializer=zarr.registry.get_codec_class(name)(configuration={"level": None}),
    )  # fmt: skip
    chunk = tmp_path / "x.zarr" / "c" / "0" / "0" / "0"
    chunk.parent.mkdir(parents=True)

    def written(image):
        # An index of one part, and its checksum.
        index = np.array([0, len(image)], "<u8").tobytes()
        chunk.write_bytes(image + (index + google_crc32c.value(index).to_bytes(4, "little") if sharded else b""))

    written(imagecodecs.png_encode(values))
    for source in (tmp_path / "x.zarr", array):
        assert np.array_equal(hub.import_(source, f"t/x:{type(source).__name__}", root=root)[...], values)
    written(imagecodecs.png_encode(np.zeros((4000, 4000, 3), "u1")))
    for source in (tmp_path / "x.zarr", array):
        with pytest.raises(hub.errors.SourceError, match=r"does not decode to an image of \(16, 16, 3\)"):
            hub.import_(source, "t/y:v0", root=root)


@pytest.mark.usefixtures("zarr_codecs")
@pytest.mark.parametrize("codec", [*IMAGE_CODECS, *({"name": name, "quality": 70} for name in ("webp", "jpegxl"))])
def test_zarr_python_with_imagecodecs_reads_an_export(root, tmp_path, codec):
    array = hub.array((3, 20, 30, 3), "lab/photos:v1", "u1", codec=codec, root=root)
    array[:2] = np.stack([smooth(20, 30), smooth(20, 30)[::-1]])
    hub.export("lab/photos:v1", tmp_path / "x.zarr", root=root)
    there = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
    np.testing.assert_array_equal(there[...], array[...])
    name = codec if isinstance(codec, str) else codec["name"]
    decode = getattr(imagecodecs, f"{IMAGE_CODECS[name].functions}_decode")
    image = (tmp_path / "x.zarr" / "c" / "0" / "0" / "0" / "0").read_bytes()
    np.testing.assert_array_equal(decode(image), array[0])


@pytest.mark.parametrize(("shape", "chunks"), [((), ()), ((1797, 8, 8), (1, 8, 8))])
def test_small_images_and_single_pixels_are_images(shape, chunks):
    assert hub.ArraySpec(shape, "uint8", codec="png").metadata().chunks == chunks
    with pytest.raises(ConfigError, match="uint8 or uint16"):
        hub.ArraySpec(shape, "float32", codec="png").metadata()


@pytest.mark.parametrize("codec", ["png", {"name": "jpeg", "quality": 95}, "webp", "jpegxl"], ids=str)
def test_an_export_comes_back_and_zarr_reads_and_writes_the_store_without_another_package(root, tmp_path, codec):
    images = np.stack([smooth(32, 48), smooth(32, 48)[::-1]])
    array = hub.array(images.shape, "lab/images:v1", "u1", codec=codec, root=root)
    array[:] = images
    target = str(tmp_path / "images.zarr")
    hub.export("lab/images:v1", target, root=root)
    back = hub.import_(target, "lab/back:v1", root=root)
    np.testing.assert_array_equal(back[...], array[...])
    opened = zarr.open_array(array.to_zarr_store(), mode="r+")
    np.testing.assert_array_equal(opened[...], array[...])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], array[...])
    opened[1] = images[0]
    # Encoded twice, what loses something has lost a little more.
    assert np.abs(array.refresh()[1].astype(int) - array[0]).max() <= (0 if isinstance(codec, str) else 8)
    ds = hub.dataset({"image": array}, "lab/ds:v1", root=root)
    np.testing.assert_array_equal(zarr.open_group(ds.to_zarr_store(), mode="r")["image"][...], array[...])
    # A chunk that is no image is an error, and no zeros.
    path = next(item for item in (tmp_path / "images.zarr").rglob("*") if item.is_file() and item.name != "zarr.json")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(hub.HubError):
        hub.import_(target, "lab/broken:v1", root=root)
