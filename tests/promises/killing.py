"""Writers that are killed at one of their storage calls, each in a forked child of a process that has all imported."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

PROGRAM = """
import importlib, json, os, signal, sys, threading, traceback
import numcodecs.blosc, numpy as np, obstore.store, pandas, pyarrow.parquet
import hubarray as hub
from hubarray.storage.base import Store

work = importlib.import_module(sys.argv[1]).work
calls, turn = 0, threading.Lock()

def dying(verb, kill_at):
    real = getattr(Store, verb)
    def call(self, key, *args, **kwargs):
        global calls
        with turn:
            calls += 1
            own = calls
        if own == kill_at and own % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, key, *args, **kwargs)
        if own == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(Store, verb, call)

def run(url, cache, kill_at, what):
    hub.configure(root=url, cache_dir=cache)
    for verb in ("get", "put", "put_if_absent", "head", "delete"):
        dying(verb, kill_at)
    work(what)

for line in sys.stdin:
    reader, pipe = os.pipe()
    child = os.fork()
    if not child:
        try:
            run(*json.loads(line))
            os.write(pipe, b"%d" % calls)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(pipe)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), int(os.read(reader, 9) or 0)]), flush=True)
    os.close(reader)
"""


@contextlib.contextmanager
def killed_writers(module: str) -> Iterator[Callable[..., list[int]]]:
    """Run ``module.work(what)`` under the configured root, killed before or after its n-th call; -1: not at all.

    Gives the exit code, and how many calls were made.
    """
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None

        def run(root: Any, tmp_path: Any, kill_at: int, what: str) -> list[int]:
            print(json.dumps([root.url, str(tmp_path / "cache"), kill_at, what]), file=writers.stdin, flush=True)
            result: list[int] = json.loads(writers.stdout.readline())
            return result

        yield run
        writers.stdin.close()
