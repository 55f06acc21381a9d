"""A process of its own for hostile input: how it ends, what it prints, and how much memory it took above its start."""

import subprocess
import sys
import textwrap

MAX_SECONDS = 25
MAX_MIB = 512

_AROUND = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import numpy, pandas, pyarrow.parquet, zarr
import hubarray as hub

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10

start = peak()
try:
{work}
    outcome = "read"
except hub.HubError as error:
    outcome = f"refused {{type(error).__name__}} {{error}}"
print(peak() - start, outcome)
"""


def outcome_of(work, *arguments):
    """What some lines of Python come to: "read", or "refused", the class and the message; and the MiB they took."""
    code = _AROUND.format(work=textwrap.indent(textwrap.dedent(work).strip(), "    "))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    mib, _, outcome = child.stdout.strip().splitlines()[-1].partition(" ")
    return outcome, int(mib)


def assert_refused(work, *arguments, match=""):
    """It is an error of ours, within the seconds and the memory that hostile input may take."""
    outcome, mib = outcome_of(work, *arguments)
    assert outcome.startswith("refused"), outcome
    assert match in outcome, outcome
    assert mib < MAX_MIB, f"{mib} MiB: {outcome}"
