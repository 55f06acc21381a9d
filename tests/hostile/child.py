"""A process of its own for hostile input: how it ends, what it prints, and how much memory it took above its start."""

import textwrap

from tests import forked

MAX_SECONDS = 5
MAX_MIB = 512
# Of the clock, on a machine that may be busy.
_PATIENCE_SECONDS = 60
_MAX_ADDRESS_BYTES = 6 << 30
_IMPORTS = ("pandas", "zarr", "tests.hostile.everything")

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
    [ended] = forked.run(
        [code], arguments=[list(map(str, arguments))], imports=_IMPORTS, seconds=_PATIENCE_SECONDS,
        max_address_bytes=_MAX_ADDRESS_BYTES,
    )  # fmt: skip
    assert ended.status == 0, f"{ended.output}{ended.errors}"[-2000:]
    mib, seconds, outcome = ended.output.strip().splitlines()[-1].split(" ", 2)
    return outcome, int(mib), float(seconds)


def assert_refused(work, *arguments, match=""):
    """It is an error of ours, within the seconds and the memory that hostile input may take."""
    outcome, mib, seconds = outcome_of(work, *arguments)
    assert outcome.startswith("refused"), outcome
    assert match in outcome, outcome
    assert mib < MAX_MIB, f"{mib} MiB: {outcome}"
    assert seconds < MAX_SECONDS, f"{seconds} s: {outcome}"
