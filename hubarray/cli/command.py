"""Commands: name, help and arguments, said where the function is."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hubarray as hub
from hubarray.api import registry
from hubarray.cli.output import Output
from hubarray.errors import ConfigError

DONE, NOT_DONE, PROBLEMS = 0, 1, 3

Run = Callable[[Namespace, Output], int]


@dataclass(frozen=True)
class Command:
    """One command of the command line.

    Attributes
    ----------
    name, summary : str
    examples : sequence of str
        Lines for ``--help``.
    arguments : sequence of Argument
        Beside ``--root`` and ``--json``.
    json : bool
        Whether it has ``--json``.
    run : callable
        Does it, and gives the exit code.
    """

    name: str
    summary: str
    examples: Sequence[str]
    arguments: Sequence[Argument]
    json: bool
    run: Run

    def add_to(self, subparsers: Any) -> None:
        """Have it parsed."""
        examples = "\n".join(f"  {line}" for line in self.examples)
        parser = subparsers.add_parser(
            self.name, help=self.summary, description=self.summary, epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        parser.add_argument("--root", metavar="URL", help="the bucket or folder, if not the configured one")
        if self.json:
            parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
        for argument in self.arguments:
            parser.add_argument(*argument.flags, **argument.options)
        parser.set_defaults(run=self.run)


@dataclass(frozen=True)
class Argument:
    """One argument, as :meth:`argparse.ArgumentParser.add_argument` takes it."""

    flags: tuple[str, ...]
    options: dict[str, Any]


COMMANDS: dict[str, Command] = {}


def command(
    name: str, summary: str, *, examples: Sequence[str], arguments: Sequence[Argument] = (), json: bool = True
) -> Callable[[Run], Run]:
    """Make a function a command; ``--help`` lists them in the order in which they are made."""

    def added(run: Run) -> Run:
        COMMANDS[name] = Command(name, summary, examples, arguments, json, run)
        return run

    return added


def argument(*flags: str, **options: Any) -> Argument:
    """An argument of a command."""
    return Argument(flags, options)


def count(text: str) -> int:
    """A number above 0, as an argument's type."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


MESSAGE = argument("-m", "--message", help="message of the commit in the log")
YES = argument("-y", "--yes", action="store_true", help="do not ask")


def made(handle: hub.Array | hub.Table | hub.Dataset, output: Output) -> int:
    """Show a version that a command made or changed."""
    name = f"{handle.name}:{handle.version}"
    shape, dtype = registry.of(handle).summary(handle)
    if isinstance(handle, hub.Array):
        facts = {"name": name, "commit": handle.commit, "shape": list(handle.shape), "dtype": str(handle.dtype)}
        output.value(facts, [f"{name}@{handle.commit}: shape {shape}, dtype {dtype}"])
        return DONE
    size = {"arrays": list(handle)} if isinstance(handle, hub.Dataset) else {"rows": len(handle)}
    output.value({"name": name, "commit": handle.commit} | size, [f"{name}@{handle.commit}: {shape}, {dtype}"])
    return DONE


ARRAY = argument("--array", metavar="NAME", help="an array of the dataset")


def loaded_array(name: str, root: str | None, array: str | None, *, instead: str) -> hub.Array:
    """An array, or one of a dataset, that a command reads or writes by an index.

    Raises
    ------
    ConfigError
        It is of another kind; with what there is instead.
    """
    loaded: Any = hub.load(name, root=root)
    if isinstance(loaded, hub.Dataset):
        if array is None:
            raise ConfigError(f"{name}: is a dataset; say which of its arrays, --array {' or '.join(loaded)}"[:400])
        return loaded[array]
    if array is not None:
        raise ConfigError(f"{name}: is a {loaded.kind}, which has no arrays of its own; leave out --array")
    if not isinstance(loaded, hub.Array):
        raise ConfigError(f"{name}: is a {loaded.kind}, but an array is expected; {instead}")
    return loaded
