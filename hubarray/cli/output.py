"""Output of commands: lines and tables for people, one JSON value for scripts."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hubarray.interop.plain import plain_json
from hubarray.redaction import shown_text


class Output:
    """Gathers a command's result.

    Parameters
    ----------
    json : bool
        Print one JSON value at the end, instead of text as it comes.
    """

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._value: Any = None
        self._printed = False

    def value(self, value: Any, lines: Iterable[str]) -> None:
        """A result: JSON, and the same as lines of text, each printed on one line, made only if they are printed."""
        self._value = value
        if not self.json:
            for line in lines:
                # Authors, messages and attributes are from a bucket: what a terminal would obey is shown instead.
                print(shown_text(line))

    def table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows with the same columns."""
        self.value(list(rows), table_lines(rows))

    def facts(self, facts: Mapping[str, Any], shown: Iterable[tuple[str, Any]] | None = None) -> None:
        """Names and values, a line each; ``shown`` if text is to say it in another way."""
        lines = list(facts.items() if shown is None else shown)
        width = max((len(name) for name, _ in lines), default=0)
        self.value(dict(facts), (f"{name:<{width}}  {value}".rstrip() for name, value in lines))

    def finish(self) -> None:
        """Print what is still to be printed."""
        if self.json and not self._printed:
            self._printed = True
            print(jsonlib.dumps(plain_json(self._value), indent=2, default=str, allow_nan=False))
        if sys.stdout is not None:
            sys.stdout.flush()

    def fail(self, kind: str, text: str) -> None:
        """An error, for scripts."""
        try:
            print(jsonlib.dumps({"error": kind, "message": text}), flush=True)
        except OSError:
            # The stream is what has failed.
            drop_output()


def drop_output() -> None:
    """Have what is still to be printed go nowhere, or Python complains of it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """A line on the error stream, if there is one."""
    # print() takes None for the output.
    if sys.stderr is not None:
        print(shown_text(text), file=sys.stderr)


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Columns as wide as their widest value."""
    if not rows:
        return
    names = list(rows[0])
    texts = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(names))]
    for line in texts:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether the user means it; without a terminal only ``--yes`` says so."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        complain(f"{question} Not done: pass --yes to do it without being asked.")
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
