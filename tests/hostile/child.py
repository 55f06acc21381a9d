"""A process of its own for hostile input: how it ends, what it prints, and how much memory it took above its start."""

import subprocess
import sys
import textwrap

MAX_SECONDS = 5
MAX_MIB = 512
# Of the whole process, which imports much before, on a machine that may be busy.
_PATIENCE_SECONDS = 60

_AROUND = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import numpy, pandas, pyarrow.parquet, zarr
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
    command = [sys.executable, "-c", code, *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    mib, seconds, outcome = child.stdout.strip().splitlines()[-1].split(" ", 2)
    return outcome, int(mib), float(seconds)


def assert_refused(work, *arguments, match=""):
    """It is an error of ours, within the seconds and the memory that hostile input may take."""
    outcome, mib, seconds = outcome_of(work, *arguments)
    assert outcome.startswith("refused"), outcome
    assert match in outcome, outcome
    assert mib < MAX_MIB, f"{mib} MiB: {outcome}"
    assert seconds < MAX_SECONDS, f"{seconds} s: {outcome}"
