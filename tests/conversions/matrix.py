"""What becomes of each kind of value at each entry point, as text; ``python -m tests.conversions.matrix`` writes it.

An outcome is what is stored, or the error. Of an error that another package words, only the class is kept.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub
from tests.conversions.entries import ENTRIES, Entry
from tests.conversions.kinds import KINDS

FILE = Path(__file__).with_name("matrix.txt")
ACCEPT = "python -m tests.conversions.matrix"
NEEDS = {"row_of_spark": "pyspark"}
_INDENT = "    "
# Where a message says which row it is of.
_WHERE = re.compile(r"^partition '(p|all)', row \d(, field 'x')?: (column 'x': )?|^'x': |^field 'x': ")
# Where one of ours goes on with words of another package, or begins with a value as another package shows it.
_OF_OTHERS = re.compile(
    r"(?<=fill_value ).*?(?= is not a |: the value| does not)|(?<= is not a ).*|^.+(?= cannot be stored as )"
    r"|(?<=cannot be stored as )\S+: (Python|could not|int\(\)|float\(\)|complex\(\)|cannot convert|Error|'utf-8'|'ascii'|Could not"
    r"|setting an array|invalid literal).*|(?<=Arrow cannot hold: ).*|^(Python integer|Python int|could not convert|int\(\)"
    r"|float\(\)|complex\(\)|Error parsing|Could not convert|setting an array element|invalid literal|cannot convert).*"
)


def outcome(name: str, kind: str, root: hub.Root) -> Any:
    """What an entry point stores of a kind of value, or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return ENTRIES[name].run(root, KINDS[kind], KINDS[kind].value())
        except Exception as error:
            return error


def shown(found: Any) -> str:
    """An outcome as text."""
    if isinstance(found, hub.HubError):
        words = _WHERE.sub("", str(found).split("\ncauses and remedies")[0].replace("\n", " "))
        return f"{type(found).__name__}: {_OF_OTHERS.sub('...', words)}"
    if isinstance(found, Exception):
        return type(found).__name__
    if isinstance(found, np.ndarray):
        return f"{found.dtype} {found.tolist()}"
    return str([item.item() if isinstance(item, np.generic) else item for item in found])


def described(kind: str, outcomes: dict[str, Any]) -> str:
    """The outcomes of a kind of value: each with the entry points that have it."""
    by_text: dict[str, list[str]] = {}
    for name, result in outcomes.items():
        by_text.setdefault(shown(result), []).append(name)
    lines = [f"{kind}, into {KINDS[kind].shown_dtype}"]
    for text, names in by_text.items():
        lines += [f"{_INDENT}{text}", f"{_INDENT * 2}{', '.join(names)}"]
    return "\n".join(lines)


def entries() -> dict[str, Entry]:
    """Return the entry points whose packages are installed; `make test-newest` has no Spark."""
    return {name: item for name, item in ENTRIES.items() if importlib.util.find_spec(NEEDS.get(name, "numpy"))}


def kept() -> dict[str, str]:
    """Return the outcomes that are kept, of each kind, at the entry points whose packages are installed."""
    blocks, missing = FILE.read_text().strip(), set(ENTRIES) - set(entries())
    for name in missing:
        blocks = re.sub(rf", {name}\b|\b{name}, ", "", blocks)
        blocks = re.sub(rf"\n{_INDENT}\S.*\n{_INDENT * 2}{name}$", "", blocks, flags=re.MULTILINE)
    return {block.splitlines()[0].rpartition(", into ")[0]: block for block in blocks.split("\n\n")}


def _write() -> None:
    hub.configure(cache_dir=tempfile.mkdtemp())
    blocks = []
    for kind in KINDS:
        outcomes = {name: outcome(name, kind, hub.Root(tempfile.mkdtemp())) for name in ENTRIES}
        blocks.append(described(kind, outcomes))
    FILE.write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    _write()
