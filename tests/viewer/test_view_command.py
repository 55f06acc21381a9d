"""``hubarray view`` and the ``view`` of handles: what is opened where, and how it ends."""

import json
import logging
import os
import signal
import subprocess
import sys
import webbrowser

import numpy as np
import pytest

import hubarray as hub
from tests.viewer.conftest import get


@pytest.fixture
def command(root):
    """Starts ``hubarray view`` in a process of its own, and gives the lines that it prints."""
    started = []

    def run(*arguments, lines=1, **environment):
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHONUNBUFFERED")
        }
        item = subprocess.Popen(
            [sys.executable, "-m", "hubarray", *arguments, "--root", root.url], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**kept, **environment},
        )  # fmt: skip
        started.append(item)
        return item, [item.stdout.readline().strip() for _ in range(lines)]

    yield run
    for item in started:
        item.kill()
        item.wait()
        item.stdout.close()
        item.stderr.close()


def test_the_command_prints_the_address_and_the_ssh_line_serves_and_ends_by_an_interrupt(command, root):
    hub.store(np.zeros((8, 8), "u1"), "t/x:v1", root=root)
    process, (first, second) = command("view", "t/x:v1", lines=2)
    url = first.rpartition(" ")[2]
    assert url.endswith("#name=t/x:v1")
    port = url.split(":")[2].partition("/")[0]
    assert second.startswith(f"from your own machine: ssh -L {port}:127.0.0.1:{port} ")
    assert get(url).status == 200
    assert get(url.partition("#")[0] + "api/facts?name=t/x:v1").status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stderr.read() == ""


def test_without_a_browser_and_as_json_the_address_alone_is_printed(command, root):
    hub.array(3, "t/x:v1", root=root)
    _, (line,) = command("view", "--no-browser")
    assert get(line).status == 200
    told = json.loads("".join(command("view", "t/x:v1", "--json", lines=4)[1]))
    assert get(told["url"]).status == 200
    assert f":{told['port']}/" in told["url"]
    link = command("view", "t/x:v1", "--with", "neuroglancer", "--no-browser")[1][0]
    assert link.startswith("https://neuroglancer-demo.appspot.com/#!")


@pytest.mark.parametrize("arguments", [("view", "t/none:v1"), ("view", "--host", "0.0.0.0"), ("view", "--port", "99999"),
                                       ("view", "t/x:v1", "--key", "a"), ("view", "--allow-origin", "*")], ids=str)  # fmt: skip
def test_what_cannot_be_shown_ends_the_command_with_a_reason(command, root, arguments):
    hub.array(3, "t/x:v1", root=root)
    process, _ = command(*arguments)
    assert process.wait(30) not in (0, None)
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("over_ssh", [False, True])
def test_with_a_display_the_browser_is_opened_but_not_over_ssh(root, capsys, monkeypatch, over_ssh):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    if over_ssh:
        monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 22 10.0.0.2 22")
    else:
        monkeypatch.delenv("SSH_CONNECTION", raising=False)
    with hub.view(root=root) as viewer:
        assert opened == ([] if over_ssh else [viewer.url])
        assert ("ssh -L" in capsys.readouterr().out) == over_ssh


def test_a_viewer_leaves_the_log_handlers_of_the_program_open(root, monkeypatch):
    handler, closed = logging.StreamHandler(), []
    monkeypatch.setattr(handler, "close", lambda: closed.append(True))
    with hub.view(root=root, open_browser=False) as viewer:
        assert get(viewer.url).status == 200
    assert not closed


def test_arrays_tables_and_datasets_show_themselves(root):
    a = hub.array((4, 4), "t/x:v1", root=root)
    a[0] = 1
    ds = hub.dataset({"image": hub.ArraySpec((0, 4), dims=("s", None))}, "t/ds:v1", root=root)
    with hub.table_writer("t/rows:v1", hub.Schema({"a": hub.Field("i4")}), root=root) as w, w.partition("p") as p:
        p.append({"a": 1})
    pages = {
        "#name=t/x:v1": a, "#name=t/x:v1@1": hub.load("t/x:v1@1", root=root), "#name=t/ds:v1": ds,
        "#name=t/ds:v1&key=image": ds["image"], "#name=t/rows:v1": hub.load("t/rows:v1", root=root),
    }  # fmt: skip
    for page, handle in pages.items():
        with handle.view(open_browser=False) as viewer:
            assert viewer.url.partition("#")[2] == page[1:]
            assert get(viewer.url).status == 200
            assert viewer.url in viewer._repr_html_()
