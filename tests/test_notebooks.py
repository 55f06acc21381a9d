"""The notebooks run from top to bottom, and are kept without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def _cells(path):
    return json.loads(path.read_text())["cells"]


def test_there_are_notebooks_for_every_use():
    assert [path.stem for path in NOTEBOOKS] == [
        "datasets",
        "quickstart",
        "readers",
        "sharing",
        "statistics",
        "tables",
        "training",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    for cell in _cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


# All of them run whenever the documents are made, in which their outputs are shown; an error stops that.
@pytest.mark.timeout(300)
def test_the_quickstart_runs_and_shows_what_is_in_the_bucket(isolated, tmp_path, monkeypatch):
    from nbclient import NotebookClient
    from nbformat import read

    monkeypatch.setenv("HUBARRAY_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("HUBARRAY_CACHE_DIR", str(tmp_path / "cache"))
    (path,) = (item for item in NOTEBOOKS if item.stem == "quickstart")
    ran = NotebookClient(read(path, as_version=4), timeout=240, kernel_name="python3").execute()
    shown = [output["data"] for cell in ran.cells for output in cell.get("outputs", []) if "data" in output]
    assert any("in the bucket" in item.get("text/html", "") for item in shown)


def test_a_kernel_is_not_needed_to_import_hubarray():
    program = "import sys, hubarray; assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
