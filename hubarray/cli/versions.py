"""Commands that change what a name means: copies, tags, freezing, going back, merging, deleting."""

from __future__ import annotations

from argparse import Namespace

import hubarray as hub
from hubarray import names
from hubarray.cli.command import DONE, MESSAGE, NOT_DONE, YES, argument, command, count, made
from hubarray.cli.output import Output, confirmed
from hubarray.errors import ConfigError


@command(
    "copy",
    "Copy a version or a commit to a new version, without copying data.",
    examples=("hubarray copy lab/scans:v1 lab/scans:try",),
    arguments=(
        argument("source"),
        argument("target"),
        MESSAGE,
    ),
)
def copy(arguments: Namespace, output: Output) -> int:
    """``hubarray copy``."""
    array = hub.copy(arguments.source, arguments.target, root=arguments.root, message=arguments.message)
    return made(array, output)


@command(
    "freeze",
    "Make a version immutable, which cannot be undone.",
    examples=("hubarray freeze lab/scans:v1 --yes",),
    arguments=(
        argument("name"),
        YES,
        MESSAGE,
    ),
)
def freeze(arguments: Namespace, output: Output) -> int:
    """``hubarray freeze``."""
    if not confirmed(f"Freeze {arguments.name} for good?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{arguments.name} was not frozen"}, [])
        return NOT_DONE
    hub.freeze(arguments.name, root=arguments.root, message=arguments.message)
    output.value({"frozen": arguments.name}, [f"{arguments.name} is frozen"])
    return DONE


@command(
    "delete",
    "Delete a version, or all versions of a name.",
    examples=(
        "hubarray delete lab/scans:try",
        "hubarray delete lab/scans --yes",
    ),
    arguments=(
        argument("name"),
        YES,
        MESSAGE,
    ),
)
def delete(arguments: Namespace, output: Output) -> int:
    """``hubarray delete``."""
    parsed = names.parse(names.split_root(arguments.name)[1])
    home = arguments.name if parsed.version_given else f"all versions of {arguments.name}"
    look = hub.exists if parsed.version_given else hub.list
    # Of what is not there nobody is asked: deleting it says so, with near names.
    if look(arguments.name, root=arguments.root) and not confirmed(f"Delete {home}?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{home} was not deleted"}, [])
        return NOT_DONE
    holders = hub.delete(arguments.name, root=arguments.root, message=arguments.message)
    notes = [f"what {', '.join(holders)} read of it stays; hubarray du says how much"] if holders else []
    output.value({"deleted": arguments.name, "holders": holders}, [f"{arguments.name} is deleted", *notes])
    return DONE


@command(
    "tag",
    "Tag a commit, or show the tags.",
    examples=(
        "hubarray tag lab/scans:v1 paper",
        "hubarray tag lab/scans:v1@7 baseline",
        "hubarray tag lab/scans:v1",
    ),
    arguments=(
        argument("name"),
        argument("tag", nargs="?"),
        MESSAGE,
    ),
)
def tag(arguments: Namespace, output: Output) -> int:
    """``hubarray tag``."""
    if arguments.tag is None:
        output.facts(hub.tags(arguments.name, root=arguments.root))
        return DONE
    number = hub.tag(arguments.name, arguments.tag, root=arguments.root, message=arguments.message)
    output.value({"tag": arguments.tag, "commit": number}, [f"{arguments.tag} is commit {number}"])
    return DONE


@command(
    "untag",
    "Remove a tag.",
    examples=("hubarray untag lab/scans:v1 draft",),
    arguments=(
        argument("name"),
        argument("tag"),
        MESSAGE,
    ),
)
def untag(arguments: Namespace, output: Output) -> int:
    """``hubarray untag``."""
    number = hub.untag(arguments.name, arguments.tag, root=arguments.root, message=arguments.message)
    output.value({"untagged": arguments.tag, "commit": number}, [f"{arguments.tag} no longer names commit {number}"])
    return DONE


@command(
    "rename",
    "Rename a version with its history, without moving data.",
    examples=("hubarray rename lab/scans:v1 lab/volumes:v1",),
    arguments=(
        argument("name"),
        argument("to"),
        MESSAGE,
    ),
)
def rename(arguments: Namespace, output: Output) -> int:
    """``hubarray rename``."""
    return made(hub.rename(arguments.name, arguments.to, root=arguments.root, message=arguments.message), output)


@command(
    "undo",
    "Undo the newest changes, as a commit.",
    examples=(
        "hubarray undo lab/scans:v1",
        "hubarray undo lab/scans:v1 -n 3",
    ),
    arguments=(
        argument("name"),
        argument("-n", "--steps", type=count, default=1, help="number of changes (default: 1)"),
        MESSAGE,
    ),
)
def undo(arguments: Namespace, output: Output) -> int:
    """``hubarray undo``."""
    array = hub.undo(arguments.name, steps=arguments.steps, root=arguments.root, message=arguments.message)
    return made(array, output)


@command(
    "restore",
    "Restore the state of an older commit, or a deleted version.",
    examples=(
        "hubarray restore lab/scans:v1 12",
        "hubarray restore lab/scans:v1 paper",
    ),
    arguments=(
        argument("name"),
        argument("commit", help="a number or a tag"),
        MESSAGE,
    ),
)
def restore(arguments: Namespace, output: Output) -> int:
    """``hubarray restore``."""
    commit = int(arguments.commit) if arguments.commit.isdecimal() else arguments.commit
    return made(hub.restore(arguments.name, commit, root=arguments.root, message=arguments.message), output)


@command(
    "merge",
    "Merge the changes of a copied version into its original, or the other way around.",
    examples=(
        "hubarray merge lab/scans:mine lab/scans:v1",
        "hubarray merge lab/scans:mine lab/scans:v1 --on-conflict theirs",
    ),
    arguments=(
        argument("source", help="the version with the changes"),
        argument("into", help="the version that receives them"),
        argument("--on-conflict", choices=("ours", "theirs"), help="which side wins if both changed an element"),
        MESSAGE,
    ),
)
def merge(arguments: Namespace, output: Output) -> int:
    """``hubarray merge``."""
    array = hub.merge_version(
        arguments.source, into=arguments.into, on_conflict=arguments.on_conflict, root=arguments.root,
        message=arguments.message,
    )  # fmt: skip
    return made(array, output)


@command(
    "expire",
    "Expire old commits; 'hubarray gc' frees their data after the grace period.",
    examples=(
        "hubarray expire lab/scans:v1 --keep-last 10",
        "hubarray expire lab/scans:v1 --older-than 2026-01-01 --yes",
    ),
    arguments=(
        argument("name"),
        argument("--keep-last", type=count, metavar="N", help="number of newest commits to keep"),
        argument("--older-than", metavar="TIME", help="only commits before this time, in UTC by default"),
        YES,
        MESSAGE,
    ),
)
def expire(arguments: Namespace, output: Output) -> int:
    """``hubarray expire``."""
    if arguments.keep_last is None and arguments.older_than is None:
        raise ConfigError("say which commits expire: --keep-last N, --older-than TIME, or both")
    if not confirmed(f"Let old commits of {arguments.name} expire?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{arguments.name} is as it was"}, [])
        return NOT_DONE
    number = hub.expire(
        arguments.name, keep_last=arguments.keep_last, older_than=arguments.older_than, root=arguments.root,
        message=arguments.message,
    )  # fmt: skip
    output.value({"expired_to": number}, [f"commits up to {number} have expired; 'hubarray gc' frees their data"])
    return DONE
