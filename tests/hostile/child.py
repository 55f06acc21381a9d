"""A process of its own for hostile input: how it ends, what it prints, and how much memory it took above its start.

One process has imported everything, and forks for each input: a fresh one would import for seconds.
"""

import atexit
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import traceback

MAX_SECONDS = 5
MAX_MIB = 512
# Of the clock, on a machine that may be busy.
_PATIENCE_SECONDS = 60
_MAX_ADDRESS_BYTES = 6 << 30

_AROUND = """
import sys, time
import hubarray as hub

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10

start, began = peak(), time.process_time()
try:
{work}
    outcome = "read"
except hub.HubError as error:
    outcome = f"refused {{type(error).__name__}} {{error}}"
print(peak() - start, time.process_time() - began, outcome)
"""


def outcome_of(work, *arguments):
    """What some lines of Python come to: "read", or "refused", the class and the message; the MiB and seconds they took.

    Seconds are of the processor, which other processes do not change.
    """
    code = _AROUND.format(work=textwrap.indent(textwrap.dedent(work).strip(), "    "))
    parent = _parent()
    parent.stdin.write(json.dumps([code, ["-c", *map(str, arguments)], dict(os.environ), os.getcwd()]) + "\n")
    parent.stdin.flush()
    status, output = json.loads(parent.stdout.readline())
    assert status == 0, output[-2000:]
    mib, seconds, outcome = output.strip().splitlines()[-1].split(" ", 2)
    return outcome, int(mib), float(seconds)


def assert_refused(work, *arguments, match=""):
    """It is an error of ours, within the seconds and the memory that hostile input may take."""
    outcome, mib, seconds = outcome_of(work, *arguments)
    assert outcome.startswith("refused"), outcome
    assert match in outcome, outcome
    assert mib < MAX_MIB, f"{mib} MiB: {outcome}"
    assert seconds < MAX_SECONDS, f"{seconds} s: {outcome}"


@functools.cache
def _parent():
    command = [sys.executable, "-m", "tests.hostile.child"]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(parent.kill)
    return parent


def _serve():
    import pandas  # noqa: F401
    import zarr  # noqa: F401

    import hubarray
    import hubarray.interop.sources
    import hubarray.readers.parquet.source

    for name in hubarray.__all__:
        getattr(hubarray, name)
    for line in sys.stdin:
        output, ours = os.pipe()
        child = os.fork()
        if not child:
            os.close(output)
            _run(*json.loads(line), ours)
        os.close(ours)
        with open(output, "rb") as file:
            printed = file.read().decode(errors="replace")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, printed]), flush=True)


def _run(code, arguments, environment, folder, output):
    """Run a program as ``python -c`` does, and end the process."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.alarm(_PATIENCE_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESS_BYTES, _MAX_ADDRESS_BYTES))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    status = 0
    try:
        exec(compile(code, "<hostile>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
