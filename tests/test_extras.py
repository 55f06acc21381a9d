"""What is said when an optional package is not installed, and what an array is not."""

import sys

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import MissingPackageError

OPTIONAL = pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("torch", "torch", lambda a, tmp: a.to_pytorch()),
        ("tensorflow", "tensorflow", lambda a, tmp: a.to_tensorflow()),
        ("h5py", "hdf5", lambda a, tmp: hub.export(f"{a.name}:v0", tmp / "x.h5", root=a.root)),
        ("PIL.Image", "images", lambda a, tmp: hub.import_(tmp / "x.png", "t/y:v0", root=a.root)),
        ("av", "media", lambda a, tmp: hub.import_(tmp / "x.wav", "t/y:v0", root=a.root)),
    ],
)


def beginnings(root, folder):
    """An array, and files of which no more is there than what tells their kind."""
    (folder / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "x.wav").write_bytes(b"RIFF....WAVE")
    return hub.array(3, "t/x:v0", root=root)


@OPTIONAL
def test_a_missing_package_is_named_with_the_command_that_installs_it(module, extra, use, root, tmp_path, monkeypatch):
    array = beginnings(root, tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=rf"pip install 'hubarray\[{extra}\]'"):
        use(array, tmp_path)


@OPTIONAL
def test_a_package_that_is_too_old_is_named_with_what_is_needed(module, extra, use, root, tmp_path, monkeypatch):
    array = beginnings(root, tmp_path)
    monkeypatch.setattr(f"{module.split('.')[0]}.__version__", "0.9.1+cpu")
    with pytest.raises(MissingPackageError, match=rf">=.* and 0\.9\.1\+cpu is installed: .*hubarray\[{extra}\]"):
        use(array, tmp_path)


def test_an_error_is_an_import_error_too():
    assert issubclass(MissingPackageError, ImportError)


@pytest.mark.parametrize("name", ["T", "reshape", "astype", "flatten", "tolist"])
def test_numpys_other_methods_are_refused_with_what_to_write(name, root):
    array = hub.array((3, 4), "t/x:v0", root=root)
    assert not hasattr(array, name)
    with pytest.raises(AttributeError, match=rf"a\[\.\.\.\]\.{name}"):
        getattr(array, name)
    with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
        array.nonsense


def test_numpy_takes_all_of_it_when_asked_to(root):
    array = hub.array((3, 4), "t/x:v0", "i4", root=root)
    array[...] = 5
    assert np.array_equal(np.asarray(array), np.full((3, 4), 5))
    assert np.asarray(array, dtype="f8").dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, copy=False)


def test_a_notebook_shows_a_table(root):
    array = hub.array((1000, 100), "lab/x:v0", "f4", chunks=(100, 100), root=root)
    array[...] = 1
    hub.copy("lab/x:v0", "lab/x:v1", root=root)
    shown = array._repr_html_()
    for part in ("lab/x:v0", "(1000, 100)", "float32", "400.0 kB", "in the bucket", "v0, v1", "(100, 100)"):
        assert part in shown
    endless = hub.array((10**9, 1000), "lab/endless:v0", "f4", chunks=(1, 1000), root=root)
    assert "not counted" in endless._repr_html_()


def test_hdfs_without_hadoops_libraries_says_what_to_install(monkeypatch):
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, "/nothing")
    with pytest.raises(MissingPackageError, match=r"hdfs:// needs lib.*install Java and Hadoop"):
        hub.make_reader("hdfs://127.0.0.1:9/data")
