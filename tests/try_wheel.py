"""Whether a wheel is all that a new environment needs: ``python tests/try_wheel.py dist/hubarray-….whl``."""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = """
import importlib.metadata
import numpy as np
import hubarray as hub

hub.array((6, 4), "try/wheel:v0", dtype="i4", chunks=(2, 4))[2:5] = 7
read = hub.load("try/wheel:v0")[...]
assert read.dtype == np.int32 and read.sum() == 7 * 12, read
about = importlib.metadata.metadata("hubarray")
assert about["Version"] == hub.__version__
assert about["License-Expression"] == "Apache-2.0", about["License-Expression"]
installed = {str(file) for file in importlib.metadata.files("hubarray")}
assert "hubarray/py.typed" in installed
assert {file.split("/")[0] for file in installed if file.endswith(".py")} == {"hubarray"}, installed
"""

# With what the viewer needs beside it, each file of the page is there, with the licences of what others wrote.
VIEWER = """
import re
import urllib.request
import hubarray as hub

with hub.view("try/wheel:v0", open_browser=False) as viewer:
    base = viewer.url.partition("#")[0]
    get = lambda path: urllib.request.urlopen(base + path).read().decode()
    page = get("")
    waiting = re.findall(r'(?:href|src)="([\\w./]+)"', page)
    files = {}
    while waiting:
        file = waiting.pop()
        if file not in files:
            text = files[file] = get(file)
            assert text, file
            if not file.startswith("vendor/"):
                within = re.findall(r'from "\\./([\\w./]+)"|import\\("\\./([\\w./]+)"\\)', text)
                waiting += filter(None, sum(within, ()))
    assert len(files) > 20, sorted(files)
    assert get("api/facts?name=try/wheel:v0")
import importlib.metadata
installed = {str(file) for file in importlib.metadata.files("hubarray")}
assert {f"hubarray/viewer/static/vendor/{one}" for one in ("LICENSE.three", "LICENSE.uplot")} <= installed, installed
"""


def main(wheel):
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, program = Path(folder, "bin", "python"), Path(folder, "bin", "hubarray")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HUBARRAY_"))
        }
        subprocess.run([python, "-m", "pip", "install", "--quiet", wheel.resolve()], env=environment, check=True)
        environment |= {"HUBARRAY_ROOT": f"{folder}/root", "HOME": folder}

        def run(*command):
            return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)

        run(python, "-W", "error", "-c", "import hubarray")
        run(python, "-c", PROGRAM)
        version = run(program, "--version").stdout.split()
        assert version == ["hubarray", wheel.name.split("-")[1]], version
        assert run(program, "ls").stdout.split() == ["try/wheel:v0"]
        run(program, "doctor")
        viewer = f"{wheel.resolve()}[view]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", viewer], env=environment, check=True)
        run(python, "-c", VIEWER)
    print(f"{wheel.name} installs, writes and reads in a new environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
