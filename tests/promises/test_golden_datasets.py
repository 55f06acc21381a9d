"""Datasets that past formats wrote, kept for ever: every version has to read them, and write on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub

FORMATS = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if (path / "arrays.npz").exists())


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def golden(request, tmp_path):
    shutil.copytree(request.param / "bucket", tmp_path / "bucket")
    with np.load(request.param / "arrays.npz") as file:
        expected = {tuple(name.replace("%", "/").split("|")): file[name] for name in file.files}
    return hub.Root(tmp_path / "bucket"), expected


def test_there_is_a_golden_bucket_of_datasets():
    assert "datasets2" in [path.name for path in FORMATS]


def test_every_array_reads_as_it_was_written_and_all_is_whole(golden):
    root, expected = golden
    for (name, key), value in expected.items():
        array = hub.load(name, root=root)[key]
        read = array[[0, 10**8, 999_999_999], :997] if key == "sparse" else array[...]
        assert np.asarray(read).dtype == value.dtype
        assert np.array_equal(read, value), (name, key)
    for name in ("lab/train", "team/copy"):
        assert hub.verify(name, root=root).problems == []
    ds = hub.load("lab/train:v1@whole", root=root)
    assert (list(ds), ds.dims["sample"], dict(ds.attrs)) == (
        ["image", "label", "näme", "box", "sparse"], 44, {"by": "golden"}
    )  # fmt: skip
    assert dict(ds["image"].attrs) == {"unit": "1"}


def test_writing_goes_on_from_it(golden):
    root, expected = golden
    ds = hub.load("lab/train:v1", root=root)
    ds.append({"image": np.full((2, 6, 5), 3), "box": np.full((2, 4), 0.5)})
    ds["sparse"][5, 9000] = 4
    image = expected["lab/train:v1", "image"]
    assert np.array_equal(ds["image"][...], np.concatenate([image, np.full((2, 6, 5), 3, "u1")]))
    assert ds["box"][-1].tolist() == [0.5] * 4
    assert ds["sparse"][5, 9000] == 4
    hub.merge_version("team/copy:v1", into="lab/train:v1", root=root)
    assert ds.refresh()["box"][0].tolist() == [7.0] * 4
