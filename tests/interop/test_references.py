"""References: zarr-python and xarray read a commit live, with no hubarray in between."""

import json
import subprocess
import sys
import textwrap

import fsspec
import numpy as np
import pytest
import zarr

import hubarray as hub

READER = textwrap.dedent(
    """
    import json, sys
    import xarray as xr
    refs, options = sys.argv[1], json.loads(sys.argv[2])
    storage = {"fo": refs, "remote_options": options}
    found = xr.open_zarr("reference://", storage_options=storage, consolidated=False)
    assert "hubarray" not in sys.modules
    print(json.dumps({name: one.values.tolist() for name, one in found.variables.items()}))
    """
)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_xarray_reads_a_dataset_through_references(make_root, tmp_path, kind):
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
    hub.references("lab/train:v1@paper", tmp_path / "refs.json", root=root)
    options = dict(root._options) | ({"asynchronous": True} if kind == "s3" else {})
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER, str(tmp_path / "refs.json"), json.dumps(options)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr[-2000:]
    found = json.loads(shown.stdout)
    assert found == {
        "image": np.arange(80).reshape(5, 4, 4).tolist(), "label": [7, 7, 1, 2, 3], "other": list(range(6))
    }  # fmt: skip


def test_what_others_cannot_read_is_refused(root, make_root, tmp_path):
    hub.array(3, "lab/a:v1", root=root)[0] = 1
    with pytest.raises(hub.ConfigError, match=r"\.json"):
        hub.references("lab/a:v1", tmp_path / "refs.parquet", root=root)
    hub.references("lab/a:v1", tmp_path / "refs.json", root=root)
    with pytest.raises(hub.AlreadyExistsError):
        hub.references("lab/a:v1", tmp_path / "refs.json", root=root)
    spaced = hub.Root(tmp_path / "a b%20c")
    hub.array(3, "lab/a:v1", "i4", root=spaced)[:] = 5
    hub.references("lab/a:v1", tmp_path / "spaced.json", root=spaced)
    system = fsspec.filesystem("reference", fo=str(tmp_path / "spaced.json"), asynchronous=True)
    assert zarr.open_array(zarr.storage.FsspecStore(system, read_only=True), mode="r")[:].tolist() == [5, 5, 5]
    elsewhere = make_root("memory")
    hub.array(3, "lab/a:v1", root=elsewhere)
    with pytest.raises(hub.ConfigError, match="nobody else"):
        hub.references("lab/a:v1", tmp_path / "x.json", root=elsewhere)
