"""A program of a user who checks types: ``make check`` runs mypy and pyright over it, in their strict modes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import hubarray as hub


def arrays(root: hub.Root) -> np.ndarray:
    """Create, write, read, tag and compare an array."""
    images: hub.Array = hub.array((0, 8, 8), "lab/images:v1", "uint8", dims=("sample", "y", "x"), root=root)
    added: slice = images.append(np.zeros((5, 8, 8), "uint8"))
    images[added] = 7
    with images.transaction("brighten") as t:
        t[0] = t[0] + 1
    number: int = hub.tag("lab/images:v1", "paper", root=root)
    assert number == 4
    shape: tuple[int, ...] = images.shape
    dtype: np.dtype[np.generic] = images.dtype
    assert shape == (5, 8, 8)
    assert dtype == np.uint8
    messages: list[str] = [commit.message for commit in hub.log("lab/images:v1", root=root)]
    assert messages[-1] == "create"
    names: list[str] = hub.list(root=root)
    assert names == ["lab/images:v1"]
    result: np.ndarray = images[0:2]
    return result


def datasets(root: hub.Root) -> hub.Dataset:
    """Gather arrays under one name."""
    spec = hub.ArraySpec((0, 8), "float32", dims=("sample", "x"))
    ds = hub.dataset({"image": spec, "label": hub.ArraySpec(0, "int64", dims=("sample",))}, "lab/set:v1", root=root)
    ds.append({"image": np.zeros((3, 8)), "label": range(3)})
    lengths: dict[str, int] = dict(ds.dims)
    assert lengths["sample"] == 3
    return ds


def tables(root: hub.Root) -> int:
    """Write a table, and query its index."""
    schema = hub.Schema({"frame": hub.Field("int64", index=True), "speed": hub.Field("float32", nullable=True)})
    with hub.table_writer("lab/drives:v1", schema, root=root) as writer, writer.partition("monday") as part:
        part.extend({"frame": i, "speed": None if i == 2 else float(i)} for i in range(4))
    index = hub.read_index("lab/drives:v1", root=root)
    loader: hub.RowLoader = hub.row_loader(index[index["frame"] > 1], root=root)
    assert loader.get_row(0)["speed"] is None
    return len(loader)


def rows(root: hub.Root) -> Iterator[int]:
    """Read an epoch."""
    with hub.make_reader("lab/drives:v1", num_epochs=1, root=root) as reader:
        for row in reader:
            yield int(row.frame)


def errors(root: hub.Root) -> str:
    """Catch an error by its class."""
    try:
        hub.load("lab/nothing:v1", root=root)
    except hub.errors.NotFoundError as error:
        return str(error)
    return ""


def kinds(root: hub.Root) -> list[str]:
    """Tell the kinds of what is loaded."""
    shown: list[str] = []
    for name in hub.list(root=root):
        result = hub.load(name, root=root)
        if isinstance(result, hub.Array):
            shown.append(f"{name}: {result.dtype}")
        elif isinstance(result, hub.Dataset):
            shown.append(f"{name}: {list(result)}")
        else:
            shown.append(f"{name}: {len(result)} rows")
    return shown
