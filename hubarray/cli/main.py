"""The command line as a whole, and what the outcome of a command is to the shell.

Exit codes: 0 done, 1 not done (with a message on the error stream), 2 used wrongly, 3 done and problems were found,
130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import hubarray as hub
from hubarray.cli.command import COMMANDS
from hubarray.cli.output import Output, complain, drop_output
from hubarray.errors import HubError

# Importing them makes them known; help lists them in this order.
for _module in ("look", "versions", "data", "rows", "reading", "upkeep", "view", "doctor", "explain", "completion"):
    importlib.import_module(f"hubarray.cli.{_module}")

_PROGRAM = "hubarray"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Arrays that live in a bucket under a name and a version.",
        epilog="Names are owner/name:version, with @number or @tag for a commit. The root is --root, HUBARRAY_ROOT, or "
        "what the configuration says. 'hubarray COMMAND --help' has examples. Exit status: 0 done, 1 not done, 2 wrong "
        "usage, 3 differences or problems found, 130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"hubarray {hub.__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    for command in COMMANDS.values():
        command.add_to(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    chosen = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output = Output(json=getattr(chosen, "json", False))
    try:
        code: int = chosen.run(chosen, output)
        output.finish()
        return code
    except BrokenPipeError:
        # Whoever read us, such as head, has seen enough.
        drop_output()
        return 0
    except KeyboardInterrupt:
        complain("interrupted; nothing is half done")
        return 130
    except HubError as error:
        return _failed(chosen, type(error).__name__, str(error))
    except Exception as error:
        if os.environ.get("HUBARRAY_DEBUG"):
            raise
        text = str(error) or "no more is known; HUBARRAY_DEBUG=1 shows where"
        return _failed(
            chosen,
            type(error).__name__,
            text if isinstance(error, (IndexError, ValueError, OSError)) else f"{type(error).__name__}: {text}",
        )


def _failed(chosen: Any, kind: str, text: str) -> int:
    for line in f"{_PROGRAM} {chosen.command}: {text}".split("\n"):
        complain(line)
    if getattr(chosen, "json", False):
        Output(json=True).fail(kind, text)
    return 1
