"""A folder of images says what a file alone says, and leaves out nothing without a word."""

import warnings

import numpy as np
import pytest
import tifffile
from PIL import Image

import hubarray as hub

GREY = np.arange(30, dtype="i2").reshape(6, 5)
GDAL_METADATA, GDAL_NODATA, PIXEL_SCALE, TIEPOINT = 42112, 42113, 33550, 33922


def items(**facts):
    """GDAL's metadata of one band."""
    inner = "".join(f'<Item name="{name}" sample="0" role="{name}">{text}</Item>' for name, text in facts.items())
    return f"<GDALMetadata>{inner}</GDALMetadata>"


def write_tile(path, values=GREY, *, gdal=None, nodata=None, tiepoint=0.0, append=False):
    tags = [(PIXEL_SCALE, 12, 3, (10.0, 10.0, 0.0), True), (TIEPOINT, 12, 6, (0, 0, 0, tiepoint, 0, 0), True)]
    tags += [(GDAL_METADATA, 2, None, gdal, True)] if gdal else []
    tags += [(GDAL_NODATA, 2, None, nodata, True)] if nodata else []
    tifffile.imwrite(path, values, photometric="minisblack", metadata=None, extratags=tags, append=append)


def test_what_all_images_say_alike_is_kept_and_the_rest_is_named(root, tmp_path):
    for i in range(3):
        write_tile(tmp_path / f"{i}.tif", gdal=items(scale="0.5"), nodata="-9", tiepoint=10.0 * i)
    with pytest.warns(UserWarning, match="its images differ in attributes, which are left out: geotiff.ModelTiepoint"):
        array = hub.import_(tmp_path, "t/a:v1", root=root)
    assert array.attrs["geotiff"]["ModelPixelScaleTag"] == [10.0, 10.0, 0.0]
    assert array.attrs["scale_factor"] == 0.5
    assert array.attrs["_FillValue"] == -9
    with pytest.warns(UserWarning, match="geotiff.ModelTiepoint"):
        table = hub.import_table(tmp_path, "t/t:v1", root=root)
    assert table.attrs["geotiff"] == array.attrs["geotiff"]


def test_one_image_says_alone_and_in_a_folder_the_same(root, tmp_path):
    write_tile(tmp_path / "a.tif", gdal=items(scale="0.5", description="height", unittype="m"), nodata="-9")
    alone, folder = (hub.import_(item, f"t/{item.name}:v1", root=root) for item in (tmp_path / "a.tif", tmp_path))
    assert alone.attrs == folder.attrs
    assert alone.attrs["long_name"] == "height"


@pytest.mark.parametrize("way", ["images", "pages"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gdal": items(scale="0.5", offset="1")}, {"gdal": items(scale="2", offset="1")}),
        ({"gdal": items(scale="0.5"), "nodata": "-9"}, {"gdal": items(scale="0.5"), "nodata": "0"}),
        ({"gdal": items(scale="0.5")}, {}),
        ({}, {"nodata": "-9"}),
    ],
)
def test_numbers_that_stand_for_others_in_each_are_decoded_by_none(root, tmp_path, way, first, second):
    paths = [tmp_path / "a.tif", tmp_path / ("b.tif" if way == "images" else "a.tif")]
    for path, facts in zip(paths, (first, second), strict=True):
        write_tile(path, append=path.exists(), **facts)
    with pytest.warns(UserWarning, match=f"its {way} differ in attributes"):
        array = hub.import_(tmp_path if way == "images" else paths[0], "t/a:v1", root=root)
    assert len(array) == 2
    with pytest.raises(hub.errors.ConfigError, match="only packed arrays have decoded values"):
        _ = array.decoded


def test_scales_of_bands_are_kept_and_not_half_applied(root, tmp_path):
    metadata = (
        '<GDALMetadata><Item name="S" sample="0" role="scale">0.5</Item><Item name="S" sample="1" role="scale">2</Item>'
        '<Item name="O" sample="0" role="offset">1</Item><Item name="O" sample="1" role="offset">1</Item></GDALMetadata>'
    )
    tags = [(GDAL_METADATA, 2, None, metadata, True)]
    values = np.stack([GREY, GREY], axis=-1)
    tifffile.imwrite(
        tmp_path / "a.tif", values, photometric="minisblack", planarconfig="contig", metadata=None, extratags=tags
    )
    array = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root)
    assert (array.attrs["scales"], array.attrs["offsets"]) == ([0.5, 2.0], [1.0, 1.0])
    assert "add_offset" not in array.attrs
    with pytest.raises(hub.errors.ConfigError, match="the attribute scales has one per band"):
        _ = array.decoded


def test_planes_of_bands_lie_alike_alone_in_a_folder_and_in_a_glob(root, tmp_path):
    values = np.arange(90, dtype="u1").reshape(3, 6, 5)
    for name in "ab":
        tifffile.imwrite(tmp_path / f"{name}.tif", values, photometric="rgb", planarconfig="separate")
    ways = {"alone": tmp_path / "a.tif", "folder": tmp_path, "glob": tmp_path / "*.tif"}
    for way, source in ways.items():
        array = hub.import_(source, f"t/{way}:v1", root=root)
        assert array.dims[1:] == ("c", "y", "x")
        assert np.array_equal(array[0], values)
    # A field of images has channels last.
    table = hub.import_table(tmp_path, "t/t:v1", root=root)
    assert np.array_equal(table[0]["image"], np.moveaxis(values, 0, -1))


@pytest.mark.parametrize("use", [hub.import_, hub.import_table])
def test_images_without_a_suffix_are_images(root, tmp_path, use):
    for name in ("IM0001", "IM0002"):
        Image.fromarray(GREY.astype("u1")).save(tmp_path / name, format="PNG")
    (tmp_path / "LICENSE").write_text("free")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(use(tmp_path, "t/a:v1", root=root)) == 2


@pytest.mark.parametrize("use", [hub.import_, hub.import_table])
@pytest.mark.parametrize("suffix", [".avif", ".jp2", ".DNG", ".dcm"])
def test_images_that_are_not_read_are_left_out_with_a_warning(root, tmp_path, use, suffix):
    Image.fromarray(GREY.astype("u1")).save(tmp_path / "a.png")
    (tmp_path / f"b{suffix}").write_bytes(b"of another kind")
    with pytest.warns(UserWarning, match=rf"1 images are left out, such as b\{suffix}"):
        assert len(use(tmp_path, "t/a:v1", root=root)) == 1


# JPEG has no checksums, so what is flipped in it is another image.
@pytest.mark.parametrize(("name", "damage"), [("a.png", "cut"), ("a.png", "flipped"), ("a.jpg", "cut")])
def test_a_damaged_image_is_named_by_its_file(root, tmp_path, name, damage):
    rng = np.random.default_rng(0)
    for item in (name, name.replace("a", "b")):
        Image.fromarray(rng.integers(0, 255, (60, 50, 3), "u1")).save(tmp_path / item)
    data = bytearray((tmp_path / name).read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 4
    (tmp_path / name).write_bytes(data)
    for use in (hub.import_, hub.import_table):
        with pytest.raises(hub.errors.SourceError, match=name):
            use(tmp_path, "t/a:v1", root=root)


def test_counts_that_are_inverted_keep_their_physical_values(root, tmp_path):
    values = np.array([[0, 1, 2], [10, 20, 255]], "u1")
    tags = [(GDAL_METADATA, 2, None, items(scale="0.5", offset="10"), True), (GDAL_NODATA, 2, None, "255", True)]
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite", metadata=None, extratags=tags)
    for source in (tmp_path / "a.tif", tmp_path):
        array = hub.import_(source, f"t/{source.name}:v1", root=root)
        expected = [[10, 10.5, 11], [15, 20, np.nan]]
        np.testing.assert_array_equal(np.asarray(array.decoded[0]), expected)


def write_palette(path, values, colours, **tags):
    table = np.zeros((3, 256), "u2")
    table[:, : len(colours)] = np.array(colours).T * 257
    extra = [(GDAL_NODATA, 2, None, tags["nodata"], True)] if tags else []
    tifffile.imwrite(path, values, photometric="palette", colormap=table, metadata=None, extratags=extra)


@pytest.mark.parametrize("use", [hub.import_, hub.import_table])
def test_class_numbers_keep_their_palette_and_colours_lose_facts_of_numbers(root, tmp_path, use):
    values = np.array([[0, 1], [1, 0]], "u1")
    for folder, second in (("same", (255, 0, 0)), ("other", (0, 0, 255))):
        (tmp_path / folder).mkdir()
        for name, colour in (("a", (255, 0, 0)), ("b", second)):
            write_palette(tmp_path / folder / f"{name}.tif", values, [(0, 0, 0), colour], nodata="0")
    same, other = (use(tmp_path / folder, f"t/{folder}:v1", root=root) for folder in ("same", "other"))
    assert same.attrs["colormap"][:2] == [[0, 0, 0], [255, 0, 0]]
    assert same.attrs["_FillValue"] == 0
    assert "colormap" not in other.attrs
    assert "_FillValue" not in other.attrs


def test_an_ome_tiff_whose_pages_differ_in_scale_is_not_decoded(root, tmp_path):
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as file:
        file.write(
            np.zeros((2, 30, 30), "u2"), photometric="minisblack",
            extratags=[(GDAL_METADATA, 2, None, items(scale="0.5"), False)],
        )  # fmt: skip
    data = bytearray(path.read_bytes())
    second = data.index(b"0.5</Item>", data.index(b"0.5</Item>") + 1)
    data[second : second + 3] = b"0.2"
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="its pages differ in attributes, which are left out: scale_factor"):
        array = hub.import_(path, "t/a:v1", root=root)
    assert "scale_factor" not in array.attrs


@pytest.mark.parametrize("broken", ["scale", "offset"])
def test_a_scale_whose_offset_is_no_number_is_not_applied(root, tmp_path, broken):
    facts = {"scale": "0.5", "offset": "1"} | {broken: "1,5"}
    write_tile(tmp_path / "a.tif", gdal=items(**facts))
    attrs = hub.import_(tmp_path / "a.tif", "t/a:v1", root=root).attrs
    assert not {"scale_factor", "add_offset"} & attrs.keys()
    assert attrs["gdal"] == {name: [text] for name, text in facts.items()}


@pytest.mark.parametrize("use", [hub.import_, hub.import_table])
@pytest.mark.parametrize("name", ["b", "b.0001", "b.jpg_large", "b.svs"])
@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_the_content_of_an_unknown_suffix_tells_an_image(root, tmp_path, use, name, kind):
    Image.fromarray(np.zeros((4, 5, 3), "u1")).save(tmp_path / "a.png")
    Image.fromarray(np.ones((4, 5, 3), "u1")).save(tmp_path / name, format=kind)
    (tmp_path / "a.hdr").write_text("ENVI")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(use(tmp_path, "t/a:v1", root=root)) == 2
