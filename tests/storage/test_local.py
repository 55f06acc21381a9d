import errno
import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.storage import local
from hubarray.storage.local import LocalStore


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(hub.errors.StorageError, match="is a file"):
        LocalStore(tmp_path / "file")


def test_a_filesystem_without_hard_links_is_refused_by_name(tmp_path, monkeypatch):
    def no_links(*args, **kwargs):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = LocalStore(tmp_path / "root")
    with pytest.raises(hub.errors.UnsafeStoreError, match=str(tmp_path)):
        store.put_if_absent("a", b"1")
    assert list(tmp_path.rglob("*")) == [tmp_path / "root"]


def test_a_filesystem_that_is_read_only_is_said_to_be(tmp_path, monkeypatch):
    def read_only(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    # What Linux says to both, whether the file is there or not.
    for name in ("open", "unlink"):
        monkeypatch.setattr(os, name, read_only)
    for write in (LocalStore.put, LocalStore.put_if_absent):
        with pytest.raises(hub.errors.StorageError, match=r"file://.*/a/b: Read-only file system"):
            write(LocalStore(tmp_path), "a/b", b"x")


def test_nothing_half_written_is_ever_under_a_final_name(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(hub.errors.StorageError, match=r"a/b.*No space left"):
        store.put("a/b", b"x" * 100)
    with pytest.raises(hub.errors.StorageError, match="No space left"):
        store.put_if_absent("a/c", b"x" * 100)
    monkeypatch.undo()
    assert list(store.list("")) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _failing_in(monkeypatch, root, name, folder, times):
    """Have a call for anything in a folder of the root fail, some times."""
    real, calls = getattr(os, name), []

    def fail(target, *args, **kwargs):
        path = os.readlink(f"/dev/fd/{target}") if isinstance(target, int) else str(target)
        there = path.startswith(str(root.store.folder / folder)) and (name == "unlink" or os.path.isdir(path))
        if there and len(calls) < times:
            calls.append(path)
            raise OSError(errno.EIO, "Input/output error")
        return real(target, *args, **kwargs)

    monkeypatch.setattr(os, name, fail)
    return calls


@pytest.mark.parametrize("name", ["unlink", "fsync"])
def test_a_commit_that_is_in_the_log_is_a_success_whatever_fails_after_it(root, monkeypatch, name):
    array = hub.array(3, "t/x:v0", "i8", chunks=2, root=root)
    # The hint of the creation lies in this folder, too.
    hub.flush()
    calls = _failing_in(monkeypatch, root, name, "t/x/log", 1)
    array.append([4])
    assert len(calls) == 1
    assert (array.commit, hub.load("t/x:v0", root=root)[...].tolist()) == (2, [0, 0, 0, 4])


def test_a_commit_that_is_in_the_log_and_cannot_be_made_durable_is_not_said_to_have_failed(root, monkeypatch):
    array = hub.array(3, "t/x:v0", "i8", chunks=2, root=root)
    _failing_in(monkeypatch, root, "fsync", "t/x/log", 100)
    with pytest.raises(hub.errors.CommitOutcomeUnknown, match="cannot be synced"):
        array.append([4])


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 40), st.integers(1, 5), st.integers(1, 40))
def test_buffers_are_written_back_to_back_in_short_steps_whatever_a_call_takes(sizes, step, max_buffers, taken):
    pieces = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    calls = []

    def short(descriptor, buffers):
        calls.append((len(buffers), sum(map(len, buffers))))
        return os.write(descriptor, b"".join(buffers)[:taken])

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as file:
        patch.setattr(local, "_STEP_BYTES", step)
        patch.setattr(local, "MAX_BUFFERS", max_buffers)
        patch.setattr(os, "writev", short)
        local.write_all(file.fileno(), pieces)
        file.seek(0)
        assert file.read() == b"".join(pieces)
    assert all(0 < count <= max_buffers and 0 < size <= step for count, size in calls)


def test_deleting_the_last_object_of_a_folder_removes_the_folder(tmp_path):
    store = LocalStore(tmp_path / "root")
    store.put("a/b/c", b"x")
    store.delete(["a/b/c"])
    assert list((tmp_path / "root").iterdir()) == []


def test_reading_makes_no_folder(tmp_path):
    store = LocalStore(tmp_path / "root")
    assert list(store.list("")) == []
    with pytest.raises(hub.errors.ObjectMissingError):
        store.get("x")
    assert not (tmp_path / "root").exists()


def test_a_file_where_a_folder_is_needed_is_named(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    with pytest.raises(hub.errors.StorageError, match="a/b"):
        store.put("a/b", b"x")


def test_a_link_that_leads_to_itself_hides_nothing(root):
    array = hub.array(4, "t/x:v0", root=root)
    array[:] = 1
    for folder in ("", "t", "t/x", "t/x/log", "t/x/log/v0", "t/x/packs"):
        loop = os.path.join(root.path, folder, "loop")
        if os.path.isdir(os.path.dirname(loop)):
            os.symlink(loop, loop)
    assert list(hub.list(root=root)) == ["t/x:v0"]
    assert hub.verify("t/x:v0", root=root).problems == []
    assert hub.collect_garbage("t/x", root=root).bytes == 0
    assert array[...].tolist() == [1, 1, 1, 1]
