"""Rows of a table, for a look at them."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

import hubarray as hub
from hubarray.cli.command import DONE, argument, command
from hubarray.cli.output import Output
from hubarray.errors import ConfigError
from hubarray.redaction import with_article

_MAX_ROWS = 1000
_MAX_ELEMENTS = 16
_MAX_LETTERS = 60


@command(
    "rows",
    "Show some rows of a table.",
    examples=(
        "hubarray rows lab/drives:v1",
        "hubarray rows lab/drives:v1 100:110 --columns 'camera.*' speed",
        "hubarray rows lab/drives:v1 -1 --json",
    ),
    arguments=(
        argument("name"),
        argument("rows", nargs="?", default="0:5", help="a row, or first:stop as in Python (default: 0:5)"),
        argument("--columns", nargs="+", metavar="COLUMN", help="names, or patterns such as 'camera.*'"),
    ),
)
def rows(arguments: Namespace, output: Output) -> int:
    """``hubarray rows``."""
    table: Any = hub.load(arguments.name, root=arguments.root)
    if not isinstance(table, hub.Table):
        raise ConfigError(
            f"{arguments.name}: is {with_article(table.kind)}, but a table is expected; hubarray get reads elements"
        )
    positions = _positions(arguments.rows, len(table))
    if len(positions) > _MAX_ROWS:
        raise ConfigError(f"{arguments.rows}: are {len(positions):,} rows, and {_MAX_ROWS:,} are shown; hub.export")
    batch = table.loader().get_batch(positions, arguments.columns)
    shown_rows = [{"row": at} | {name: _plain(value) for name, value in row.items()}
            for at, row in zip(positions, batch, strict=True)]  # fmt: skip
    output.table([{name: value if output.json else _shown(value) for name, value in row.items()} for row in shown_rows])
    return DONE


def _positions(text: str, count: int) -> range:
    parts = text.split(":")
    try:
        bounds = [int(part) if part.strip() else None for part in parts]
    except ValueError:
        bounds = []
    if len(bounds) == 1 and bounds[0] is not None:
        if not -count <= bounds[0] < count:
            raise ConfigError(f"{text}: the table has {count:,} rows")
        return range(bounds[0] % count, bounds[0] % count + 1)
    if not 2 <= len(bounds) <= 3 or bounds[2:] == [0]:
        raise ConfigError(f"{text}: give a row, or first:stop, such as 0:5")
    return range(*slice(*bounds).indices(count))


def _plain(value: Any) -> Any:
    """A value as JSON: arrays of a few elements as lists, larger ones by their shape."""
    if isinstance(value, np.ndarray):
        if value.size <= _MAX_ELEMENTS and value.dtype.kind in "biufU":
            return value.tolist()
        return f"{value.dtype} of {'x'.join(map(str, value.shape))}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufU" else value


def _shown(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_LETTERS else f"{text[: _MAX_LETTERS - 1]}…"
