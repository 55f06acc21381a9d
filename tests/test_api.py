import difflib
import functools
import os
import subprocess
import sys

import pytest

import hubarray as hub
from hubarray.lazy_names import MOVED_NAMES
from tests import public_api


def _difference(kept):
    lines = kept.splitlines(), public_api.described().splitlines()
    return "\n".join(difflib.unified_diff(*lines, "tests/public_api.txt", "now", n=1, lineterm=""))


def test_the_public_interface_is_the_one_that_is_kept():
    difference = _difference(public_api.FILE.read_text())
    assert not difference, f"if this is meant, run: {public_api.ACCEPT}\n\n{difference}"


def test_a_parameter_a_member_or_a_base_that_changes_is_a_difference(monkeypatch):
    before = public_api.described()
    monkeypatch.setattr(hub, "exists", lambda name, *, root="": None)
    monkeypatch.setattr(hub.Array, "added", property(lambda self: 1), raising=False)
    monkeypatch.setattr(
        hub.errors, "ConfigError", type("ConfigError", (hub.HubError,), {"__module__": "hubarray.errors"})
    )
    changed = [line for line in _difference(before).splitlines()[2:] if line[0] in "+-"]
    assert changed == [
        "+    added",
        # Of DatasetArray, which is an Array.
        "+    added",
        "-exists(name, *, root=None)",
        "+exists(name, *, root='')",
        "-class ConfigError is HubError, ValueError",
        "+class ConfigError is HubError",
    ]


def test_the_public_names_are_sorted_and_there():
    assert sorted(hub.__all__) == hub.__all__
    assert all(hasattr(hub, name) for name in hub.__all__)


@pytest.mark.parametrize("old", MOVED_NAMES)
def test_a_name_of_the_first_release_is_the_new_one_and_warns(old):
    with pytest.warns(DeprecationWarning, match=rf"hub\.{old} is hub\.{MOVED_NAMES[old]} now; .* until version 0\.4"):
        result = getattr(hub, old)
    assert result is functools.reduce(getattr, MOVED_NAMES[old].split("."), hub)
    assert old not in hub.__all__
    assert old not in dir(hub)


def test_the_drop_in_for_petastorm_is_found_under_its_old_name():
    program = (
        "from hubarray.interop.petastorm.etl.dataset_metadata import materialize_dataset\n"
        "from hubarray.interop.petastorm.predicates import in_set\n"
        "import hubarray as hub\n"
        "assert in_set is hub.petastorm.in_set"
    )
    ended = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    warning = "hubarray.interop.petastorm is hubarray.petastorm now; the old name works until version 0.4"
    assert ended.stderr.count(warning) == 1


def test_the_import_ends_on_windows_with_a_sentence_that_says_why():
    program = "import sys; sys.platform = 'win32'; import hubarray"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: hubarray does not run on Windows, because")


@pytest.mark.alone
def test_importing_is_quick_and_leaves_heavy_packages_alone(tmp_path):
    # Compiled once, as it is where it is installed, whatever this run's environment says.
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compiled["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    program = (
        "import sys, time; began = time.perf_counter(); import hubarray; seconds = time.perf_counter() - began;"
        "heavy = {'zarr', 'dask', 's3fs', 'gcsfs', 'fsspec', 'obstore', 'botocore', 'pandas', 'pyarrow', 'torch', 'tqdm'};"
        "print(seconds, sorted(heavy & set(sys.modules)))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=compiled)
        for _ in range(4)
    ]
    seconds, heavy = min(float(run.stdout.split()[0]) for run in runs), runs[0].stdout.split(maxsplit=1)[1].strip()
    assert heavy == "[]"
    assert seconds < 0.5


def test_importing_warns_of_nothing():
    subprocess.run([sys.executable, "-W", "error", "-c", "import hubarray"], check=True)
