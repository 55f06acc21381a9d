"""Sources of somebody else's: no other file of this machine, no more memory than is stated, nothing that blocks."""

import os
import zipfile

import h5py
import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import hubarray as hub
from hubarray.interop.import_ import arrays as importing
from hubarray.interop.sources import base, hdf5, members
from hubarray.interop.sources.numpy_files import RemoteNpy
from hubarray.limits import DEFAULT_DECODED_BYTES
from tests.hostile.child import assert_refused

SECRET = np.arange(64, dtype="u1")


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret").mkdir()
    path = tmp_path / "secret" / "data"
    path.write_bytes(SECRET.tobytes())
    return path


def _external(folder, secret):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("d", (64,), "u1", external=[(str(secret), 0, 64)])
    return folder / "x.h5", {}


def _other_file(folder):
    with h5py.File(folder / "secret" / "other.h5", "w") as file:
        file["d"] = SECRET
    return folder / "secret" / "other.h5"


def _virtual(folder, secret):
    layout = h5py.VirtualLayout((64,), "u1")
    layout[:] = h5py.VirtualSource(_other_file(folder), "d", shape=(64,))
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_virtual_dataset("d", layout)
    return folder / "x.h5", {}


def _external_link(folder, secret):
    other = _other_file(folder)
    with h5py.File(folder / "x.h5", "w") as file:
        file["group"] = h5py.ExternalLink(str(other), "/")
        file["round"] = h5py.SoftLink("/group")
    return folder / "x.h5", {"key": "round/d"}


def _zarr_chunk(folder, secret):
    zarr.create_array(str(folder / "x.zarr"), data=SECRET, chunks=(64,), compressors=None)
    (folder / "x.zarr" / "c" / "0").unlink()
    (folder / "x.zarr" / "c" / "0").symlink_to(secret)
    return folder / "x.zarr", {}


def _zarr_folder(folder, secret):
    zarr.create_array(str(folder / "x.zarr"), data=SECRET, chunks=(64,), compressors=None)
    (folder / "x.zarr" / "c").rename(folder / "secret" / "c")
    (folder / "x.zarr" / "c").symlink_to(folder / "secret" / "c")
    return folder / "x.zarr", {}


def _image(folder, secret):
    Image.fromarray(SECRET.reshape(8, 8)).save(folder / "secret" / "a.png")
    (folder / "images").mkdir()
    (folder / "images" / "a.png").symlink_to(folder / "secret" / "a.png")
    return folder / "images", {}


def _glob(folder, secret):
    _image(folder, secret)
    return str(folder / "images" / "*.png"), {}


LEADING_OUT = [_external, _virtual, _external_link, _zarr_chunk, _zarr_folder, _image, _glob]


@pytest.mark.parametrize("kind", LEADING_OUT, ids=lambda kind: kind.__name__)
def test_data_elsewhere_is_refused_unless_it_is_asked_for(kind, root, tmp_path, secret):
    source, options = kind(tmp_path, secret)
    with pytest.raises(hub.errors.SourceError, match="follow_links=True"):
        hub.import_(source, "t/x:v0", root=root, **options)
    assert hub.list(root=root) == []
    array = hub.import_(source, "t/x:v0", root=root, follow_links=True, **options)
    assert array[...].ravel().tolist() == SECRET.tolist()


def test_links_that_stay_inside_are_followed(root, tmp_path):
    (tmp_path / "images").mkdir()
    Image.fromarray(SECRET.reshape(8, 8)).save(tmp_path / "images" / "a.png")
    (tmp_path / "images" / "b.png").symlink_to("a.png")
    (tmp_path / "there").symlink_to(tmp_path / "images")
    assert len(hub.import_(tmp_path / "there", "t/x:v0", root=root)) == 2


@pytest.mark.parametrize("name", ["pipe.npy", "pipe.h5", "pipe.tiff", "pipe.wav", "images", "x.zarr"])
def test_what_would_block_is_not_opened(root, tmp_path, name):
    path = tmp_path / name
    if "." not in name:
        path.mkdir()
        os.mkfifo(path / "a.png")
    elif name == "x.zarr":
        zarr.create_array(str(path), data=SECRET)
        os.mkfifo(path / "more")
    else:
        os.mkfifo(path)
    with pytest.raises(hub.errors.SourceError, match="neither a file nor a folder"):
        hub.import_(path, "t/x:v0", root=root)


def test_rows_that_can_only_be_held_whole_are_bounded_by_what_is_declared(root, tmp_path):
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1600000000), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", header.ljust(127) + b"\n" + bytes(1000))
    with pytest.raises(hub.errors.SourceError, match=r"1,600,000,000 bytes .* only be read whole"):
        hub.import_(tmp_path / "x.npz", "t/x:v0", root=root)
    strip = np.zeros((40_000, 20_000), "u1")
    tifffile.imwrite(tmp_path / "x.tiff", strip, photometric="minisblack", compression="zstd", rowsperstrip=40_000)
    with pytest.raises(
        hub.errors.SourceError, match=r"is compressed in pieces of 800,000,000, of which .* write it in tiles"
    ):
        hub.import_(tmp_path / "x.tiff", "t/x:v0", root=root)
    with pytest.raises(hub.errors.SourceError, match="more than can be copied"):
        hub.import_(np.broadcast_to(np.zeros(4), (2**50, 4)), "t/x:v0", root=root)
    zarr.create_array(str(tmp_path / "chunks.zarr"), shape=(2**33,), chunks=(2**33,), dtype="u1")
    with pytest.raises(hub.errors.SourceError, match=r"a chunk: decodes to more than .* \(at least 8,589,934,592\)"):
        hub.import_(tmp_path / "chunks.zarr", "t/x:v0", root=root)
    assert hub.list(root=root) == []


def test_an_image_that_declares_too_much_is_not_decoded(root, tmp_path, monkeypatch):
    monkeypatch.setattr("hubarray.interop.sources.stills.MAX_ROW_BYTES", 50)
    Image.fromarray(SECRET.reshape(8, 8)).save(tmp_path / "a.png")
    with pytest.raises(hub.errors.SourceError, match="takes 64 bytes, more than is read at once"):
        hub.import_(tmp_path / "a.png", "t/x:v0", root=root)


@pytest.mark.parametrize("kind", ["npy", "ome"])
def test_rows_larger_than_a_block_come_in_parts_and_an_interrupted_import_goes_on(root, tmp_path, monkeypatch, kind):
    values = np.random.default_rng(0).integers(0, 255, (3, 5, 40, 7), "u1")
    if kind == "npy":
        np.save(tmp_path / "x.npy", values)
        source = tmp_path / "x.npy"
    else:
        tifffile.imwrite(tmp_path / "x.ome.tiff", values, metadata={"axes": "TZYX"}, photometric="minisblack")
        source = tmp_path / "x.ome.tiff"
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 300)
    real, calls = hub.Array.__setitem__, []

    def broken(self, key, value):
        calls.append(key)
        if len(calls) == 8:
            raise KeyboardInterrupt
        real(self, key, value)

    monkeypatch.setattr(hub.Array, "__setitem__", broken)
    with pytest.raises(KeyboardInterrupt):
        hub.import_(source, "t/x:v0", root=root)
    assert not hub.exists("t/x:v0", root=root)
    array = hub.import_(source, "t/x:v0", root=root)
    assert np.array_equal(array[...], values)
    assert hub.list(root=root) == ["t/x:v0"]


def test_an_import_that_fails_leaves_nothing_or_says_what(root, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 64 * 4)
    (tmp_path / "images").mkdir()
    for i in range(20):
        Image.fromarray(SECRET.reshape(8, 8)).save(tmp_path / "images" / f"{i:02d}.png")
    whole = (tmp_path / "images" / "19.png").read_bytes()
    (tmp_path / "images" / "19.png").write_bytes(whole[: len(whole) - 30])
    with pytest.raises(hub.errors.SourceError, match=r"rows are kept as t/x:v0\.importing") as caught:
        hub.import_(tmp_path / "images", "t/x:v0", root=root, chunks=(2, 8, 8))
    assert hub.list(root=root) == []
    assert hub.exists("t/x:v0.importing", root=root)
    assert "hub.delete('t/x:v0.importing')" in str(caught.value)
    (tmp_path / "images" / "19.png").write_bytes(whole)
    assert len(hub.import_(tmp_path / "images", "t/x:v0", root=root, chunks=(2, 8, 8))) == 20
    (tmp_path / "images" / "00.png").write_bytes(whole[: len(whole) - 30])
    with pytest.raises(hub.errors.SourceError):
        hub.import_(tmp_path / "images", "t/y:v0", root=root, chunks=(2, 8, 8))
    assert hub.list(root=root) == ["t/x.files:v0", "t/x:v0"]


def test_folders_by_class_give_labels_and_file_names_too(root, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(SECRET.reshape(8, 8) + i).save(tmp_path / name / f"{i}.png")
    images = hub.import_(tmp_path, "t/pets:v0", root=root)
    assert images.shape == (6, 8, 8)
    assert images.attrs["classes"] == ["cat", "dog"]
    assert hub.load("t/pets.labels:v0", root=root)[...].tolist() == [0, 0, 0, 1, 1, 1]
    assert hub.load("t/pets.files:v0", root=root)[...].tolist()[-1] == os.path.join("dog", "2.png")


def test_urls_are_shown_and_stored_without_their_secrets(root, tmp_path, static_npy, caplog):
    url = f"{static_npy}/x.npy?X-Amz-Signature=topsecret&part=1"
    array = hub.import_(url, "t/x:v0", root=root)
    assert array[...].tolist() == SECRET.tolist()
    assert "X-Amz-Signature=***" in next(array.log()).message
    for use in (
        lambda: hub.import_(f"{static_npy}/nothing.npy?sig=topsecret", "t/y:v0", root=root),
        lambda: hub.import_("https://me:topsecret@127.0.0.1:1/x.npy", "t/y:v0", root=root),
        lambda: hub.import_("https://me:top/topsecret@127.0.0.1:1/x.docx", "t/y:v0", root=root),
        lambda: hub.load("s3://me:top/topsecret@bucket/t/x:v0"),
        lambda: hub.load("https://me:topsecret@host/t/x:v 0"),
        lambda: hub.import_("https://127.0.0.1:1/x.npy?sig=b'topsecret", "t/y:v0", root=root),
        lambda: hub.import_("https://host/x.png?sig=topsecret", "t/y:v0", root=root),
        lambda: hub.import_("zip://a.npy::https://me:topsecret@127.0.0.1:1/x.zip?sig=topsecret", "t/y:v0", root=root),
        lambda: hub.import_("s3://me:topsecret@bucket/x.npy", "t/y:v0", root=root),
        lambda: hub.Root("https://host/x?sig=topsecret"),
        lambda: hub.Root("https://host/x#topsecret"),
        lambda: hub.export("t/x:v0", "s3://me:top/topsecret@bucket/x.zarr", root=root),
        lambda: hub.export("t/x:v0", "https://h/x.npy?sig=topsecret", root=root),
    ):
        with pytest.raises(hub.HubError) as caught:
            use()
        assert "topsecret" not in str(caught.value) + repr(caught.value)
    assert "topsecret" not in caplog.text
    assert "topsecret" not in "".join(str(bytes(root.store.get(info.key))) for info in root.store.list(""))


@pytest.fixture
def static_npy(tmp_path):
    from tests import servers

    (tmp_path / "served").mkdir()
    np.save(tmp_path / "served" / "x.npy", SECRET)
    with servers.static_http(tmp_path / "served") as url:
        yield url


def test_a_file_behind_a_url_is_another_with_another_query_and_once_it_changes(static_npy, tmp_path):
    def fingerprint(query):
        return RemoteNpy(f"{static_npy}/x.npy?id={query}", "shown", {}).fingerprint

    before = fingerprint(1)
    assert before == fingerprint(1) != fingerprint(2)
    np.save(tmp_path / "served" / "x.npy", SECRET[::-1])
    os.utime(tmp_path / "served" / "x.npy", (1e9, 1e9))
    assert fingerprint(1) != before


def _npy(shape, descr="<i4", *, announced=None, zipped=False):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + (announced or len(header)).to_bytes(4, "little") + header


LITTLE = {
    "rows of nothing": ("x.npy", lambda: _npy("(1099511627776, 0)"), "more than|in all"),
    "elements of nothing": ("x.npy", lambda: _npy("(3,)", "|V0"), "have no bytes"),
    "signs without end": ("x.npy", lambda: _npy("(" + "-" * 9000 + "1,)"), "header cannot be read"),
    "a long header": ("x.npy", lambda: _npy("(3,)", announced=400 << 20), "a header of 419,430,400 bytes"),
    "Python objects": ("x.npy", lambda: _npy("(3,)", "|O"), "never loaded"),
}


@pytest.mark.parametrize("what", LITTLE)
def test_little_that_says_it_is_much_is_refused_before_it_is_read(root, tmp_path, what):
    name, made, words = LITTLE[what]
    (tmp_path / name).write_bytes(made())
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", made())
    for path in (tmp_path / name, tmp_path / "x.npz"):
        with pytest.raises((hub.errors.SourceError, hub.errors.ConfigError), match=words):
            hub.import_(path, "t/x:v0", root=root)
    assert hub.list(root=root) == []


def test_a_file_that_holds_nearly_nothing_does_not_stand_for_terabytes(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", shape=(2**40,), dtype="i4", chunks=(1 << 20,), fillvalue=3)
    zarr.create_array(str(tmp_path / "x.zarr"), shape=(2**40,), chunks=(1 << 20,), dtype="i4")
    (tmp_path / "y.zarr").mkdir()
    with open(tmp_path / "y.zarr" / "zarr.json", "wb") as file:
        file.truncate(2 << 30)
    for name, words in (("x.h5", "bytes in all"), ("x.zarr", "bytes in all"), ("y.zarr", "67,108,864 are read")):
        with pytest.raises(hub.errors.SourceError, match=words):
            hub.import_(tmp_path / name, "t/x:v0", root=root)


ENDLESS = """
import h5py, zarr
path = sys.argv[1] + "/" + {name!r}
if path.endswith(".h5"):
    h5py.File(path, "w").create_dataset("a", shape=(1 << 33,), dtype="u1", chunks=(1,)).file.close()
else:
    kwargs = dict(shape=(1 << 33,), dtype="u1", chunks=(1,), zarr_format={format})
    zarr.create_array(path, **kwargs, **{{"shards": (1 << 10,)}} if {sharded} else {{}})
start, began = peak(), time.process_time()
hub.import_(path, "t/x:v0", root=sys.argv[1] + "/root")
"""


@pytest.mark.parametrize(
    ("name", "version", "sharded"),
    [("x.h5", 3, False), ("x.zarr", 3, False), ("x.zarr", 2, False), ("x.zarr", 3, True)],
)
def test_chunks_without_end_are_not_looked_for_one_by_one(tmp_path, name, version, sharded):
    assert_refused(ENDLESS.format(name=name, format=version, sharded=sharded), tmp_path, match="8,589,934,592 chunks")


def test_more_arrays_than_a_dataset_has_are_refused_before_any_is_looked_at(root, tmp_path, monkeypatch):
    for item in (hdf5, members):
        monkeypatch.setattr(item, "MAX_ARRAYS", 100)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i in range(100):
            file.create_dataset(f"g/{i}", shape=(), dtype="u1")
    for source in (tmp_path / "x.h5", h5py.File(tmp_path / "x.h5")):
        with pytest.raises(hub.errors.SourceError, match=r"more than 100 arrays and groups, .* key="):
            hub.import_(source, "t/x:v0", root=root)
    with pytest.raises(hub.errors.ConfigError, match=r"holds g/0, .* and 8\d more; not 'g/x'"):
        hub.import_(tmp_path / "x.h5", "t/x:v0", key="g/x", root=root)
    assert hub.import_(tmp_path / "x.h5", "t/x:v0", key="g/7", root=root).shape == ()


def test_no_other_program_is_started_for_an_image(root, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "images").mkdir()
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    (tmp_path / "images" / "a.png").write_bytes(postscript)
    with pytest.raises(hub.errors.SourceError, match="not an image of a known format"):
        hub.import_(tmp_path / "images", "t/x:v0", root=root)
    assert not (tmp_path / "started").exists()


def test_sizes_of_sources_are_what_the_documents_state():
    assert (base.MAX_ROW_BYTES, DEFAULT_DECODED_BYTES) == (512 << 20, 1 << 30)


def test_a_server_that_is_down_is_not_said_to_lack_the_file(root):
    with pytest.raises(hub.errors.SourceError, match="cannot be reached"):
        hub.import_("http://127.0.0.1:9/x.npy", "t/x:v0", root=root)
