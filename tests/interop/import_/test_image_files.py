"""Image files keep every bit, and mean the same alone, in a folder, in a glob and in a table."""

import struct
import zlib

import numpy as np
import pytest
import tifffile
from imagecodecs import jpeg_encode, png_encode
from PIL import Image

import hubarray as hub
from hubarray.interop.import_ import arrays as importing
from hubarray.interop.sources import tiff

RNG = np.random.default_rng(3)
PALETTE = [0, 0, 0, 200, 10, 30, 0, 128, 255]


def number(dtype, shape=(6, 5)):
    """Values of a dtype up to its ends."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return RNG.normal(size=shape).astype(dtype)
    about = np.iinfo(dtype)
    values = RNG.integers(about.min, about.max, shape, dtype, endpoint=True)
    values.flat[:2] = about.min, about.max
    return values


def every_way(path, root):
    """The pixels of an image that is imported alone, with its folder, and by a pattern."""
    (path.parent / "notes.txt").write_text("not an image")
    ways = {"alone": path, "folder": path.parent, "glob": path.parent / f"*{path.suffix}"}
    result = {}
    for way, source in ways.items():
        array = hub.import_(source, f"t/{way}:v1", root=root)
        assert len(array) == 1
        result[way] = array[0]
    return result


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3), (6, 5, 13)])
def test_pixels_of_a_tiff_are_what_tifffile_reads(root, tmp_path, dtype, shape):
    values = number(dtype, shape)
    tifffile.imwrite(
        tmp_path / "a.tif", values, photometric="minisblack", planarconfig="contig" if len(shape) > 2 else None
    )
    for way, result in every_way(tmp_path / "a.tif", root).items():
        assert result.dtype == values.dtype, way
        np.testing.assert_array_equal(result, tifffile.imread(tmp_path / "a.tif"), err_msg=way)


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("channels", [(), (3,), (4,)])
def test_a_png_keeps_its_depth(root, tmp_path, dtype, channels):
    values = number(dtype, (6, 5, *channels))
    (tmp_path / "a.png").write_bytes(png_encode(values))
    for way, result in every_way(tmp_path / "a.png", root).items():
        assert result.dtype == values.dtype, way
        np.testing.assert_array_equal(result, values, err_msg=way)
    table = hub.import_table(tmp_path, "t/table:v1", root=root)
    np.testing.assert_array_equal(table[0]["image"], values)


def mask(path, ids, palette=PALETTE, **options):
    image = Image.fromarray(ids)
    image.putpalette(palette)
    image.save(path, **options)


def test_a_mask_with_a_palette_stays_class_numbers_and_keeps_its_colours(root, tmp_path):
    ids = np.arange(30, dtype="u1").reshape(6, 5) % 3
    mask(tmp_path / "a.png", ids)
    for way, result in every_way(tmp_path / "a.png", root).items():
        np.testing.assert_array_equal(result, ids, err_msg=way)
    assert hub.load("t/folder:v1", root=root).attrs["colormap"][1] == [200, 10, 30]
    np.testing.assert_array_equal(hub.import_table(tmp_path, "t/table:v1", root=root)[0]["image"], ids)


def test_masks_that_share_the_beginning_of_a_palette_stay_class_numbers(root, tmp_path):
    ids = np.arange(30, dtype="u1").reshape(6, 5) % 2
    mask(tmp_path / "a.png", ids, PALETTE[:6])
    mask(tmp_path / "b.png", ids + 1)
    Image.fromarray(ids).save(tmp_path / "c.png")
    result = hub.import_(tmp_path, "t/a:v1", root=root)
    np.testing.assert_array_equal(result[...], [ids, ids + 1, ids])
    assert len(result.attrs["colormap"]) >= 3


def test_photographs_of_few_colours_become_their_colours(root, tmp_path):
    ids = np.arange(30, dtype="u1").reshape(6, 5) % 3
    mask(tmp_path / "a.png", ids)
    mask(tmp_path / "b.png", ids, PALETTE[::-1])
    result = hub.import_(tmp_path, "t/a:v1", root=root)
    np.testing.assert_array_equal(result[0], np.reshape(PALETTE, (3, 3))[ids])
    table = hub.import_table(tmp_path, "t/table:v1", root=root)
    np.testing.assert_array_equal(table[0]["image"][..., :3], np.reshape(PALETTE, (3, 3))[ids])


def test_inks_become_rgb(root, tmp_path):
    colours = np.full((16, 16, 3), (20, 180, 60), "u1")
    Image.fromarray(colours).convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    for way, result in every_way(tmp_path / "a.jpg", root).items():
        assert np.abs(result.astype(int) - colours).max() < 6, way


def test_inks_of_a_tiff_become_rgb(root, tmp_path):
    inks = np.asarray(Image.fromarray(RNG.integers(0, 255, (6, 5, 3), "u1")).convert("CMYK"))
    tifffile.imwrite(tmp_path / "a.tif", inks, photometric="separated")
    for way, result in every_way(tmp_path / "a.tif", root).items():
        np.testing.assert_array_equal(result, Image.fromarray(inks, "CMYK").convert("RGB"), err_msg=way)


@pytest.mark.parametrize("dtype", ["bool", "u1", "u2"])
def test_white_is_more_than_black_though_a_file_counts_the_other_way(root, tmp_path, dtype):
    values = number("u1") > 99 if dtype == "bool" else number(dtype)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
    expected = ~values if dtype == "bool" else np.iinfo(dtype).max - values
    for way, result in every_way(tmp_path / "a.tif", root).items():
        np.testing.assert_array_equal(result, expected, err_msg=way)


def test_a_jpeg_with_a_preview_beside_it_is_one_image(root, tmp_path):
    values = RNG.integers(0, 255, (16, 24, 3), "u1")
    Image.fromarray(values).save(
        tmp_path / "a.jpg", "MPO", save_all=True, append_images=[Image.fromarray(values[::2, ::2])]
    )
    for way, result in every_way(tmp_path / "a.jpg", root).items():
        assert result.shape == values.shape, way


def upright(path, orientation, values):
    image = Image.fromarray(values)
    exif = image.getexif()
    exif[0x0112] = orientation
    image.save(path, exif=exif)


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_images_are_turned_if_that_is_wanted(root, tmp_path, orientation, suffix):
    values = RNG.integers(0, 255, (4, 6, 3), "u1")
    path = tmp_path / f"a{suffix}"
    if suffix == ".png":
        upright(path, orientation, values)
    else:
        tifffile.imwrite(path, values, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    turned = {2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
              5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
              8: Image.Transpose.ROTATE_90}[orientation]  # fmt: skip
    expected = np.asarray(Image.fromarray(values).transpose(turned))
    for name, source in {"t/a:v1": path, "t/b:v1": tmp_path}.items():
        np.testing.assert_array_equal(hub.import_(source, name, orientation="apply", root=root)[0], expected)


def test_images_are_stored_as_they_lie_and_that_is_said(root, tmp_path):
    values = RNG.integers(0, 255, (4, 6, 3), "u1")
    upright(tmp_path / "a.png", 6, values)
    with pytest.warns(UserWarning, match=r"1 of 1 images lie on a side.*orientation=\"apply\""):
        result = hub.import_(tmp_path, "t/a:v1", root=root)
    np.testing.assert_array_equal(result[0], values)
    with pytest.raises(hub.errors.ConfigError, match="'keep' or 'apply'"):
        hub.import_(tmp_path, "t/b:v1", orientation="turn", root=root)


def test_overviews_and_masks_are_no_images_of_their_own(root, tmp_path):
    values = number("u2", (64, 64))
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(values, tile=(16, 16), photometric="minisblack")
        file.write(values[::2, ::2], tile=(16, 16), subfiletype=1, photometric="minisblack")
        file.write(values > 7, tile=(16, 16), subfiletype=4, photometric="minisblack")
        file.write(values[::2, ::2] > 7, tile=(16, 16), subfiletype=5, photometric="minisblack")
    for way, result in every_way(tmp_path / "a.tif", root).items():
        np.testing.assert_array_equal(result, values, err_msg=way)


LAYOUTS = {
    "tiles": {"tile": (32, 16)},
    "compressed tiles": {"tile": (32, 16), "compression": "zlib", "predictor": True},
    "strips": {"rowsperstrip": 7, "compression": "zlib"},
    "one strip": {"rowsperstrip": 1000},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "planar"), [((70, 50), None), ((70, 50, 3), "contig"), ((3, 70, 50), "separate")])
def test_a_page_of_any_size_is_read_in_pieces(root, tmp_path, monkeypatch, layout, shape, planar):
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 1500)
    monkeypatch.setattr(tiff, "MAX_ROW_BYTES", 4000)
    values = number("u2", shape)
    photometric = "minisblack" if planar is None else "rgb"
    tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric, planarconfig=planar, **LAYOUTS[layout])
    result = hub.import_(tmp_path / "a.tif", "t/a:v1", chunks=(1, *(20,) * len(shape)), root=root)
    np.testing.assert_array_equal(result[0], values)


def test_tiles_that_are_not_stored_have_no_data(root, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 1500)
    tiles = [None if i % 2 else number("u1", (16, 16)) for i in range(16)]
    tifffile.imwrite(
        tmp_path / "a.tif", iter(tiles), shape=(64, 64), dtype="u1", tile=(16, 16), photometric="minisblack",
        extratags=[(42113, "s", 0, "7", True)],
    )  # fmt: skip
    expected = tifffile.imread(tmp_path / "a.tif")
    assert (expected == 7).any()
    result = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)
    np.testing.assert_array_equal(result[0], expected)
    assert result.attrs["_FillValue"] == 7


def gdal(path, items, dtype="u2", bands=2, nodata=None):
    metadata = f"<GDALMetadata>{items}</GDALMetadata>"
    tags = [(42112, "s", 0, metadata, True)] + ([(42113, "s", 0, nodata, True)] if nodata else [])
    tifffile.imwrite(
        path, number(dtype, (4, 5, bands)), photometric="minisblack", planarconfig="contig", extratags=tags
    )


def test_what_gdal_says_of_bands_becomes_attributes(root, tmp_path):
    def item(name, band, text, role=""):
        return f'<Item name="{name}" sample="{band}" role="{role}">{text}</Item>'

    items = [item("SCALE", i, 0.5, "scale") for i in range(2)]
    items += [item("OFFSET", i, i + 1, "offset") for i in range(2)]
    items += [item("DESCRIPTION", i, name, "description") for i, name in enumerate(["red", "nir"])]
    items += ['<Item name="SENSOR">S2 &amp; more</Item>', item("GAIN", 1, "high")]
    gdal(tmp_path / "a.tif", "".join(items), nodata="65535")
    attrs = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root).attrs
    assert attrs["scales"] == [0.5, 0.5]
    assert attrs["offsets"] == [1.0, 2.0]
    assert attrs["long_name"] == ["red", "nir"]
    assert attrs["_FillValue"] == 65535
    assert attrs["gdal"] == {"SENSOR": "S2 & more", "GAIN": [None, "high"]}


@pytest.mark.parametrize(
    "items",
    [
        "<Item", '<!DOCTYPE x [<!ENTITY a "b">]><Item name="a">&a;</Item>', "<a>" * 100_000,
        '<Item name="SCALE" sample="0" role="scale">much</Item>', '<Item name="SCALE" sample="99999" role="scale">2</Item>',
    ],
)  # fmt: skip
def test_metadata_of_gdal_that_is_none_stops_no_import(root, tmp_path, items):
    gdal(tmp_path / "a.tif", items)
    result = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)
    assert "scale_factor" not in result.attrs
    assert result.shape == (1, 4, 5, 2)


def test_colours_of_a_tiff_with_a_palette_become_an_attribute(root, tmp_path):
    colours = np.zeros((3, 256), "u2")
    colours[:, 1] = 257 * 200, 0, 257 * 7
    ids = np.arange(30, dtype="u1").reshape(6, 5) % 2
    tifffile.imwrite(tmp_path / "a.tif", ids, photometric="palette", colormap=colours)
    for way, result in every_way(tmp_path / "a.tif", root).items():
        np.testing.assert_array_equal(result, ids, err_msg=way)
        assert hub.load(f"t/{way}:v1", root=root).attrs["colormap"][1] == [200, 0, 7]


def photo(path):
    path.write_bytes(jpeg_encode(RNG.integers(0, 255, (24, 24, 3), "u1")))


def test_a_png_among_jpegs_makes_all_png_so_that_nothing_is_lost(root, tmp_path, capsys):
    classes = (RNG.integers(0, 4, (24, 24)) * 60).astype("u1")
    for name in ("a", "b"):
        photo(tmp_path / f"{name}.jpg")
    Image.fromarray(classes).save(tmp_path / "mask.png")
    table = hub.import_table(tmp_path, "t/a:v1", root=root)
    assert "2 of 3 images are JPEG, and are stored as PNG" in capsys.readouterr().err
    rows = {row["path"]: row["image"] for row in table}
    np.testing.assert_array_equal(rows["mask.png"], np.stack([classes] * 3, axis=-1))
    np.testing.assert_array_equal(rows["a.jpg"], Image.open(tmp_path / "a.jpg"))


def test_transparency_is_kept_in_a_table_or_refused(root, tmp_path):
    values = number("u1", (6, 5, 4))
    (tmp_path / "a.png").write_bytes(png_encode(values))
    (tmp_path / "b.png").write_bytes(png_encode(np.ascontiguousarray(values[..., :3])))
    table = hub.import_table(tmp_path, "t/a:v1", root=root)
    np.testing.assert_array_equal(table[0]["image"], values)
    np.testing.assert_array_equal(table[1]["image"], np.dstack([values[..., :3], np.full((6, 5), 255, "u1")]))
    schema = {"image": hub.Field("u1", (None, None, 3), codec="png")}
    with pytest.raises(hub.errors.SourceError, match=r"a\.png: is transparent in places; give schema= with 4 channels"):
        hub.import_table(tmp_path, "t/b:v1", schema, root=root)


def test_images_of_8_and_of_16_bits_are_not_mixed_in_a_table(root, tmp_path):
    for name, dtype in (("a", "u1"), ("b", "u2")):
        (tmp_path / f"{name}.png").write_bytes(png_encode(number(dtype, (6, 5, 3))))
    with pytest.raises(hub.errors.SourceError, match=r"b\.png has more than 8 bits, and .*a\.png has 8"):
        hub.import_table(tmp_path, "t/a:v1", root=root)


def damaged(data, rng, count):
    """Copies of a file in which a bit is wrong, or which is cut short."""
    for i in range(count):
        copy = bytearray(data)
        if i % 3 == 2:
            yield bytes(copy[: rng.integers(1, len(copy))])
            continue
        # Headers more than pixels.
        place = int(rng.integers(0, len(copy) if i % 3 else min(len(copy), 400)))
        copy[place] ^= 1 << int(rng.integers(8))
        yield bytes(copy)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["png", "tif", "tiles.tif", "jpg", "palette.png"])
def test_damaged_images_are_refused_or_read_and_leave_nothing_behind(root, tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "palette.png":
        mask(path, number("u1") % 3)
    elif kind == "jpg":
        photo(path)
    elif kind == "png":
        path.write_bytes(png_encode(number("u2", (6, 5, 3))))
    else:
        tifffile.imwrite(
            path, number("u2", (40, 40)), **({"tile": (16, 16), "compression": "zlib"} if "tiles" in kind else {})
        )
    for i, data in enumerate(damaged(path.read_bytes(), np.random.default_rng(1), 60)):
        path.write_bytes(data)
        for way, source in (("alone", path), ("folder", tmp_path)):
            try:
                hub.import_(source, f"t/{way}{i}:v1", root=root)
            except hub.HubError:
                assert not hub.exists(f"t/{way}{i}:v1", root=root)


def test_a_tiff_that_says_a_palette_for_more_than_bytes_is_read_or_refused(root, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", number("u1"), photometric="palette", colormap=np.zeros((3, 256), "u2"))
    data = bytearray((tmp_path / "a.tif").read_bytes())
    at = data.index(struct.pack("<HHI", 320, 3, 768))
    data[at + 4 : at + 8] = struct.pack("<I", 3)
    (tmp_path / "a.tif").write_bytes(data)
    try:
        assert hub.import_(tmp_path / "a.tif", "t/a:v1", root=root).shape == (1, 6, 5)
    except hub.errors.SourceError:
        assert hub.list(root=root) == []


@pytest.mark.parametrize("name", ["w[1].png", "star*.png", "run[1]/a.png", "what?.png"])
def test_a_file_that_is_named_is_that_file_though_its_name_could_be_a_pattern(root, tmp_path, name):
    for item, value in ((name, 1), ("w1.png", 7), ("star_private.png", 7), ("run1/a.png", 7), ("whatx.png", 7)):
        (tmp_path / item).parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((2, 2), value, "u1")).save(tmp_path / item)
    assert hub.import_(tmp_path / name, "t/a:v1", root=root)[...].tolist() == [[[1, 1], [1, 1]]]


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_a_colour_that_is_transparent_becomes_alpha(root, tmp_path, dtype, channels):
    values = number(dtype, (4, 5, *channels))
    clear = values[0, 0]
    plain = png_encode(values)
    told = np.atleast_1d(clear).astype(">u2").tobytes()
    chunk = struct.pack(">I", len(told)) + b"tRNS" + told + struct.pack(">I", zlib.crc32(b"tRNS" + told))
    at = plain.index(b"IDAT") - 4
    (tmp_path / "a.png").write_bytes(plain[:at] + chunk + plain[at:])
    is_clear = (values == clear).reshape(4, 5, -1).all(axis=2)
    expected = np.dstack([values, np.where(is_clear, 0, np.iinfo(dtype).max).astype(dtype)])
    for way, result in every_way(tmp_path / "a.png", root).items():
        np.testing.assert_array_equal(result, expected, err_msg=way)
    np.testing.assert_array_equal(hub.import_table(tmp_path, "t/table:v1", root=root)[0]["image"], expected)


@pytest.mark.parametrize("header", [b"P6 4 4 65535\n", b"P5\n# a note\n4 4\n1023\n", b"P5 4 4 15\n"])
def test_netpbm_whose_numbers_would_be_scaled_is_refused(root, tmp_path, header):
    (tmp_path / "a.ppm").write_bytes(header + bytes(96))
    with pytest.raises(hub.errors.SourceError, match="its largest number is not 255"):
        hub.import_(tmp_path / "a.ppm", "t/a:v1", root=root)
    values = number("u2", (4, 4))
    (tmp_path / "c.pgm").write_bytes(b"P5 4 4 65535\n" + values.astype(">u2").tobytes())
    np.testing.assert_array_equal(hub.import_(tmp_path / "c.pgm", "t/c:v1", root=root)[0], values)
    Image.fromarray(number("u1", (4, 4))).save(tmp_path / "b.pgm")
    assert hub.import_(tmp_path / "b.pgm", "t/b:v1", root=root).dtype == "u1"


def pages(path, *, tags=None, **options):
    values = number("u1", (3, 3))
    with tifffile.TiffWriter(path) as file:
        for i in range(2):
            own = {name: some[i] for name, some in options.items()}
            file.write(values, metadata=None, extratags=[tags[i]] if tags else [], **own)
    return values


def test_pages_that_lie_on_different_sides_are_not_turned_alike(root, tmp_path):
    values = pages(tmp_path / "a.tif", tags=[(274, 3, 1, 1, True), (274, 3, 1, 6, True)])
    with pytest.raises(hub.errors.ConfigError, match="different orientations"):
        hub.import_(tmp_path / "a.tif", "t/a:v1", orientation="apply", root=root)
    np.testing.assert_array_equal(hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)[...], [values, values])


def test_pages_with_different_palettes_are_no_array(root, tmp_path):
    colours = [np.full((3, 256), i, "u2") for i in range(2)]
    pages(tmp_path / "a.tif", photometric=["palette"] * 2, colormap=colours)
    with pytest.raises(hub.errors.ConfigError, match="different palettes"):
        hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)


def test_alpha_beside_white_that_counts_the_other_way_is_alpha(root, tmp_path):
    values = np.dstack([number("u1", (3, 3)), np.full((3, 3), 255, "u1")])
    tifffile.imwrite(
        tmp_path / "a.tif", values, photometric="miniswhite", extrasamples=["unassalpha"], planarconfig="contig"
    )
    for way, result in every_way(tmp_path / "a.tif", root).items():
        np.testing.assert_array_equal(result, np.dstack([255 - values[..., 0], values[..., 1]]), err_msg=way)


@pytest.mark.parametrize("layout", ["strips", "tiles"])
def test_a_page_that_names_too_few_of_its_pieces_is_cut_short(root, tmp_path, layout):
    options = {"rowsperstrip": 8} if layout == "strips" else {"tile": (16, 16)}
    tifffile.imwrite(tmp_path / "a.tif", number("u1", (64, 64)), compression="zlib", **options)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    for tag in (273, 324):
        for kind in (3, 4, 16):
            at = data.find(struct.pack("<HH", tag, kind))
            if at >= 0:
                data[at + 4 : at + 8] = struct.pack("<I", 3)
    (tmp_path / "a.tif").write_bytes(data)
    for source in (tmp_path / "a.tif", tmp_path):
        with pytest.raises(hub.errors.SourceError, match=r"a\.tif: (is cut short|cannot be read)"):
            hub.import_(source, "t/a:v1", root=root)


@pytest.mark.parametrize(
    "planes", ["SizeT='300000000' SizeC='1'", "SizeT='100000' SizeC='100000'", "SizeT='3' SizeC='1'"]
)
def test_an_ome_tiff_that_says_more_planes_than_it_has_is_refused_at_once(root, tmp_path, planes):
    ome = (
        f"<OME><Image><Pixels SizeX='2' SizeY='2' {planes} SizeZ='1' Type='uint8' DimensionOrder='XYCZT'><TiffData/>"
        "</Pixels></Image></OME>"
    )
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((2, 2), "u1"), description=ome, metadata=None)
    for source in (tmp_path / "a.tif", tmp_path):
        with pytest.raises(hub.errors.SourceError, match=r"a\.tif: is cut short: its description declares"):
            hub.import_(source, "t/a:v1", root=root)


def test_a_tiff_stands_for_no_more_than_its_file_can_mean(root, tmp_path, monkeypatch):
    monkeypatch.setattr("hubarray.interop.sources.base.ALWAYS_BYTES", 1 << 20)
    monkeypatch.setattr("hubarray.interop.sources.base.MAX_UNPACKED", 100)
    tiles = [np.zeros((128, 128), "u1"), *[None] * 4095]
    tifffile.imwrite(
        tmp_path / "a.tif", iter(tiles), shape=(8192, 8192), dtype="u1", tile=(128, 128), photometric="minisblack"
    )
    with pytest.raises(hub.errors.SourceError, match=r"declares 1 rows of 67,108,864 bytes"):
        hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)


def test_images_that_move_are_refused_by_tables_as_by_arrays(root, tmp_path):
    frames = [Image.fromarray(number("u1", (4, 4))) for _ in range(2)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    for use in (hub.import_, hub.import_table):
        with pytest.raises(hub.errors.SourceError, match=r"a\.png: has 2 frames"):
            use(tmp_path, "t/a:v1", root=root)


def test_a_table_takes_images_of_every_suffix_that_a_folder_has(root, tmp_path):
    values = {name: number("u1", (4, 5, 3)) for name in ("a.png", "b.tif", "c.webp", "d.bmp")}
    for name, value in values.items():
        Image.fromarray(value).save(tmp_path / name, **({"lossless": True} if name == "c.webp" else {}))
    table = hub.import_table(tmp_path, "t/a:v1", root=root)
    for row in table:
        np.testing.assert_array_equal(row["image"], values[row["path"]])
    assert len(table) == 4


def test_masks_that_differ_in_what_is_transparent_have_no_palette_in_common(root, tmp_path):
    for name, clear in (("a", 1), ("b", 2)):
        mask(tmp_path / f"{name}.png", np.arange(6, dtype="u1").reshape(2, 3) % 3, transparency=clear)
    assert hub.import_(tmp_path, "t/a:v1", root=root).shape == (2, 2, 3, 4)


def test_a_file_is_named_from_where_one_is(root, tmp_path, monkeypatch):
    values = number("u1", (4, 5))
    Image.fromarray(values).save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(hub.import_("a.png", "t/a:v1", root=root)[0], values)


def test_inks_and_alpha_in_planes_are_refused_by_the_name_of_the_file(root, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", number("u1", (4, 6, 5)), photometric="separated", planarconfig="separate")
    with pytest.raises(hub.errors.SourceError, match=r"a\.tif: is of inks in planes of their own"):
        hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)


@pytest.mark.parametrize(
    "values", [np.array([[1, 2.5]], "f4"), np.array([[1, -2]], "i2"), np.array([[70000, 2]], "u4")]
)
def test_a_table_of_images_has_the_numbers_that_an_array_of_them_has(root, tmp_path, values):
    (tmp_path / "tt").mkdir()
    tifffile.imwrite(tmp_path / "tt" / "a.tif", values, photometric="minisblack")
    assert hub.import_(tmp_path / "tt", "t/a:v1", root=root)[0].tolist() == values.tolist()
    result = hub.import_table(tmp_path / "tt", "t/t:v1", root=root)[0]["image"]
    assert (result.dtype, result.tolist()) == (values.dtype, values.tolist())


def test_a_table_of_images_keeps_all_bands(root, tmp_path):
    (tmp_path / "tt").mkdir()
    values = np.arange(100, dtype="u1").reshape(4, 5, 5)
    tifffile.imwrite(tmp_path / "tt" / "a.tif", values, photometric="minisblack", planarconfig="contig")
    assert np.array_equal(hub.import_table(tmp_path / "tt", "t/t:v1", root=root)[0]["image"], values)


def test_images_of_other_numbers_are_not_mixed_in_a_table(root, tmp_path):
    (tmp_path / "tt").mkdir()
    for name, kind in (("a", "f4"), ("b", "i2")):
        tifffile.imwrite(tmp_path / "tt" / f"{name}.tif", np.zeros((4, 5), kind), photometric="minisblack")
    with pytest.raises(hub.errors.SourceError, match="1 x float32 and of 1 x int16 a pixel"):
        hub.import_table(tmp_path / "tt", "t/t:v1", root=root)


def test_what_is_missing_in_miniswhite_is_missing_in_what_it_means(root, tmp_path):
    nodata = [(42113, 2, None, "0", True)]
    values = np.array([[0, 1, 255]], "u1")
    tifffile.imwrite(tmp_path / "w.tif", values, photometric="miniswhite", metadata=None, extratags=nodata)
    array = hub.import_(tmp_path / "w.tif", "t/w:v1", root=root)
    assert array[...].ravel().tolist() == [255, 254, 0]
    assert array.attrs["_FillValue"] == 255
    assert np.isnan(np.asarray(array.decoded[...])).ravel().tolist() == [True, False, False]


def test_a_page_that_says_more_bytes_than_its_file_has_is_refused(root, tmp_path):
    path = tmp_path / "m.tif"
    tifffile.imwrite(path, np.zeros((60, 70), "u1"), compression="lzw", bigtiff=True, metadata=None, rowsperstrip=60)
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].tags[279].offset
    data = bytearray(path.read_bytes())
    struct.pack_into("<HQQ", data, offset + 2, 16, 1, 1 << 40)
    path.write_bytes(data)
    with pytest.raises(hub.errors.SourceError, match=r"m\.tif: is cut short"):
        hub.import_(path, "t/m:v1", root=root)


def enlarged(kind, data):
    """Return a compressed tile whose own header declares 60,000 rows and columns."""
    for at in range(len(data) - 8):
        if kind == "jpeg" and data[at : at + 2] in (b"\xff\xc0", b"\xff\xc1"):
            return data[: at + 5] + struct.pack(">HH", 60_000, 60_000) + data[at + 9 :]
        if kind == "jpeg2000" and data[at : at + 4] == b"\xff\x4f\xff\x51":
            return data[: at + 8] + struct.pack(">2I", 60_000, 60_000) + data[at + 16 :]
        if kind == "png" and data[at : at + 4] == b"IHDR":
            header = b"IHDR" + struct.pack(">2I", 60_000, 60_000) + data[at + 12 : at + 17]
            return data[:at] + header + struct.pack(">I", zlib.crc32(header)) + data[at + 21 :]
        if kind == "lerc" and data[at : at + 6] == b"Lerc2 ":
            return data[: at + 14] + struct.pack("<2i", 60_000, 60_000) + data[at + 22 :]
        if kind == "jpegxr" and data[at : at + 2] == b"\x80\xbc":
            return (
                data[: at + 8]
                + struct.pack("<I", 60_000)
                + data[at + 12 : at + 20]
                + struct.pack("<I", 60_000)
                + data[at + 24 :]
            )
        if kind == "jpegxl" and data[at : at + 2] == b"\xff\x0a":
            # Two sides of 30 bits, and no ratio.
            bits = 3 << 1 | 59_999 << 3 | 3 << 36 | 59_999 << 38
            return data[: at + 2] + bits.to_bytes(9, "little") + data[at + 11 :]
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["jpeg", "jpeg2000", "png", "jpegxl", "jpegxr", "lerc"])
def test_a_tile_whose_header_declares_more_than_its_page_is_refused(root, tmp_path, kind):
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "a.tif"
    tifffile.imwrite(path, number("u1", (32, 32, 3)), tile=(32, 32), photometric="rgb", compression=kind)
    with tifffile.TiffFile(path) as file:
        (offset,), (count,) = file.pages[0].dataoffsets, file.pages[0].databytecounts
    data = path.read_bytes()
    path.write_bytes(data[:offset] + enlarged(kind, data[offset : offset + count]) + data[offset + count :])
    for use in (hub.import_, hub.import_table):
        for source in (path, path.parent):
            if (use, source) != (hub.import_table, path):
                with pytest.raises(
                    hub.errors.SourceError, match=r"a\.tif: the header of a tile declares [\d,]{10,} samples"
                ):
                    use(source, "t/a:v1", root=root)


@pytest.mark.parametrize("kind", ["jpeg", "jpeg2000", "png", "webp", "jpegxl", "jpegxr", "lerc"])
def test_tiles_with_a_size_of_their_own_are_read(root, tmp_path, kind):
    values = np.zeros((70, 50, 3), "u1") + np.arange(70, dtype="u1")[:, None, None]
    lossless = {"lossless": True} if kind in ("webp", "jpegxl") else {"level": 100} if kind == "jpegxr" else {}
    tifffile.imwrite(
        tmp_path / "a.tif", values, tile=(32, 32), photometric="rgb", compression=kind, compressionargs=lossless
    )
    array = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)
    assert np.array_equal(array[0], tifffile.imread(tmp_path / "a.tif"))
    assert np.abs(array[0].astype(int) - values).max() < 10


@pytest.mark.parametrize(
    ("kind", "shape", "options"),
    [
        ("png", (2100, 2100), {}),
        ("jpegxl", (1500, 1500), {}),
        ("jpegxr", (2500, 2500), {}),
        ("jpeg", (600, 600, 3), {"tile": (2400, 2400)}),
        ("webp", (1000, 1000, 3), {"tile": (4096, 4096)}),
        ("lerc", (10, 10), {"tile": (8192, 4096)}),
        ("lerc", (300, 200, 3), {"compressionargs": {"compression": "zstd"}}),
        ("lerc", (300, 200, 3), {"compressionargs": {"compression": "deflate"}}),
    ],
)
def test_large_tiles_are_read(root, tmp_path, kind, shape, options):
    photometric = "rgb" if len(shape) == 3 else "minisblack"
    values = np.zeros(shape, "u1") + np.arange(shape[1], dtype="u1").reshape(1, -1, *[1] * (len(shape) - 2))
    tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric, compression=kind, **options)
    result = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)
    assert np.array_equal(result[0], tifffile.imread(tmp_path / "a.tif"))


def test_tiles_that_are_larger_than_is_read_at_once_are_refused_in_all_compressions(root, tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((16, 16), "u1"), tile=(16, 16), compression="zstd", photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        tags = [file.pages[0].tags[code] for code in (322, 323)]
    data = bytearray(path.read_bytes())
    for tag in tags:
        struct.pack_into("<HII", data, tag.offset + 2, 4, 1, 1 << 16)
    path.write_bytes(data)
    for use, source in ((hub.import_, path), (hub.import_, tmp_path), (hub.import_table, tmp_path)):
        with pytest.raises(hub.errors.SourceError, match=r"a\.tif: has tiles of 4,294,967,296 bytes"):
            use(source, "t/a:v1", root=root)


def test_samples_of_odd_bits_are_refused_by_every_way(root, tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((16, 16), "u1"), photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        tag = file.pages[0].tags[258]
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, tag.valueoffset, 40)
    path.write_bytes(data)
    for use, source in ((hub.import_, path), (hub.import_, tmp_path), (hub.import_table, tmp_path)):
        with pytest.raises(hub.errors.SourceError, match=r"a\.tif: has samples of 40 bits"):
            use(source, "t/a:v1", root=root)
