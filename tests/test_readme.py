"""The README is true: each of its code blocks runs, in order, as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hubarray as hub
from tests.servers import ACCESS_KEY, SECRET_KEY

REPOSITORY = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(language):
    return [code for result, code in BLOCK.findall((REPOSITORY / "README.md").read_text()) if result == language]


def test_every_block_is_of_a_language_that_is_tested():
    assert {language for language, _ in BLOCK.findall((REPOSITORY / "README.md").read_text())} == {"python", "sh"}


@pytest.fixture
def cloud(s3_server, monkeypatch):
    """A reader's own bucket, with credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    # SeaweedFS makes a bucket when an administrator first writes to it.
    hub.Root("s3://my-bucket").store.put("ready", b"1")


def test_the_python_blocks_run_in_order(cloud, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for i, code in enumerate(_blocks("python")):
        exec(compile(code, f"README.md, block {i + 1}", "exec"), namespace)
    assert hub.list() == ["lab/photos:v1", "lab/train:v1", "team/drives:v1"]
    assert len(namespace["index"]) == 30
    labels = [label for batch in namespace["batches"] for label in batch["label"].tolist()]
    assert sorted(labels) == list(range(8))


def test_the_shell_blocks_are_the_set_up_commands_and_the_command_line(monkeypatch, tmp_path):
    commands = [line.split("#")[0].split() for block in _blocks("sh") for line in block.splitlines()]
    assert commands == [["pip", "install", "."], ["hubarray", "doctor"], ["make", "demo"], ["make", "test"]]
    for command in commands[2:]:
        subprocess.run([*command, "--dry-run"], cwd=REPOSITORY, check=True, capture_output=True)
    monkeypatch.setenv("HUBARRAY_ROOT", str(tmp_path / "root"))
    program = Path(sys.executable).with_name("hubarray")
    subprocess.run([program, *commands[1][1:]], check=True, capture_output=True)


def test_the_demo_does_its_main_job_in_time(tmp_path, monkeypatch):
    monkeypatch.setenv("HUBARRAY_ROOT", str(tmp_path / "root"))
    command = [sys.executable, str(REPOSITORY / "examples" / "demo.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    for expected in ("1500 crops", "MB/s", "another process opened", "differs from v1 in 6 of 1505 chunks"):
        assert expected in run.stdout
