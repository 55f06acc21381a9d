"""Programs that run in forks of one process, which has imported what they need: a fresh process would import for seconds.

>>> [ended] = run(["import sys; print(sys.argv[1])"], arguments=[["yes"]])
>>> ended.status, ended.output
(0, 'yes\\n')
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit status, negative for a signal, and what it printed."""

    status: int
    output: str
    errors: str


def run(
    programs: Sequence[str],
    *,
    arguments: Sequence[Sequence[str]],
    imports: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    seconds: int = 60,
    max_address_bytes: int | None = None,
) -> list[Ended]:
    """Run programs at the same time, each as ``python -c`` does.

    Parameters
    ----------
    programs : sequence of str
    arguments : sequence of sequence of str
        Of each program.
    imports : sequence of str
        Modules that the process which forks has imported.
    environment : mapping of str to str, optional
        This process's by default.
    seconds : int
        A program that takes longer is killed.
    max_address_bytes : int, optional
    """
    parent = _parent(tuple(imports))
    job = {
        "programs": list(zip(programs, arguments, strict=True)), "seconds": seconds, "folder": os.getcwd(),
        "environment": dict(os.environ if environment is None else environment), "max_address_bytes": max_address_bytes,
    }  # fmt: skip
    parent.stdin.write(json.dumps(job) + "\n")
    parent.stdin.flush()
    return [Ended(*item) for item in json.loads(parent.stdout.readline())]


@functools.cache
def _parent(imports: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.forked", *imports]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(parent.kill)
    return parent


def _serve(imports: Sequence[str]) -> None:
    for name in imports:
        importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        started = []
        for program, arguments in job["programs"]:
            files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
            child = os.fork()
            if not child:
                _run(program, arguments, job, [file.fileno() for file in files])
            started.append((child, files))
        ended = []
        for child, files in started:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            ended.append([status, *map(_read, files)])
        print(json.dumps(ended), flush=True)


def _read(file) -> str:
    file.seek(0)
    with file:
        return file.read().decode(errors="replace")


def _run(program, arguments, job, outputs) -> None:
    """Run a program as ``python -c`` does, and end the process."""
    for ours, theirs in zip(outputs, (1, 2), strict=True):
        os.dup2(ours, theirs)
    signal.alarm(job["seconds"])
    if job["max_address_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (job["max_address_bytes"],) * 2)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status = 0
    try:
        exec(compile(program, "<program>", "exec"), main.__dict__)
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
