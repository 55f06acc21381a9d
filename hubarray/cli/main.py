"""The commands, their arguments, and what their outcome is to the shell.

Exit codes: 0 done, 1 not done (with a message on the error stream), 2 used wrongly, 3 done and problems were found,
130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import hubarray as hub
from hubarray.cli import commands, completion, doctor
from hubarray.cli.output import Output
from hubarray.errors import HubError
from hubarray.shown import shown_text

_PROGRAM = "hubarray"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Arrays that live in a bucket under a name and a version.",
        epilog="Names are owner/name:version, with @number or @tag for a commit. The root is --root, HUBARRAY_ROOT, or "
        "what the configuration says. 'hubarray COMMAND --help' has examples.",
    )
    top.add_argument("--version", action="version", version=f"hubarray {hub.__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(
        name: str, run: Callable[..., int], summary: str, examples: str, *, json: bool = True
    ) -> argparse.ArgumentParser:
        one = subparsers.add_parser(
            name, help=summary, description=summary, epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        one.add_argument("--root", metavar="URL", help="the bucket or folder, if not the configured one")
        if json:
            one.add_argument("--json", action="store_true", help="print JSON, for scripts")
        one.set_defaults(run=run)
        return one

    def message(one: argparse.ArgumentParser) -> None:
        one.add_argument("-m", "--message", help="for the log")

    one = add("ls", commands.ls, "List versions.", "  hubarray ls\n  hubarray ls lab --long")
    one.add_argument("prefix", nargs="?", default="", help="an owner, or owner/name and its beginnings")
    one.add_argument("-l", "--long", action="store_true", help="with shape, dtype and commit; opens each")

    one = add(
        "info",
        commands.info,
        "Describe an array.",
        "  hubarray info lab/scans:v1\n  hubarray info lab/scans:v1@12 --json",
    )
    one.add_argument("name")

    one = add("log", commands.log, "Show commits, the newest first.", "  hubarray log lab/scans:v1 -n 5")
    one.add_argument("name")
    one.add_argument("-n", "--number", type=_count, help="how many")

    one = add(
        "diff",
        commands.diff,
        "Show where two versions or commits differ; exits with 3 if they do.",
        "  hubarray diff lab/scans:v1@3 lab/scans:v1",
    )
    one.add_argument("a")
    one.add_argument("b")
    one.add_argument("--elements", action="store_true", help="read what differs, and compare it element by element")

    one = add(
        "copy",
        commands.copy,
        "Make a new version of another one; no data moves.",
        "  hubarray copy lab/scans:v1 lab/scans:try",
    )
    one.add_argument("source")
    one.add_argument("target")
    message(one)

    one = add("freeze", commands.freeze, "Make a version immutable, for good.", "  hubarray freeze lab/scans:v1 --yes")
    one.add_argument("name")
    one.add_argument("-y", "--yes", action="store_true", help="do not ask")
    message(one)

    one = add(
        "delete",
        commands.delete,
        "Delete a version, or all versions of a name.",
        "  hubarray delete lab/scans:try\n  hubarray delete lab/scans --yes",
    )
    one.add_argument("name")
    one.add_argument("-y", "--yes", action="store_true", help="do not ask")
    message(one)

    one = add(
        "tag",
        commands.tag,
        "Name a commit for good, or show the tags.",
        "  hubarray tag lab/scans:v1 paper\n  hubarray tag lab/scans:v1@7 baseline\n  hubarray tag lab/scans:v1",
    )
    one.add_argument("name")
    one.add_argument("tag", nargs="?")
    message(one)

    one = add(
        "untag",
        commands.untag,
        "Take a tag away.",
        "  hubarray untag lab/scans:v1 draft",
    )
    one.add_argument("name")
    one.add_argument("tag")
    message(one)

    one = add(
        "rename",
        commands.rename,
        "Give a version another name, with its history; no data moves.",
        "  hubarray rename lab/scans:v1 lab/volumes:v1",
    )
    one.add_argument("name")
    one.add_argument("to")
    message(one)

    one = add(
        "undo",
        commands.undo,
        "Take back the newest changes, as a commit.",
        "  hubarray undo lab/scans:v1\n  hubarray undo lab/scans:v1 -n 3",
    )
    one.add_argument("name")
    one.add_argument("-n", "--steps", type=_count, default=1, help="how many changes (default: 1)")
    message(one)

    one = add(
        "restore",
        commands.restore,
        "Make an older commit's state the newest one; brings back a deleted version, too.",
        "  hubarray restore lab/scans:v1 12\n  hubarray restore lab/scans:v1 paper",
    )
    one.add_argument("name")
    one.add_argument("commit", help="a number or a tag")
    message(one)

    one = add(
        "merge",
        commands.merge,
        "Bring the changes of a copied version into the one it was copied from, or the other way.",
        "  hubarray merge lab/scans:mine lab/scans:v1\n"
        "  hubarray merge lab/scans:mine lab/scans:v1 --on-conflict theirs",
    )
    one.add_argument("source", help="whose changes are wanted")
    one.add_argument("into", help="the version that gets them")
    one.add_argument("--on-conflict", choices=("ours", "theirs"), help="whose elements stay where both changed them")
    message(one)

    one = add(
        "expire",
        commands.expire,
        "Let old commits go; 'hubarray gc' frees their data after the grace period.",
        "  hubarray expire lab/scans:v1 --keep-last 10\n  hubarray expire lab/scans:v1 --older-than 2026-01-01 --yes",
    )
    one.add_argument("name")
    one.add_argument("--keep-last", type=_count, metavar="N", help="how many of the newest commits stay")
    one.add_argument("--older-than", metavar="TIME", help="only commits from before this moment; UTC unless it says so")
    one.add_argument("-y", "--yes", action="store_true", help="do not ask")
    message(one)

    one = add(
        "compact",
        commands.compact,
        "Write scattered chunks, and those in mostly dead packs, again side by side.",
        "  hubarray compact lab/scans:v1 --dry-run\n  hubarray compact lab/scans:v1",
    )
    one.add_argument("name")
    one.add_argument("--dry-run", action="store_true", help="only say what would be written again")
    message(one)

    one = add(
        "repair",
        commands.repair,
        "Put back what is missing or altered, from whatever still has it.",
        "  hubarray repair lab/scans",
    )
    one.add_argument("name", help="owner/name")

    one = add(
        "import",
        commands.import_,
        "Make an array of files, a Zarr, HDF5, images, audio or video.",
        "  hubarray import scans.npy lab/scans:v1\n"
        "  hubarray import 'photos/*.jpg' lab/photos:v1\n"
        "  hubarray import data.h5 lab/volume:v1 --key raw/volume",
    )
    one.add_argument("source")
    one.add_argument("name")
    one.add_argument("--key", help="which array, of a file with several")
    one.add_argument("--follow-links", action="store_true", help="take data that lies in other files, too")
    one.add_argument("--source-options", metavar="JSON", help="storage options of the source, as s3fs takes them")
    one.add_argument("--chunks", help="shape of a chunk, such as 16,64,64")
    one.add_argument("--codec", default="auto", help="auto, blosc-zstd, zstd, gzip, lz4 or none")
    message(one)

    one = add(
        "export",
        commands.export,
        "Write an array as Zarr v3, .npy or HDF5.",
        "  hubarray export lab/scans:v1 scans.npy\n  hubarray export lab/scans:v1@paper s3://bucket/scans.zarr",
    )
    one.add_argument("name")
    one.add_argument("target")
    one.add_argument("--format", choices=("zarr", "npy", "hdf5"))
    one.add_argument("--key", help="the array's name in the HDF5 file, or in a Zarr group")
    one.add_argument("--overwrite", action="store_true")
    one.add_argument("--target-options", metavar="JSON", help="storage options of the target, as s3fs takes them")

    one = add(
        "transfer",
        commands.transfer,
        "Bring a version with its history to another root.",
        "  hubarray transfer lab/scans:v1 s3://other-bucket/hub",
    )
    one.add_argument("name")
    one.add_argument("to")
    one.add_argument("--target-options", metavar="JSON", help="storage options of the other root, as s3fs takes them")

    one = add(
        "verify",
        commands.verify,
        "Check that everything that versions need is there and whole.",
        "  hubarray verify lab/scans\n  hubarray verify lab/scans:v1 --quick",
    )
    one.add_argument("name")
    one.add_argument("--quick", action="store_true", help="sizes and manifests only, without reading the data")

    one = add(
        "gc",
        commands.gc,
        "Delete data that nothing refers to any more.",
        "  hubarray gc lab/scans --dry-run\n  hubarray gc lab/scans",
    )
    one.add_argument("name", help="owner/name")
    one.add_argument("--dry-run", action="store_true", help="only say what would go")

    one = add("du", commands.du, "Show what names take in the bucket.", "  hubarray du\n  hubarray du lab/scans --json")
    one.add_argument("prefix", nargs="?", default="")

    one = add(
        "cache", commands.cache, "Show or empty this machine's cache.", "  hubarray cache\n  hubarray cache --clear"
    )
    one.add_argument("--clear", action="store_true", help="delete what is cached; nothing is lost")

    one = add(
        "get",
        commands.get,
        "Read a part of an array: print it, or save it as .npy.",
        "  hubarray get lab/scans:v1 '0:2, 10, ::4'\n  hubarray get lab/scans:v1 100:200 -o part.npy",
    )
    one.add_argument("name")
    one.add_argument("index", nargs="?", default="...", help="as in Python's brackets (default: ...)")
    one.add_argument("-o", "--output", help="a .npy file, or - for standard output")
    one.add_argument("--overwrite", action="store_true", help="replace the file")
    one.add_argument("-y", "--yes", action="store_true", help="do not ask before more than 1 GB is read")

    one = add(
        "put",
        commands.put,
        "Assign a .npy file, or a number, to a part of an array.",
        "  hubarray put lab/scans:v1 100:200 part.npy\n  hubarray put lab/scans:v1 '..., 0' 0",
    )
    one.add_argument("name")
    one.add_argument("index")
    one.add_argument("value", help="a .npy file, - for one on standard input, or a number")
    message(one)

    one = add(
        "bench",
        commands.bench,
        "Measure how fast this machine reads and writes the root.",
        "  hubarray bench\n  hubarray bench --root s3://bucket/hub --megabytes 200",
    )
    one.add_argument("--megabytes", type=_count, default=100)

    add(
        "doctor",
        doctor.doctor,
        "Check root, credentials, clock and cache, and say what to mend.",
        "  hubarray doctor\n  hubarray doctor --root s3://bucket/hub",
    )

    one = add(
        "completion",
        completion.completion,
        "Print a script that completes commands and options in a shell.",
        "  source <(hubarray completion bash)\n  hubarray completion zsh > ~/.zfunc/_hubarray",
        json=False,
    )
    one.add_argument("shell", choices=completion.SHELLS)
    one.set_defaults(top=top)
    return top


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted; nothing is half done", file=sys.stderr)
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
        print(shown_text(line), file=sys.stderr)
    if getattr(chosen, "json", False):
        Output(json=True).fail(kind, text)
    return 1
