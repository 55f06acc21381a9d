"""Ctrl-C during bulk work: it ends within two seconds and leaves nothing visible."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

import hubarray as hub

PROGRAM = """
import json, signal, sys, time
import numpy as np
import hubarray as hub

# A background job of a shell begins with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
url, options, cache, what = json.loads(sys.argv[1])
hub.configure(root=url, storage_options=options, cache_dir=cache, memory_cache_bytes=0, disk_cache_bytes=0)
array = hub.load("t/x:v0")
values = np.random.default_rng(0).integers(0, 255, (64, 1 << 20), dtype="u1")
print("begin", flush=True)
try:
    while True:
        if what == "write":
            array[64:] = np.broadcast_to(values[0], (64 * 64, 1 << 20))
        else:
            array[:64]
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["write", "read"])
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_an_interrupted_bulk_read_or_write_ends_soon_and_leaves_nothing_visible(kind, what, make_root, tmp_path):
    root = make_root(kind)
    array = hub.array((64 * 65, 1 << 20), "t/x:v0", "u1", root=root)
    array[:64] = np.random.default_rng(1).integers(0, 255, (64, 1 << 20), dtype="u1")
    hub.flush()
    arguments = json.dumps([root.url, root._options, str(tmp_path), what])
    command = [sys.executable, "-c", PROGRAM, arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout.readline() == "begin\n"
        time.sleep(1.0)
        worker.send_signal(signal.SIGINT)
        readable, _, _ = select.select([worker.stdout], [], [], 2)
        line = worker.stdout.readline() if readable else "nothing within two seconds"
        worker.kill()
        assert line == "interrupted\n"
    assert array.refresh().commit == 2


def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path):
    program = (
        "import sys, time; from hubarray.progress import progress\n"
        "with progress(100, 'writing x') as bar:\n"
        "    for _ in range(12):\n"
        "        time.sleep(0.15); bar.update(8)\n"
    )
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert piped.stderr == piped.stdout == ""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    subprocess.run([sys.executable, "-c", program], stderr=follower, check=True)
    readable, _, _ = select.select([leader], [], [], 5)
    shown = os.read(leader, 65536) if readable else b""
    os.close(follower)
    assert b"writing x" in shown
    os.close(leader)
