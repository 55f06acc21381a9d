"""kill -9 of exports, imports and resumed writers at every storage call: what comes after has nothing of what was before."""

import signal

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import hubarray as hub
from hubarray.api.resolve import resolve
from hubarray.interop.import_ import arrays as importing
from hubarray.interop.import_ import datasets as importing_groups
from hubarray.tables.write import writer as table_writing
from tests.promises.killing import killed_writers
from tests.rounds import rounds

NAME, STAGING = "t/x:v0", "t/x:v0.writing"
SPEC = hub.ArraySpec(10, "i4", chunks=2)
SCHEMA = hub.Schema({"v": hub.Field("i8", index=True)})
STEP_BYTES = 1 << 9


def beside(root, name):
    """A path beside the folder of a root."""
    return f"{resolve(root).url.removeprefix('file://')}-{name}"


def small_steps():
    """Little data has several steps, which would be 64 MiB each, and partitions wait for no others."""
    importing.IMPORT_STEP_BYTES = importing_groups.STEP_BYTES = STEP_BYTES
    table_writing.MAX_WAITING_PARTS = 1


class ExportOfAnArray:
    def prepare(self, root):
        hub.array(10, NAME, "i4", chunks=2, root=root)[:] = 1
        hub.export(NAME, beside(root, "x.zarr"), root=root)
        hub.load(NAME, root=root)[:] = 2

    def first(self, root):
        hub.export(NAME, beside(root, "x.zarr"), root=root, overwrite=True)

    second = first

    def seen(self, root):
        try:
            return {"a": zarr.open_array(beside(root, "x.zarr"), mode="r")[...].tolist()}
        except (FileNotFoundError, ValueError, zarr.errors.BaseZarrError):
            return None


class ExportOfADataset(ExportOfAnArray):
    def prepare(self, root):
        ds = hub.dataset({"a": SPEC, "b": SPEC}, NAME, root=root)
        self.write(ds, 1)
        hub.export(NAME, beside(root, "x.zarr"), root=root)
        self.write(ds, 2)

    def write(self, ds, value):
        with ds.transaction() as t:
            t["a"][...] = t["b"][...] = value

    def seen(self, root):
        try:
            group = zarr.open_group(beside(root, "x.zarr"), mode="r")
        except (FileNotFoundError, ValueError, zarr.errors.BaseZarrError):
            return None
        return {name: array[...].tolist() for name, array in group.arrays()}


class ImportOfAnotherArray:
    def prepare(self, root):
        group = zarr.open_group(beside(root, "x.zarr"), mode="w")
        for name, value in (("a", 1), ("b", 2)):
            group.create_array(name, shape=(512,), chunks=(64,), dtype="i4")[:] = value

    def first(self, root):
        hub.import_(beside(root, "x.zarr"), NAME, key="a", chunks=(64,), root=root)

    def second(self, root):
        hub.import_(beside(root, "x.zarr"), NAME, key="b", chunks=(64,), root=root)

    def seen(self, root):
        return {"x": hub.load(NAME, root=root)[...].tolist()} if hub.exists(NAME, root=root) else None


class ImportOfAnotherGroup:
    def prepare(self, root):
        with h5py.File(beside(root, "x.h5"), "w") as file:
            for name, value in (("train", 1), ("test", 2)):
                for item in ("x", "y"):
                    file[f"{name}/{item}"] = np.full(512, value)

    def first(self, root):
        hub.import_(beside(root, "x.h5"), NAME, key="train", root=root)

    def second(self, root):
        hub.import_(beside(root, "x.h5"), NAME, key="test", root=root)

    def seen(self, root):
        if not hub.exists(NAME, root=root):
            return None
        return {name: item[...].tolist() for name, item in hub.load(NAME, root=root).items()}


class ImportOfAnotherCodec(ImportOfAnotherArray):
    def prepare(self, root):
        np.save(beside(root, "x.npy"), np.full((16, 8, 8, 3), 2, "u1") + np.arange(8, dtype="u1")[:, None])

    def first(self, root):
        hub.import_(beside(root, "x.npy"), NAME, codec="jpeg", root=root)

    def second(self, root):
        hub.import_(beside(root, "x.npy"), NAME, root=root)


class ResumedWriter:
    value = 1

    def prepare(self, root):
        pass

    def first(self, root):
        self.write(root, 1)

    def second(self, root):
        self.write(root, 2)

    def write(self, root, value):
        with hub.table_writer(NAME, SCHEMA, resume=True, root=root) as w:
            for key in ("a", "b", "c"):
                if key not in w:
                    with w.partition(key) as p:
                        p.extend({"v": value} for _ in range(3))

    def seen(self, root):
        if not hub.exists(NAME, root=root):
            return None
        return {"v": hub.read_index(NAME, root=root)["v"].tolist()}


class ImportOfAnotherFolder(ResumedWriter):
    def prepare(self, root):
        import pathlib

        for name, value in (("one", 1), ("two", 2)):
            folder = pathlib.Path(beside(root, name))
            folder.mkdir()
            for i in range(3):
                pq.write_table(pa.table({"v": [value] * 3}), folder / f"{i}.parquet")

    def write(self, root, value):
        hub.import_table(beside(root, "one" if value == 1 else "two"), NAME, SCHEMA, resume=True, root=root)


WHAT = {
    item.__name__: item()
    for item in (
        ExportOfAnArray, ExportOfADataset, ImportOfAnotherArray, ImportOfAnotherGroup, ImportOfAnotherCodec,
        ResumedWriter, ImportOfAnotherFolder,
    )
}  # fmt: skip


def work(what):
    """What is killed."""
    small_steps()
    WHAT[what].first(None)


@pytest.fixture(scope="module")
def writing():
    with killed_writers(__name__) as run:
        yield run


@pytest.mark.parametrize("what", WHAT)
def test_what_comes_after_a_kill_has_nothing_of_what_was_before(
    what, make_root, tmp_path, forget, writing, monkeypatch
):
    for module, name in ((importing, "IMPORT_STEP_BYTES"), (importing_groups, "STEP_BYTES")):
        monkeypatch.setattr(module, name, STEP_BYTES)
    item = WHAT[what]
    first, second = _outcome(item.first, item, make_root("local")), _outcome(item.second, item, make_root("local"))
    root = make_root("local")
    item.prepare(root)
    code, calls = writing(root, tmp_path, -1, what)
    assert code == 0
    published = 0
    for kill_at in range(1, calls + 1, 1 if what == "ResumedWriter" else rounds(3, 1)):
        root = make_root("local")
        item.prepare(root)
        before = item.seen(root)
        assert writing(root, tmp_path, kill_at, what)[0] in (-signal.SIGKILL, 0)
        forget()
        assert item.seen(root) in (None, before, first)
        if not what.startswith("Export"):
            if hub.exists(NAME, root=root):
                published += 1
                hub.delete(NAME, root=root)
            elif what == "ResumedWriter":
                # Whoever gives the rows says which partitions are the same.
                continue
        try:
            item.second(root)
        except hub.errors.ConflictError as error:
            assert f"hub.delete('{STAGING}')" in str(error)
            hub.delete(STAGING, root=root)
            item.second(root)
        assert item.seen(root) == second
    assert published or what != "ResumedWriter"


def _outcome(run, one, root):
    one.prepare(root)
    run(root)
    return one.seen(root)
