"""``hubarray explain``: what an error class means, and what to do."""

from __future__ import annotations

import inspect
from argparse import Namespace

from hubarray import errors
from hubarray.cli.command import DONE, argument, command
from hubarray.cli.output import Output

CLASSES = {
    name: one
    for name, one in vars(errors).items()
    if inspect.isclass(one) and issubclass(one, errors.HubError) and one is not errors.HubError
}


@command(
    "explain",
    "Explain an error: its cause, and what to do.",
    examples=("hubarray explain ConflictError",),
    arguments=[argument("error", choices=CLASSES, metavar="CLASS", help="its name, such as ConflictError")],
)
def explain(arguments: Namespace, output: Output) -> int:
    """``hubarray explain``."""
    found = CLASSES[arguments.error]
    about = inspect.getdoc(found) or ""
    facts = {"error": arguments.error, "cause": about, "remedy": found.remedy}
    output.value(facts, [*about.split("\n"), "", f"What to do: {found.remedy}"])
    return DONE
