"""References: zarr-python and xarray read a commit live, with no hubarray in between."""

import json
import subprocess
import sys
import textwrap

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import LazyReferenceMapper

import hubarray as hub
from hubarray.interop.export import references_parquet

READER = textwrap.dedent(
    """
    import json, sys
    import xarray as xr
    refs, options = sys.argv[1], json.loads(sys.argv[2])
    storage = {"fo": refs, "remote_options": options}
    if refs.endswith(".parquet"):
        storage["remote_protocol"] = sys.argv[3]
    found = xr.open_zarr("reference://", storage_options=storage, consolidated=refs.endswith(".parquet"))
    assert "hubarray" not in sys.modules
    print(json.dumps({name: one.values.tolist() for name, one in found.variables.items()}))
    """
)


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_xarray_reads_a_dataset_through_references(make_root, tmp_path, kind, form):
    root = make_root(kind)
    ds = hub.dataset(
        {
            "image": hub.ArraySpec((0, 4, 4), "uint8", chunks=(2, 4, 4), dims=("sample", "y", "x")),
            "label": hub.ArraySpec(0, "float64", dims=("sample",), codec="zstd", fill_value=7),
        },
        "lab/train:v1",
        root=root,
    )
    ds.append({"image": np.arange(80).reshape(5, 4, 4), "label": [7, 7, 1, 2, 3]})
    ds["other"] = hub.store(np.arange(6), "team/other:v1", root=root)
    hub.tag("lab/train:v1", "paper", root=root)
    ds["label"][0] = 99
    refs = tmp_path / f"refs.{form}"
    hub.references("lab/train:v1@paper", refs, root=root)
    options = dict(root._options) | ({"asynchronous": True} if kind == "s3" else {})
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER, str(refs), json.dumps(options), root.url.split(":")[0]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr[-2000:]
    result = json.loads(shown.stdout)
    assert result == {
        "image": np.arange(80).reshape(5, 4, 4).tolist(), "label": [7, 7, 1, 2, 3], "other": list(range(6))
    }  # fmt: skip


def test_what_others_cannot_read_is_refused(root, make_root, tmp_path):
    hub.array(3, "lab/a:v1", root=root)[0] = 1
    with pytest.raises(hub.errors.ConfigError, match=r"\.json"):
        hub.references("lab/a:v1", tmp_path / "refs.txt", root=root)
    hub.references("lab/a:v1", tmp_path / "refs.json", root=root)
    with pytest.raises(hub.errors.AlreadyExistsError):
        hub.references("lab/a:v1", tmp_path / "refs.json", root=root)
    spaced = hub.Root(tmp_path / "a b%20c")
    hub.array(3, "lab/a:v1", "i4", root=spaced)[:] = 5
    hub.references("lab/a:v1", tmp_path / "spaced.json", root=spaced)
    system = fsspec.filesystem("reference", fo=str(tmp_path / "spaced.json"), asynchronous=True)
    assert zarr.open_array(zarr.storage.FsspecStore(system, read_only=True), mode="r")[:].tolist() == [5, 5, 5]
    elsewhere = make_root("memory")
    hub.array(3, "lab/a:v1", root=elsewhere)
    with pytest.raises(hub.errors.ConfigError, match="nobody else"):
        hub.references("lab/a:v1", tmp_path / "x.json", root=elsewhere)


@pytest.mark.parametrize("engine", ["fastparquet", "pyarrow"])
def test_references_in_many_files_tell_every_chunk_and_every_gap(root, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(references_parquet, "RECORD_CHUNKS", 7)
    values = np.random.default_rng(0).integers(0, 9, (9, 10, 4), "i4")
    values[:, 5:8] = -1
    values[4:6] = -1
    array = hub.array(values.shape, "lab/gaps:v1", "i4", chunks=(2, 3, 4), fill_value=-1, root=root)
    array[...] = values
    single = hub.dataset(
        {"scale": hub.ArraySpec((), "f8"), "none": hub.ArraySpec((0, 3), "i2")}, "lab/single:v1", root=root
    )
    single["scale"][()] = 2.5
    for name in ("gaps", "single"):
        hub.references(f"lab/{name}:v1", tmp_path / f"{name}.parquet", root=root)

    def opened(name):
        mapper = LazyReferenceMapper(str(tmp_path / f"{name}.parquet"), engine=engine)
        system = fsspec.filesystem("reference", fo=mapper, remote_protocol="file", asynchronous=True)
        return zarr.open_group(zarr.storage.FsspecStore(system, read_only=True), mode="r", zarr_format=3)

    assert np.array_equal(opened("gaps")["gaps"][...], values)
    assert opened("single")["scale"][()] == 2.5
    assert opened("single")["none"].shape == (0, 3)
    with pytest.raises(hub.errors.AlreadyExistsError):
        hub.references("lab/gaps:v1", tmp_path / "gaps.parquet", root=root)
    array[0] = 8
    hub.references("lab/gaps:v1", tmp_path / "gaps.parquet", overwrite=True, root=root)
    assert (opened("gaps")["gaps"][0] == 8).all()
    monkeypatch.setattr(references_parquet, "_MAX_CHUNKS", 1)
    with pytest.raises(hub.errors.ConfigError, match="chunks"):
        hub.references("lab/gaps:v1", tmp_path / "gaps.parquet", overwrite=True, root=root)
    assert (opened("gaps")["gaps"][0] == 8).all(), "what could not be replaced is as it was"
    (tmp_path / "mine.parquet").mkdir()
    with pytest.raises(hub.errors.AlreadyExistsError, match="holds no references"):
        hub.references("lab/gaps:v1", tmp_path / "mine.parquet", overwrite=True, root=root)
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []
