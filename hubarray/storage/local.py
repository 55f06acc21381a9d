"""A folder as a store: durable writes, and creation that is atomic by hard link.

A record must appear whole or not at all, so an object is written under a
temporary name, fsynced, and then given its name: by ``rename`` for ``put``, by
``link`` for ``put_if_absent``, which fails if the name exists. ``O_EXCL`` on the
final name would leave an empty record for ever if the process were killed.

Others may put anything into the folder, so only regular files are read, and links are followed only within the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hubarray.bounded_dict import BoundedDict
from hubarray.errors import (
    AccessDeniedError,
    ObjectMissingError,
    StorageError,
    UnavailableError,
    UnsafeStoreError,
)
from hubarray.storage.base import MAX_BUFFERS, Buffer, ObjectInfo, Store

_TEMPORARY = ".tmp-"
# For longer writes Linux takes page cache in units of megabytes, and a virtual machine has those from its host again
# each time: packs of 16 MiB took a quarter more processor time.
_STEP_BYTES = 256 << 10
# For how long a folder that was found to lie within the root is taken to be there still.
_CHECKED_SECONDS = 1.0
_MAX_CHECKED = 4096
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_NEVER = float("-inf")
_NO_LINK = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalStore(Store):
    """Objects are files below a folder, which is made by the first write.

    Parameters
    ----------
    folder : path
        Absolute path of the root.

    Raises
    ------
    StorageError
        The path exists and is not a folder.
    """

    remote = False
    proven_create = True

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        super().__init__(self.folder.as_uri())
        self._prefix = f"{self.folder}{os.sep}"
        self._links_checked = False
        self._checked: dict[str, float] = BoundedDict(_MAX_CHECKED)
        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"the root {self.folder} is a file; give a folder, or a path that does not exist yet")

    def _path(self, key: str) -> str:
        return self._prefix + key

    def _open(self, key: str) -> tuple[int, int]:
        """A descriptor to read a regular file within the root, for the caller to close, and the file's size."""
        descriptor = self._descriptor(key)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return descriptor, status.st_size
        os.close(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ObjectMissingError(f"{self.where(key)}: no such object")
        raise self._no_file(key)

    def _descriptor(self, key: str) -> int:
        """A descriptor to read the file of a key, or what it links to within the root."""
        path = self._prefix + key
        folder = path[: path.rfind(os.sep)]
        if time.monotonic() - self._checked.get(folder, _NEVER) >= _CHECKED_SECONDS:
            self._require_inside(folder, key)
        try:
            return os.open(path, _READ)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):
                raise self._error(error, key) from None
        real = os.path.realpath(path)
        self._require_inside(os.path.dirname(real), key)
        try:
            return os.open(real, _READ)
        except OSError as error:
            raise self._error(error, key) from None

    def _no_file(self, key: str) -> StorageError:
        return StorageError(f"{self.where(key)}: is not a regular file, so it is not read; move it away")

    def _require_inside(self, folder: str, key: str) -> None:
        """Refuse a folder that a link has led out of the root."""
        now = time.monotonic()
        if now - self._checked.get(folder, _NEVER) < _CHECKED_SECONDS:
            return
        if not self._is_inside(folder):
            raise StorageError(
                f"{self.where(key)}: a link leads out of the root {self.folder}; move its target into the root, or "
                "remove the link"
            )
        self._checked[folder] = now

    def _is_inside(self, path: str) -> bool:
        real, root = os.path.realpath(path), os.path.realpath(self.folder)
        return real == root or real.startswith(os.path.join(root, ""))

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        descriptor, size = self._open(key)
        try:
            offset = start or 0
            available = max(0, size - offset)
            length = available if length is None else min(length, available)
            data = os.pread(descriptor, length, offset)
            if len(data) == length or not data:
                return data
            return data + self._rest(descriptor, offset + len(data), length - len(data))
        except OSError as error:
            raise self._error(error, key) from None
        finally:
            os.close(descriptor)

    def _read_into(self, key: str, start: int, out: Sequence[memoryview]) -> int:
        # What it is need not be known: pipes and folders have no offsets, and whoever asks checks what comes.
        descriptor = self._descriptor(key)
        try:
            done, total = os.preadv(descriptor, out, start), sum(map(len, out))
            while 0 < done < total:
                more = os.preadv(descriptor, _after(out, done), start + done)
                if not more:
                    break
                done += more
            return done
        except OSError as error:
            raise self._error(error, key) from None
        finally:
            os.close(descriptor)

    @staticmethod
    def _rest(descriptor: int, offset: int, length: int) -> bytes:
        pieces = []
        while length:
            piece = os.pread(descriptor, length, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None:
        self._write(key, pieces, os.replace if atomic else None)

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        self._check_links(key)
        try:
            self._write(key, (data,), os.link)
        except FileExistsError:
            # Whoever created it may have been killed before this.
            self._sync_created(key, os.path.dirname(self._path(key)))
            return False
        return True

    def _write(self, key: str, pieces: Sequence[Buffer], publish: Callable[[str, str], None] | None) -> None:
        """Write a file and its entry in the folder durably; without ``publish`` under its own name from the start.

        A file that is synced under its own name has its entry in the same journal transaction, on the usual
        filesystems, so that syncing the folder after it costs next to nothing.
        """
        path = self._path(key)
        parent = os.path.dirname(path)
        written = path if publish is None else os.path.join(parent, _TEMPORARY + secrets.token_hex(8))
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if publish is None else os.O_EXCL)
        # A concurrent delete may prune a folder between its making and its use.
        for attempt in range(5):
            try:
                self._make_folders(parent, key)
                descriptor = os.open(written, flags, 0o666)
                break
            except FileNotFoundError:
                if attempt == 4:
                    raise StorageError(f"{self.where(key)}: its folder cannot be made, or keeps disappearing") from None
            except StorageError:
                raise
            except OSError as error:
                raise self._error(error, key) from None
        try:
            try:
                write_all(descriptor, pieces)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if publish is not None:
                publish(written, path)
            if publish is os.link:
                _remove(written)
                self._sync_created(key, parent)
            else:
                self._sync_folder(parent)
        except BaseException as error:
            _remove(written)
            if isinstance(error, OSError) and not isinstance(error, (FileExistsError, StorageError)):
                raise self._error(error, key) from None
            raise

    def _make_folders(self, folder: str, key: str) -> None:
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        if folder.startswith(self._prefix):
            self._require_inside(folder, key)
        for path in reversed(missing):
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise NotADirectoryError(errno.ENOTDIR, "a file stands where a folder is needed", path) from None
            self._sync_folder(os.path.dirname(path))

    def _sync_created(self, key: str, folder: str) -> None:
        """Sync the folder of a file that others can see already, so that a failure leaves open whether it stays."""
        try:
            self._sync_folder(folder)
        except OSError as error:
            raise UnavailableError(
                f"{self.where(key)}: is there, but its folder cannot be synced: {error.strerror or error}"
            ) from None

    @staticmethod
    def _sync_folder(folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _check_links(self, key: str) -> None:
        if self._links_checked:
            return
        try:
            self._make_folders(str(self.folder), key)
        except OSError as error:
            raise StorageError(
                f"the root {self.folder} cannot be created: {error.strerror or error}; choose another folder"
            ) from None
        temporary = self.folder / (_TEMPORARY + secrets.token_hex(8))
        second = temporary.with_name(temporary.name + "-link")
        try:
            temporary.touch()
            os.link(temporary, second)
        except OSError as error:
            if error.errno in _NO_LINK:
                raise UnsafeStoreError(
                    f"the filesystem of {self.folder} has no hard links, which atomic commits need; "
                    "put the root on another filesystem or in a bucket"
                ) from None
            raise self._error(error, key) from None
        finally:
            _remove(temporary)
            _remove(second)
        self._links_checked = True

    def _head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        self._require_inside(os.path.dirname(path), key)
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                self._require_inside(os.path.dirname(os.path.realpath(path)), key)
                status = os.stat(path)
        except StorageError:
            raise
        except OSError as error:
            raise self._error(error, key) from None
        if stat.S_ISDIR(status.st_mode):
            raise ObjectMissingError(f"{self.where(key)}: no such object")
        if not stat.S_ISREG(status.st_mode):
            raise self._no_file(key)
        return _info(key, status)

    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        folders = [prefix]
        while folders:
            folder = folders.pop()
            self._require_inside(self._path(folder).rstrip(os.sep), folder)
            try:
                entries = list(os.scandir(self._path(folder)))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise self._error(error, folder) from None
            for entry in entries:
                key = folder + entry.name
                if entry.name.startswith(".") or (entry.is_symlink() and not self._is_inside(entry.path)):
                    continue
                try:
                    status = None if entry.is_dir() else entry.stat()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        # A link that leads to itself leads to nothing.
                        continue
                    raise self._error(error, key) from None
                if status is None and shallow:
                    yield ObjectInfo(f"{key}/", 0, None, is_folder=True)
                elif status is None:
                    folders.append(f"{key}/")
                elif stat.S_ISREG(status.st_mode):
                    yield _info(key, status)

    def leftovers(self, prefix: str) -> Iterator[ObjectInfo]:
        """Temporary files of processes that were killed between writing and naming them."""
        self._require_inside(self._path(prefix).rstrip(os.sep), prefix)
        for folder, _, files in os.walk(self._path(prefix)):
            for name in files:
                if name.startswith(_TEMPORARY):
                    path = os.path.join(folder, name)
                    with contextlib.suppress(FileNotFoundError):
                        yield _info(path.removeprefix(self._prefix), os.lstat(path))

    def _delete(self, keys: Sequence[str]) -> None:
        folders = set()
        for key in keys:
            path = self._path(key)
            self._require_inside(os.path.dirname(path), key)
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._error(error, key) from None
            folders.add(os.path.dirname(path))
        for folder in folders:
            self._prune(folder)

    def _prune(self, folder: str) -> None:
        while folder.startswith(self._prefix):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)

    def _error(self, error: OSError, key: str) -> StorageError:
        where = self.where(key)
        if isinstance(error, (FileNotFoundError, IsADirectoryError)):
            return ObjectMissingError(f"{where}: no such object")
        if isinstance(error, NotADirectoryError):
            return StorageError(f"{where}: a file stands where a folder is needed; move it away or choose another root")
        if isinstance(error, PermissionError):
            return AccessDeniedError(f"{where}: permission denied; check who owns {self.folder}")
        if error.errno == errno.ESPIPE:
            return self._no_file(key)
        return StorageError(f"{where}: {error.strerror or error}")


def _remove(path: str | Path) -> None:
    """Remove a temporary file, if that can be done: what went wrong before is what matters."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def write_all(descriptor: int, pieces: Iterable[Buffer]) -> None:
    """Write buffers back to back, however many."""
    for step_pieces in _in_steps(pieces):
        done = os.writev(descriptor, step_pieces)
        for piece in step_pieces:
            view = piece[done:]
            done = max(0, done - len(piece))
            while view:
                view = view[os.write(descriptor, view) :]


def _in_steps(pieces: Iterable[Buffer]) -> Iterator[list[memoryview]]:
    step: list[memoryview] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece)
        while view:
            step.append(view[: _STEP_BYTES - size])
            size += len(step[-1])
            view = view[len(step[-1]) :]
            if size == _STEP_BYTES or len(step) == MAX_BUFFERS:
                yield step
                step, size = [], 0
    if step:
        yield step


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _after(buffers: Sequence[memoryview], done: int) -> list[memoryview]:
    """The rest of some buffers once the first bytes are filled."""
    left = []
    for buffer in buffers:
        if done < len(buffer):
            left.append(buffer[done:])
        done = max(0, done - len(buffer))
    return left
