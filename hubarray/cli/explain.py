"""``hubarray explain``: what an error class means, and what to do."""

from __future__ import annotations

import inspect
from argparse import Namespace

from hubarray import errors
from hubarray.cli.command import DONE, argument, command
from hubarray.cli.output import Output

CLASSES = {
    name: error_class
    for name, error_class in vars(errors).items()
    if inspect.isclass(error_class) and issubclass(error_class, errors.HubError) and error_class is not errors.HubError
}


@command(
    "explain",
    "Explain an error: its cause, and what to do.",
    examples=("hubarray explain ConflictError",),
    arguments=[argument("error", choices=CLASSES, metavar="CLASS", help="its name, such as ConflictError")],
)
def explain(arguments: Namespace, output: Output) -> int:
    """``hubarray explain``."""
    error_class = CLASSES[arguments.error]
    about = inspect.getdoc(error_class) or ""
    facts = {"error": arguments.error, "cause": about, "remedy": error_class.remedy}
    output.value(facts, [*about.split("\n"), "", f"What to do: {error_class.remedy}"])
    return DONE
